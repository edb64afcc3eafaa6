"""The fields that say when an account pauses itself; also of the environment's accounts."""

from collections.abc import Mapping
from typing import Any, Final

from opentill.gateways.account import Breaker
from opentill.web.translations import N_

FIELDS: Final = ("break_below", "break_slower", "break_minutes", "break_texts")
# Fields with a whole number, and their error texts.
NUMBERS: Final[Mapping[str, str]] = {
    "break_below": N_("Enter a whole number from 0 to 99"),
    "break_slower": N_("Enter 0, or a whole number from 100 to 60000"),
    "break_minutes": N_("Enter a whole number from 1 to 1440"),
}
# Field of the service → field of the form, and its error text.
ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "breakText": ("break_texts", N_("Enter at most 20 lines of 1 to 60 characters")),
    "breakBelow": ("break_below", NUMBERS["break_below"]),
    "breakSlower": ("break_slower", NUMBERS["break_slower"]),
    "breakMinutes": ("break_minutes", NUMBERS["break_minutes"]),
}


def values_of(breaker: Breaker) -> dict[str, str]:
    """Return the values of the fields."""
    return {
        "break_below": str(breaker.break_below_percent or 0),
        "break_slower": str(breaker.break_slower_ms or 0),
        "break_minutes": str(breaker.break_minutes),
        "break_texts": "\n".join(breaker.break_texts),
    }


def read_number(text: str) -> int | None:
    """Return a whole number of at most nine digits; None for another text."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None  # noqa: PLR2004 - fits an int


def read(form: Mapping[str, str], errors: dict[str, str]) -> dict[str, Any]:
    """Return the fields of ``AccountChanges``; wrong ones are added to ``errors``."""
    numbers = {name: read_number(form[name]) for name in NUMBERS}
    errors |= {name: NUMBERS[name] for name, number in numbers.items() if number is None}
    lines = (line.strip() for line in form["break_texts"].splitlines())
    return {
        "break_below_percent": numbers["break_below"],
        "break_slower_ms": numbers["break_slower"],
        "break_minutes": numbers["break_minutes"],
        "break_texts": tuple(filter(None, lines)),
    }
