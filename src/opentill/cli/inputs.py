"""Options of commands, and parsing of amounts, rates, dates and files."""

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Protocol, TypeVar

import typer

from opentill.cli import atomic_write, times
from opentill.cli.progress import progress
from opentill.core.terminal import Terminal

if TYPE_CHECKING:
    from opentill.merchants import Actor

W = TypeVar("W", bound=str)
_ACCEPTED: Final = (
    "a time in UTC such as 2026-01-31, '2026-01-31 14:30' or 2026-01-31T14:30:00Z, today,"
    " yesterday, {duration}, or Unix milliseconds"
)
NO_REASON: Final = "by command, without a reason"
Reason = Annotated[str, typer.Option("--reason", help="The reason, for the audit log; required.")]
OptionalReason = Annotated[str, typer.Option("--reason", help="The reason, for the audit log.")]
Reference = Annotated[
    str,
    typer.Option(
        "--reference", help="Your reference; required. Repeating it has no second effect."
    ),
]
AsRoot = Annotated[
    bool,
    typer.Option("--as-root", help="Run as the machine's owner, not as the person who logged in."),
]
OnlyMerchant = Annotated[str | None, typer.Argument(help="Only this merchant's.")]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="From this time on, in UTC: 2026-01-31 (from its start), '2026-01-31 14:30', today,"
        " yesterday, 7d (ago), or Unix ms.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="Up to this time, inclusive: 2026-01-31 (to its end); otherwise as --from.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", help="A file; without it, standard output.")
]


Bom = Annotated[
    bool, typer.Option("--bom", help="Begin CSV with a byte order mark, for spreadsheets.")
]


class Target(Protocol):
    """A file or stream to which a command writes bytes."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""
        ...

    def flush(self) -> object:
        """Flush written bytes."""
        ...


@contextmanager
def target(path: Path | None) -> Iterator[Target]:
    """Open a file to write, or standard output if ``path`` is None. Raises Invalid.

    Where possible, the file replaces an existing one only when it is complete. On a terminal,
    control characters are written as escapes.
    """
    if path is None:
        if sys.stdout.isatty():
            yield _CheckedTarget(Terminal(sys.stdout.buffer))
        else:
            yield _CheckedTarget(sys.stdout.buffer)
        return
    with progress(f"writing {path.name}") as advance, contextlib.ExitStack() as stack:
        temporary: Path | None = None
        with _writable():
            if _can_be_replaced(path):
                temporary, file = stack.enter_context(atomic_write.open_part(path))
            else:
                file = stack.enter_context(atomic_write.closing(path.open("wb")))
        counted_file = _CheckedTarget(file, advance)
        yield counted_file
        counted_file.flush()
        if temporary is not None:
            with _writable():
                _copy_permissions(file, path)
                os.fsync(file.fileno())
                _rename(temporary, path)


@contextmanager
def _writable() -> Iterator[None]:
    """Convert the block's errors of writing to Invalid, except the error of a closed pipe."""
    from opentill.core.errors import Invalid

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"output must be a file that can be written: {error.strerror or error}"
        raise Invalid("output", reason) from None


def _can_be_replaced(path: Path) -> bool:
    """Whether a new file can take the place of the file at ``path``.

    False for a device, a pipe, a link, a file of another user or of a group that this user is not
    in, and if this user cannot create files in its directory.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return False
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    is_own = status.st_uid == os.geteuid() and (
        os.geteuid() == 0 or status.st_gid in (os.getegid(), *os.getgroups())
    )
    return stat.S_ISREG(status.st_mode) and is_own


def _copy_permissions(file: IO[bytes], path: Path) -> None:
    """Give ``file`` the permissions of the file at ``path`` or, if there is none, of a new file.

    If the system does not allow that, ``file`` has fewer permissions, never more.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    else:
        mode = stat.S_IMODE(status.st_mode)
        try:
            os.fchown(file.fileno(), -1, status.st_gid)
        except PermissionError:
            # ``file`` could not get the old file's group, so it must not give its own group these
            # permissions.
            mode &= ~stat.S_IRWXG
    with contextlib.suppress(PermissionError):  # on some mounts all files belong to another user
        os.fchmod(file.fileno(), mode)


def _rename(temporary: Path, path: Path) -> None:
    """Rename a complete file to ``path``; if ``path`` is a mount point, copy its content."""
    try:
        temporary.replace(path)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        with temporary.open("rb") as complete, path.open("wb") as file:
            shutil.copyfileobj(complete, file)


@contextmanager
def source(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read. Raises Invalid."""
    from opentill.core.errors import Invalid

    try:
        file = path.open("rb")
    except OSError as error:
        reason = f"file must be one that can be read: {error.strerror}"
        raise Invalid("file", reason) from None
    with file:
        yield file


class _CheckedTarget:
    """A target that reports how many bytes it writes, and raises Invalid if writing fails."""

    def __init__(self, file: Target, advance: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._advance = advance

    def write(self, data: bytes, /) -> object:
        self._advance(len(data))
        with _writable():
            return self._file.write(data)

    def flush(self) -> object:
        with _writable():
            return self._file.flush()


def actor(reason: str, without_reason: str = "", *, as_root: bool) -> "Actor":
    """Return the actor of this command. Raises ``identity.NotAllowed``."""
    from opentill.cli import identity

    return identity.actor(reason.strip() or without_reason, as_root=as_root)


def rate(field: str, text: str | None) -> Decimal | None:
    """Parse decimal text into a rate. Raises Invalid."""
    from opentill.core.errors import Invalid

    if text is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Invalid(field, f"{field} must be a decimal number such as 0.04") from None


def amount(field: str, text: str | None, currency: str) -> int | None:
    """Parse ``12.50``, ``12.50 USD`` or ``USD 12.50`` into minor units. Raises Invalid.

    A currency in the text must be ``currency``. A fraction must be valid in this currency.
    """
    from opentill.core import money
    from opentill.core.errors import Invalid

    if text is None:
        return None
    codes = re.findall(r"[A-Za-z]{3}", text)
    number = re.sub(r"^[A-Za-z]{3} ?| ?[A-Za-z]{3}$", "", text.strip(), count=1)
    if any(code.upper() != currency for code in codes):
        raise Invalid(field, f"{field} must be in {currency}, such as '{_example(currency)}'")
    try:
        return money.parse(number, currency)
    except ValueError:
        no_fraction = f"without a fraction, since {currency} has none"
        rule = "with at most two fraction digits" if money.exponent(currency) else no_fraction
        reason = f"{field} must be a decimal number {rule}, such as '{_example(currency)}'"
        raise Invalid(field, reason) from None


def _example(currency: str) -> str:
    from opentill.cli import readable

    return readable.amount("25", currency)


def moment(field: str, text: str | None, *, end: bool = False, ahead: bool = False) -> int | None:
    """Parse a time in UTC into Unix ms (decision 0062). Raises Invalid.

    A day becomes its first millisecond or, with ``end``, its last. A duration such as ``7d`` is
    subtracted from business time or, with ``ahead``, added to it.
    """
    from opentill.core.errors import Invalid

    if text is None:
        return None
    text = text.strip()
    if times.is_relative(text):
        span = times.parse_relative(text, _now(), ahead=ahead)
    elif (absolute_span := times.parse_absolute(text)) is not None:
        span = absolute_span
    else:
        duration = "90d (from now)" if ahead else "7d (ago)"
        raise Invalid(field, f"{field} must be {_ACCEPTED.format(duration=duration)}")
    return span.last if end else span.first


def _now() -> int:
    """Return business time."""
    from opentill.cli import session
    from opentill.db import clock

    settings = session.settings()
    if clock.movable(settings.gateways):
        return session.query(session.now, settings)
    return clock.now_ms()


def period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Parse ``--from`` and ``--to`` into Unix ms, both inclusive. Raises Invalid."""
    from opentill.core.errors import Invalid

    start, end = moment("from", since), moment("to", until, end=True)
    if start is not None and end is not None and start > end:
        raise Invalid("to", "to must not be before from")
    return start, end


def choice(field: str, text: str | None, words: Sequence[W]) -> W | None:
    """Return the text as one of ``words``, None for None. Raises Invalid for any other text."""
    from opentill.core.errors import Invalid

    choice_word = next((word for word in words if word == text), None)
    if choice_word is None and text is not None:
        raise Invalid(field, f"{field} must be one of {' '.join(words)}")
    return choice_word
