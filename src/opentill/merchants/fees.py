"""A merchant's fees: rates by payment method and currency, each with a fixed part.

The schedule is kept as JSON text, ``merchants.fees``, and frozen into ``orders.fees`` when a
session is opened. The most specific row counts: method and currency, then method, then the
default rate.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.core.payment_methods import BY_NAME, METHODS, Method

MAX_ROWS: Final = 100
MAX_RATE_DIGITS: Final = 6  # after the decimal point
_CHANGE: Final = re.compile(r"([A-Z_]+)(?::([A-Z]{3}))?=(?:([0-9.]+)(?:\+([0-9.]+))?)?", re.ASCII)
_FORM: Final = "fee must be METHOD[:CURRENCY]=RATE[+FIXED], such as CREDIT_CARD:USD=0.029+0.30"


class Fee(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the schedule.

    ``fixed`` is decimal text in the row's currency. Without one it is in the settlement currency,
    and only payments in that have the fixed part.
    """

    method: Method
    currency: str | None
    rate: Decimal
    fixed: str

    def __str__(self) -> str:
        """Write the row the way it is given."""
        where = f":{self.currency}" if self.currency else ""
        fixed = f"+{self.fixed}" if self.fixed != "0.00" else ""
        return f"{self.method}{where}={money.rate_text(self.rate)}{fixed}"

    def fixed_minor(self, currency: str, settled_currency: str) -> int:
        """Return the fixed part of a payment in ``currency``, in its minor units."""
        applies = self.currency == currency if self.currency else settled_currency == currency
        return money.parse(self.fixed, currency) if applies else 0


def is_rate(rate: Decimal) -> bool:
    """Return whether a number can be a share of a payment: from 0 to below 1, of six decimals."""
    exponent = rate.normalize().as_tuple().exponent if rate.is_finite() else None
    return isinstance(exponent, int) and exponent >= -MAX_RATE_DIGITS and 0 <= rate < 1


def read(text: str) -> tuple[Fee, ...]:
    """Read a stored schedule."""
    return msgspec.json.decode(text, type=tuple[Fee, ...])


def pick(rows: Iterable[Fee], method: Method, currency: str) -> Fee | None:
    """Return the row that counts for a payment, None if the default rate does."""
    fitting = [row for row in rows if row.method == method and row.currency in (currency, None)]
    return max(fitting, key=lambda row: row.currency is not None, default=None)


def changed(text: str, changes: Iterable[str], settlement_currency: str) -> str:
    """Change a schedule and return it, to be kept; ``METHOD[:CURRENCY]=`` takes a row away.

    Raises Invalid on ``fee``.
    """
    rows = {(row.method, row.currency): row for row in read(text)}
    for change in changes:
        found = _CHANGE.fullmatch(change.strip())
        if found is None:
            raise Invalid("fee", _FORM)
        name, currency, rate, fixed = found.groups()
        method = BY_NAME.get(name)
        if method is None:
            raise Invalid("fee", f"fee must be of one of the methods {' '.join(METHODS)}")
        if currency is not None and currency not in money.EXPONENTS:
            raise Invalid("fee", "fee must be of an active ISO 4217 code such as USD")
        if rate is None:
            if rows.pop((method, currency), None) is None:
                raise Invalid("fee", f"fee must be one that is there, to take {change} away")
            continue
        rows[method, currency] = _row(method, currency, rate, fixed, settlement_currency)
    if len(rows) > MAX_ROWS:
        raise Invalid("fee", f"fee must not be given for more than {MAX_ROWS} rows")
    ordered = sorted(rows.values(), key=lambda row: (row.method, row.currency or ""))
    return msgspec.json.encode(ordered).decode()


def _row(
    method: Method, currency: str | None, rate: str, fixed: str | None, settlement_currency: str
) -> Fee:
    share = Decimal(rate) if re.fullmatch(r"[0-9]*\.?[0-9]+", rate) else Decimal("NaN")
    if not is_rate(share):
        raise Invalid("fee", "fee must have a rate from 0 to below 1 of at most six decimals")
    inside = currency or settlement_currency
    try:
        minor = money.parse(fixed or "0", inside)
    except ValueError as error:
        raise Invalid("fee", f"fee, its fixed part in {inside}, {error}") from None
    share = Decimal(money.rate_text(share))
    return Fee(method=method, currency=currency, rate=share, fixed=money.show(minor, inside))
