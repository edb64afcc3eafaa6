"""A merchant's fees: rates by payment method and currency, each with a fixed part.

The schedule is stored as JSON in ``merchants.fees`` and copied to ``orders.fees`` when a session is
opened. The most specific row applies: method and currency, then method, then the default rate. The
fields of ``Scope`` are a row's criteria.
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
MAX_RATE_DIGITS: Final = 6  # a rate has at most this many digits after the decimal point
_CHANGE: Final = re.compile(
    r"(?P<method>[A-Z_]+)"
    r"(?::(?P<currency>[A-Z]{3}))?"
    r"=(?:(?P<rate>[0-9.]+)(?:\+(?P<fixed>[0-9.]+))?)?",
    re.ASCII,
)
_FORM: Final = "fee must be METHOD[:CURRENCY]=RATE[+FIXED], such as CREDIT_CARD:USD=0.029+0.30"


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The criteria of a row, None for any value; or the properties of a payment.

    Later fields have more weight if several rows match. A new field must default to None, so that
    stored rows keep their meaning and their JSON.
    """

    method: Method
    currency: str | None

    @property
    def key(self) -> tuple[str, ...]:
        """The unique sort key of a row; "" stands for any value."""
        return tuple(getattr(self, name) or "" for name in Scope.__struct_fields__)

    @property
    def weight(self) -> tuple[bool, ...]:
        """How specific a row is; of the matching rows, the one with the greatest weight applies."""
        return tuple(value != "" for value in reversed(self.key))

    def covers(self, payment: "Scope") -> bool:
        """Whether a row matches a payment."""
        pairs = zip(self.key, payment.key, strict=True)
        return all(criterion in {"", value} for criterion, value in pairs)


class Fee(Scope, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the schedule.

    ``fixed`` is decimal text in the row's currency. In a row without a currency, it is in the
    settlement currency, and charged only for payments in that currency.
    """

    rate: Decimal
    fixed: str

    def __str__(self) -> str:
        """Format the row as a change that ``apply_changes`` accepts."""
        where = f":{self.currency}" if self.currency else ""
        fixed = f"+{self.fixed}" if self.fixed != "0.00" else ""
        return f"{self.method}{where}={money.rate_text(self.rate)}{fixed}"

    def fixed_minor(self, currency: str, settled_currency: str) -> int:
        """Return the fixed part for a payment in ``currency``, in its minor units."""
        applies = self.currency == currency if self.currency else settled_currency == currency
        return money.parse(self.fixed, currency) if applies else 0


def is_rate(rate: Decimal) -> bool:
    """Whether a number is a valid rate: from 0 to below 1, with at most six decimals."""
    exponent = rate.normalize().as_tuple().exponent if rate.is_finite() else None
    return isinstance(exponent, int) and exponent >= -MAX_RATE_DIGITS and 0 <= rate < 1


def parse_schedule(text: str) -> tuple[Fee, ...]:
    """Parse a stored schedule."""
    return msgspec.json.decode(text, type=tuple[Fee, ...])


def pick(rows: Iterable[Fee], payment: Scope) -> Fee | None:
    """Return the row that applies to a payment, None for the default rate."""
    matching = (row for row in rows if row.covers(payment))
    return max(matching, key=lambda row: row.weight, default=None)


def apply_changes(text: str, changes: Iterable[str], settlement_currency: str) -> str:
    """Apply changes to a schedule and return its JSON; a change without a rate removes a row.

    Raises Invalid on ``fee``.
    """
    rows = {row.key: row for row in parse_schedule(text)}
    for change in changes:
        match = _CHANGE.fullmatch(change.strip())
        if match is None:
            raise Invalid("fee", _FORM)
        scope = _scope(match.groupdict())
        if match["rate"] is not None:
            rows[scope.key] = _row(scope, match["rate"], match["fixed"], settlement_currency)
        elif rows.pop(scope.key, None) is None:
            raise Invalid("fee", f"fee must be one that is there, to take {change} away")
    if len(rows) > MAX_ROWS:
        raise Invalid("fee", f"fee must not be given for more than {MAX_ROWS} rows")
    return msgspec.json.encode([rows[key] for key in sorted(rows)]).decode()


def _scope(groups: Mapping[str, str | None]) -> Scope:
    criteria = {name: groups[name] for name in Scope.__struct_fields__}
    if criteria["method"] not in METHODS:
        raise Invalid("fee", f"fee must be of one of the methods {' '.join(METHODS)}")
    if criteria["currency"] is not None and criteria["currency"] not in money.EXPONENTS:
        raise Invalid("fee", "fee must be of an active ISO 4217 code such as USD")
    return msgspec.convert(criteria, Scope)


def _row(scope: Scope, rate: str, fixed: str | None, settlement_currency: str) -> Fee:
    share = Decimal(rate) if re.fullmatch(r"[0-9]*\.?[0-9]+", rate) else Decimal("NaN")
    if not is_rate(share):
        raise Invalid("fee", "fee must have a rate from 0 to below 1 of at most six decimals")
    currency = scope.currency or settlement_currency
    try:
        minor = money.parse(fixed or "0", currency)
    except ValueError as error:
        raise Invalid("fee", f"fee, its fixed part in {currency}, {error}") from None
    share = Decimal(money.rate_text(share))
    return Fee(**msgspec.structs.asdict(scope), rate=share, fixed=money.show(minor, currency))
