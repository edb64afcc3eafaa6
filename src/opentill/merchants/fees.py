"""A merchant's fees: rates by payment method and currency, each with a fixed part.

The schedule is kept as JSON text, ``merchants.fees``, and frozen into ``orders.fees`` when a
session is opened. The most specific row counts: method and currency, then method, then the
default rate. What a row can ask for is a field of ``Scope``.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.core.payment_methods import METHODS, Method

MAX_ROWS: Final = 100
MAX_RATE_DIGITS: Final = 6  # after the decimal point
_CHANGE: Final = re.compile(
    r"(?P<method>[A-Z_]+)"
    r"(?::(?P<currency>[A-Z]{3}))?"
    r"=(?:(?P<rate>[0-9.]+)(?:\+(?P<fixed>[0-9.]+))?)?",
    re.ASCII,
)
_FORM: Final = "fee must be METHOD[:CURRENCY]=RATE[+FIXED], such as CREDIT_CARD:USD=0.029+0.30"


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a payment is; of a row, which payments it is for: None stands for all of them.

    The later a field, the more it weighs when several rows fit. A new field is None by default: the
    rows that are kept mean what they meant, and are written as they were.
    """

    method: Method
    currency: str | None

    @property
    def key(self) -> tuple[str, ...]:
        """What no two rows have in common, and what they are sorted by; "" where all are meant."""
        return tuple(getattr(self, name) or "" for name in Scope.__struct_fields__)

    @property
    def weight(self) -> tuple[bool, ...]:
        """How specific a row is: of those that are for a payment, the greatest one counts."""
        return tuple(value != "" for value in reversed(self.key))

    def covers(self, payment: "Scope") -> bool:
        """Return whether a row is for the payment."""
        pairs = zip(self.key, payment.key, strict=True)
        return all(asked in {"", found} for asked, found in pairs)


class Fee(Scope, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the schedule.

    ``fixed`` is decimal text in the row's currency. Without one it is in the settlement currency,
    and only payments in that have the fixed part.
    """

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
    """Read a schedule that was kept."""
    return msgspec.json.decode(text, type=tuple[Fee, ...])


def pick(rows: Iterable[Fee], payment: Scope) -> Fee | None:
    """Return the row that counts for a payment, None if the default rate does."""
    fitting = (row for row in rows if row.covers(payment))
    return max(fitting, key=lambda row: row.weight, default=None)


def changed(text: str, changes: Iterable[str], settlement_currency: str) -> str:
    """Change a schedule and return it, to be kept; a change without a rate takes a row away.

    Raises Invalid on ``fee``.
    """
    rows = {row.key: row for row in read(text)}
    for change in changes:
        found = _CHANGE.fullmatch(change.strip())
        if found is None:
            raise Invalid("fee", _FORM)
        scope = _scope(found.groupdict())
        if found["rate"] is not None:
            rows[scope.key] = _row(scope, found["rate"], found["fixed"], settlement_currency)
        elif rows.pop(scope.key, None) is None:
            raise Invalid("fee", f"fee must be one that is there, to take {change} away")
    if len(rows) > MAX_ROWS:
        raise Invalid("fee", f"fee must not be given for more than {MAX_ROWS} rows")
    return msgspec.json.encode([rows[key] for key in sorted(rows)]).decode()


def _scope(given: Mapping[str, str | None]) -> Scope:
    asked = {name: given[name] for name in Scope.__struct_fields__}
    if asked["method"] not in METHODS:
        raise Invalid("fee", f"fee must be of one of the methods {' '.join(METHODS)}")
    if asked["currency"] is not None and asked["currency"] not in money.EXPONENTS:
        raise Invalid("fee", "fee must be of an active ISO 4217 code such as USD")
    return msgspec.convert(asked, Scope)


def _row(scope: Scope, rate: str, fixed: str | None, settlement_currency: str) -> Fee:
    share = Decimal(rate) if re.fullmatch(r"[0-9]*\.?[0-9]+", rate) else Decimal("NaN")
    if not is_rate(share):
        raise Invalid("fee", "fee must have a rate from 0 to below 1 of at most six decimals")
    inside = scope.currency or settlement_currency
    try:
        minor = money.parse(fixed or "0", inside)
    except ValueError as error:
        raise Invalid("fee", f"fee, its fixed part in {inside}, {error}") from None
    share = Decimal(money.rate_text(share))
    return Fee(**msgspec.structs.asdict(scope), rate=share, fixed=money.show(minor, inside))
