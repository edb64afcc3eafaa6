"""Options of ``opentill gateways``: limits, costs and breakers, as text that people enter."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from opentill.gateways.accounts import AmountLimit, Cost, DayLimit

BreakBelow = Annotated[
    int | None,
    typer.Option(help="Pause it if fewer percent of its last 20 payments succeed; 0: never."),
]
BreakSlower = Annotated[
    int | None,
    typer.Option(help="Pause it if its responses take longer, in milliseconds; 0: never."),
]
BreakTexts = Annotated[
    list[str] | None,
    typer.Option(
        help="Pause it if it reports an error with this text. May be repeated; '' for none."
    ),
]
BreakMinutes = Annotated[
    int | None, typer.Option(help="How long it is paused then; 10 unless changed.")
]
_NONE: Final = "none"  # instead of a limit or a cost: removes it
_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?%", re.ASCII)
_LONGEST_NUMBER: Final = 10  # digits of a number of payments, and one


def parse_limit(text: str) -> "AmountLimit":
    """Parse ``EUR:1.00-500.00``. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import AmountLimit

    currency, amounts = _currency("limit", text, "EUR:1.00-500.00")
    if amounts == _NONE:
        return AmountLimit(currency, None, None)
    smallest, dash, largest = amounts.partition("-")
    if not dash:
        raise Invalid("limit", f"limit must be like EUR:1.00-500.00, not {text!r}")
    try:
        minor = [money.parse(part.strip(), currency) if part.strip() else None
                 for part in (smallest, largest)]  # fmt: skip
    except ValueError as error:
        raise Invalid("limit", f"limit {error}") from None
    return AmountLimit(currency, *minor)


def parse_day_limit(text: str) -> "DayLimit":
    """Parse ``EUR:10000.00/200``. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import DayLimit

    currency, values = _currency("dayLimit", text, "EUR:10000.00/200")
    if values == _NONE:
        return DayLimit(currency, None, None)
    largest, slash, number = (part.strip() for part in values.partition("/"))
    if slash and not (number.isascii() and number.isdecimal() and len(number) < _LONGEST_NUMBER):
        raise Invalid("dayLimit", f"dayLimit must have a whole number after the /, not {number!r}")
    if not largest and not slash:
        raise Invalid("dayLimit", f"dayLimit must be like EUR:10000.00/200, not {text!r}")
    try:
        minor = money.parse(largest, currency) if largest else None
    except ValueError as error:
        raise Invalid("dayLimit", f"dayLimit {error}") from None
    return DayLimit(currency, minor, int(number) if slash else None)


def split_costs(costs: list[str]) -> tuple[list[str], list[str]]:
    """Return the costs, and the currencies whose cost is ``none``."""
    values = [_currency("cost", text, "EUR:2.9%+0.30") for text in costs]
    removed = [currency for currency, value in values if value == _NONE]
    texts = [text for text, (_, value) in zip(costs, values, strict=True) if value != _NONE]
    return texts, removed


def parse_cost(text: str) -> "Cost":
    """Parse ``EUR:2.9%+0.30``. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.gateways.accounts import Cost

    currency, value = _currency("cost", text, "EUR:2.9%+0.30")
    rate, plus, fixed = (part.strip() for part in value.partition("+"))
    percent = _PERCENT.fullmatch(rate)
    if percent is None:
        reason = f"cost must be like EUR:2.9%+0.30 with at most two decimals, not {text!r}"
        raise Invalid("cost", reason)
    try:
        fixed_minor = money.parse(fixed, currency) if plus else 0
    except ValueError as error:
        raise Invalid("cost", f"cost {error}") from None
    return Cost(currency, int(percent[1] + (percent[2] or "").ljust(2, "0")), fixed_minor)


def _currency(field: str, text: str, example: str) -> tuple[str, str]:
    """Split a text such as ``EUR:…`` after its currency. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid

    currency, colon, value = text.strip().partition(":")
    if not colon or currency not in money.EXPONENTS:
        raise Invalid(field, f"{field} must be like {example}, not {text!r}")
    return currency, value.strip()
