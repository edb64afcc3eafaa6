"""How people see a result: names as words, times in UTC, amounts with their currency.

JSON keeps what the API has: names in camel case, times in Unix ms, amounts as decimal text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, cast

from opentill.cli import times
from opentill.core import terminal

# Maps a field with an amount to the fields that may have its currency, or to a fixed currency.
_AMOUNTS: Final[dict[str, tuple[str, ...]]] = {
    name: fields
    for names, fields in (
        ("amount baseAmount payableAmount refundedAmount platformFee netAmount", ("currency",)),
        ("available pending frozen reserve frozenByHand settled", ("currency",)),
        ("settledAmount rollingReserveAmount", ("settledCurrency",)),
        ("debit fee", ("debitCurrency", "currency")),
        ("overdraft disputeFee payoutMinimum", ("settlementCurrency",)),
        ("userRefundAmountUsd merchantDebitUsd", ("USD",)),
    )
    for name in names.split()
}
# Fields that are not shown if amounts of the record show their currency.
_CURRENCIES: Final = ("currency", "debitCurrency", "settledCurrency")
_TIMES: Final = ("at", "now", "real", "validFrom", "respondBy")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def heading(name: str) -> str:
    """Return a field's heading: ``createdAt`` is ``created at (UTC)``."""
    words = _BREAKS.sub(" ", name).lower()
    return f"{words} (UTC)" if _is_time(name) else words


def fields(record: Mapping[str, object], columns: Sequence[str] = ()) -> list[str]:
    """Return the columns to show, by default all fields, without currencies that amounts show."""
    names = list(columns or record)
    currency_fields = {_currency_field(name, record) for name in names}
    return [name for name in names if not (name in currency_fields and name in _CURRENCIES)]


def text(name: str, record: Mapping[str, object]) -> str:
    """Format a field of a record on one line."""
    value = record.get(name)
    field = _currency_field(name, record)
    if value is None or field is None:
        return _plain(name, value)
    currency = str(record.get(field, field))
    return amount(value, currency)


def amount(value: object, currency: str, *, minor: bool = False) -> str:
    """Format an amount with its currency: ``12.50 USD``, ``10 JPY``.

    ``minor``: the value is in minor units. A value that is not a number, such as text in which a
    gateway reported an amount, is returned without a currency.
    """
    from opentill.core import money

    if _NUMBER.fullmatch(str(value)) is None:
        return escape_line(str(value))
    decimals = money.EXPONENTS.get(currency)
    if decimals is None:
        return f"{value} {currency}".strip()
    exact = Decimal(str(value)).scaleb(-decimals if minor else 0)
    return f"{exact:.{min(decimals, 2)}f} {currency}"


def _currency_field(name: str, record: Mapping[str, object]) -> str | None:
    """Return the field that contains an amount's currency, or a fixed currency.

    Returns None for a field that is no amount.
    """
    possible_fields = _AMOUNTS.get(name, ())
    candidates = (field for field in possible_fields if field in record or field.isupper())
    return next(candidates, None)


def _is_time(name: str) -> bool:
    return name in _TIMES or name.endswith("At")


def _plain(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ""
    if isinstance(value, int) and _is_time(name):
        return times.format_time(value)
    if isinstance(value, Mapping):
        return escape_line(json.dumps(value, ensure_ascii=False)) if value else ""
    if isinstance(value, list):
        return ", ".join(_plain("", one) for one in cast("Sequence[object]", value))
    return escape_line(str(value))


def escape_line(line: str) -> str:
    """Escape a line for a terminal."""
    return terminal.escape(line).replace("\n", "\\n")
