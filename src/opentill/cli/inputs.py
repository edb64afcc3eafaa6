"""What commands take: options, amounts, rates and dates as text, and who runs the command."""

import getpass
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeVar

import typer

from opentill.core.terminal import Terminal

if TYPE_CHECKING:
    from opentill.merchants import Actor

W = TypeVar("W", bound=str)
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
NO_REASON: Final = "by command, without a reason"
Reason = Annotated[str, typer.Option("--reason", help="Why; required, for the audit log.")]
OptionalReason = Annotated[
    str, typer.Option("--reason", help="Why; goes to the audit log, if given.")
]
Reference = Annotated[
    str,
    typer.Option("--reference", help="Your reference; required. Repeated, nothing is done twice."),
]
By = Annotated[str, typer.Option("--by", help="Who does it; without it, the system's user name.")]
OnlyMerchant = Annotated[str | None, typer.Argument(help="Only this merchant's.")]
From = Annotated[str | None, typer.Option("--from", help="First day (UTC), or Unix ms.")]
To = Annotated[str | None, typer.Option("--to", help="Last day (UTC), or Unix ms.")]
Output = Annotated[
    Path | None, typer.Option("--output", help="A file; without it, standard output.")
]


class Target(Protocol):
    """Where a file is written to."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""
        ...

    def flush(self) -> object:
        """Pass on what was written."""
        ...


@contextmanager
def target(path: Path | None) -> Iterator[Target]:
    """Open a file to write, or standard output where there is none. Raises Invalid.

    On a terminal, control characters are written as escapes.
    """
    from opentill.core.errors import Invalid

    if path is None:
        if sys.stdout.isatty():
            yield Terminal(sys.stdout.buffer)
        else:
            yield sys.stdout.buffer
        return
    try:
        file = path.open("wb")
    except OSError as error:
        reason = f"output must be a file that can be written: {error.strerror}"
        raise Invalid("output", reason) from None
    with file:
        yield file


def who(by: str) -> str:
    """Return who does it, for the audit log."""
    if by.strip():
        return by.strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        return f"user {os.getuid()}"


def actor(by: str, reason: str, without_reason: str = "") -> "Actor":
    """Return who does it and why, for the audit log."""
    from opentill.merchants import Actor

    return Actor(who(by), reason.strip() or without_reason)


def rate(field: str, text: str | None) -> Decimal | None:
    """Turn decimal text into a rate. Raises Invalid."""
    from opentill.core.errors import Invalid

    if text is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Invalid(field, f"{field} must be a decimal number such as 0.04") from None


def amount(field: str, text: str | None, currency: str) -> int | None:
    """Turn decimal text into minor units of the currency. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid

    if text is None:
        return None
    try:
        return money.parse(text, currency)
    except ValueError as error:
        raise Invalid(field, f"{field} {error}") from None


def moment(field: str, text: str | None, *, end: bool = False) -> int | None:
    """Turn ``YYYY-MM-DD`` (UTC; its end with ``end``) or Unix ms into Unix ms. Raises Invalid."""
    from opentill.core.errors import Invalid

    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) >= 9:  # noqa: PLR2004 - no year has nine
        return min(int(text), _LAST_MS)
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        reason = f"{field} must be a date such as 2026-01-31, or Unix milliseconds"
        raise Invalid(field, reason) from None
    start = int(day.timestamp()) * 1000
    return start + 86_400_000 - 1 if end else start


def period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Turn ``--from`` and ``--to`` into Unix ms, both inclusive. Raises Invalid."""
    from opentill.core.errors import Invalid

    start, end = moment("from", since), moment("to", until, end=True)
    if start is not None and end is not None and start > end:
        raise Invalid("to", "to must not be before from")
    return start, end


def choice(field: str, text: str | None, words: Sequence[W]) -> W | None:
    """Return which of the words was given. Raises Invalid for any other."""
    from opentill.core.errors import Invalid

    found = next((word for word in words if word == text), None)
    if found is None and text is not None:
        raise Invalid(field, f"{field} must be one of {' '.join(words)}")
    return found


def day(millis: int) -> str:
    """Write the day (UTC) of Unix ms, for people."""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d")
