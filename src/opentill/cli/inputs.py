"""What commands take: amounts, rates and dates as text, and who is at the keyboard."""

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
Reason = Annotated[str, typer.Option("--reason", help="Why; goes to the audit log.")]
Reference = Annotated[
    str,
    typer.Option("--reference", help="Yours; compulsory: given again, the same is not done twice."),
]
By = Annotated[str, typer.Option("--by", help="Who does it; without it, the system's user name.")]


@contextmanager
def target(path: Path | None) -> Iterator[BinaryIO]:
    """Open a file to write, or standard output where there is none. Raises Invalid."""
    from opentill.core.errors import Invalid

    if path is None:
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
    try:
        return by.strip() or getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user id {os.geteuid()}"


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


def day(millis: int) -> str:
    """Write Unix ms as the day (UTC) they are in, for people."""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d")
