"""The log: one JSON object per line on standard error, or readable lines on a terminal.

No line contains a secret, an email address, a card number, a body or a query string: code does
not log them, and those in texts of errors are redacted here before writing. The request's id is
bound with ``structlog.contextvars`` and is on every line of the request, as is the merchant's
(``merchant``) once it is known.

Lines about requests are buffered for up to ``LATEST_S``: writing each at once would take a seventh
of the processor time of a read. Other lines are written immediately, after the buffered ones, which
keeps the order. Stopping loses none; a SIGKILL loses the buffered ones.
"""

import asyncio
import errno
import functools
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from opentill.core import terminal, tracing

REDACTED: Final = "[struck out]"
_TIME_DIGITS: Final = 13  # digits of a Unix time in milliseconds
_SECRET_NAME: Final = re.compile(
    r"secret|passw|token|authori[sz]ation|cookie|signature|api_?key|(^|_)key$|(^|_)cv[cv]2?($|_)"
    r"|card_?number|(^|_)pan$|e_?mail|(^|_)body$|query_?string|database_url",
    re.IGNORECASE,
)
_CARD: Final = re.compile(r"(?<![0-9A-Za-z])[0-9](?:[ -]?[0-9]){12,18}(?![0-9A-Za-z])")
# Groups of digits with separators, in which a card number may stand next to other numbers.
_DIGITS: Final = re.compile(r"(?<![0-9A-Za-z])[0-9]+(?:[ ._-][0-9]+)*(?![0-9A-Za-z])")
_SHORTEST_GROUP: Final = 3
_SHORTEST_CARD: Final = 13
_LONGEST_CARD: Final = 19
_ENDS: Final = r"\s<>\"'(),:;=\[\]{}/"  # characters that may surround an email address
# Pairs of pattern and replacement. Each pattern takes time linear in the length of the text.
_RULES: Final[Sequence[tuple[re.Pattern[str], str]]] = (
    (re.compile(r"svc_(live|stg)_[0-9A-Za-z]+"), rf"svc_\1_{REDACTED}"),
    (re.compile(r"\b(whsec|sk_live|sk_test|rk_live|rk_test)_[0-9A-Za-z+/=_-]+"), rf"\1_{REDACTED}"),
    (re.compile(r"(?i)\bbearer\s+[^\s\"',]+"), f"Bearer {REDACTED}"),
    (re.compile(r"://[^/\s@'\"]+@"), f"://{REDACTED}@"),
    (re.compile(r"\?[^\s=?&'\"]+=[^\s'\"<>]*"), f"?{REDACTED}"),
    (
        re.compile(
            # The pattern starts only at the beginning of a word and extends to the last address in
            # it: otherwise the time would be quadratic in the length of a word.
            rf"(?<![^@{_ENDS}])[^@{_ENDS}]+(?:@|%40)[\w.-]+\.\w+"
            rf"(?:[^{_ENDS}]*(?:@|%40)[\w.-]+\.\w+)?"
        ),
        REDACTED,
    ),
)
# A text that this does not match needs no redaction, so that most texts are searched only once.
_SUSPECT: Final = re.compile(
    r"svc_|whsec|[sr]k_|bearer|://|[?@]|%40|[0-9](?:[ ._-]?[0-9]){12}", re.IGNORECASE
)
_METHODS: Final = frozenset(("GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PUT"))
# The merchant whose request is being served, once it is known.
merchant: Final[ContextVar[str | None]] = ContextVar("merchant", default=None)
LONGEST: Final = 32 * 1024  # characters of a text; longer ones are cut
# The line about a request is written at most this long after the response.
LATEST_S: Final = 0.01
_MOST_BUFFERED: Final = 200
_lines: Final = msgspec.json.Encoder().encode_lines
# Loggers whose lines at level info contain URLs with query strings, or repeat lines of the
# supervisor.
_QUIET: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "uvicorn", "uvicorn.error", "asyncio")


def _add_merchant(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if (merchant_id := merchant.get()) is not None:
        event.setdefault("merchant", merchant_id)
    return event


def _escape_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters in untrusted texts."""
    return {
        name: terminal.escape(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def configure(level: str = "info", *, stream: TextIO | None = None) -> None:
    """Configure the log of this process, including lines of libraries.

    ``level`` is ``debug``, ``info``, ``warning`` or ``error``; ``stream`` is standard error except
    in tests. Lines are formatted for people if it is a terminal. May be called again.
    """
    global _requests  # noqa: PLW0603 - like structlog's own configuration
    output = _Output(stream or sys.stderr)
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_merchant,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Processor] = [structlog.processors.format_exc_info, redact_event]
    if output.is_terminal:
        last.append(_escape_values)
        last.append(
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        )
    else:
        last.append(structlog.processors.JSONRenderer(serializer=_encode_json))
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", output)),
        cache_logger_on_first_use=False,  # tests configure the log again
    )
    plain = not output.is_terminal and number <= logging.INFO
    _requests = output if plain else None
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


class Line(msgspec.Struct, frozen=True):
    """The log line about a request."""

    request_id: str
    method: str
    route: str
    status: int
    ms: float
    timestamp: datetime
    event: str = "request"
    level: str = "info"
    merchant: str | msgspec.UnsetType = msgspec.UNSET  # omitted while the merchant is unknown
    trace_id: str | msgspec.UnsetType = msgspec.UNSET


class _LossNotice(msgspec.Struct, frozen=True):
    """The log line that reports lost lines, once writing works again."""

    lines: int
    reason: str  # why the last write failed: ENOSPC, EPIPE, or the type of the exception
    timestamp: datetime
    event: str = "lines of the log could not be written"
    level: str = "error"


class _Output:
    """The stream that structlog and logging write to, and the buffer of lines about requests.

    Nothing here raises: jobs, requests and the supervisor continue without a log. A line that
    cannot be written is dropped and counted. Files, pipes and terminals are written to directly,
    because the stream's own buffer would retain such lines and cut one silently.
    """

    def __init__(self, stream: TextIO) -> None:
        self.is_terminal = stream.isatty()
        self._stream = stream
        self._buffered: list[Line] = []
        self._lock = threading.RLock()  # libraries log from threads of their own
        self._lost_lines = 0
        self._reason = ""
        self._is_cut = False  # whether the last line was written only in part
        try:
            stream.fileno()
            self._put = self._put_in_file
        except OSError:
            self._put = self._put_in_memory

    def write(self, text: str) -> None:
        """Write the buffered lines, then ``text``."""
        with self._lock:
            self._write_buffered()
            self._write(text)

    def flush(self) -> None:
        """Write the buffered lines."""
        with self._lock:
            self._write_buffered()

    def buffer(self, line: Line) -> None:
        """Buffer a line, to be written within ``LATEST_S``."""
        with self._lock:
            self._buffered.append(line)
            buffered_lines = len(self._buffered)
        if buffered_lines == 1:
            asyncio.get_running_loop().call_later(LATEST_S, self.flush)
        elif buffered_lines >= _MOST_BUFFERED:
            self.flush()

    def _write_buffered(self) -> None:
        if self._buffered:
            lines, self._buffered = self._buffered, []
            self._write(_lines(lines).decode())

    def _write(self, text: str) -> None:
        if self._lost_lines and not self._write_loss():
            self._lost_lines += text.count("\n")
            return
        self._lost_lines += self._put(text)

    def _write_loss(self) -> bool:
        """Write how many lines were lost; return whether that succeeded."""
        line = _lines([_LossNotice(self._lost_lines, self._reason, datetime.now(UTC))]).decode()
        if self._put("\n" + line if self._is_cut else line):
            return False
        self._lost_lines = 0
        return True

    def _put_in_file(self, text: str) -> int:
        """Write lines; return how many could not be written."""
        unwritten = text.encode(self._stream.encoding, "backslashreplace")
        try:
            while unwritten:
                written = os.write(self._stream.fileno(), unwritten)
                self._is_cut = unwritten[written - 1 : written] != b"\n"
                unwritten = unwritten[written:]
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._record_reason(error)
        return unwritten.count(b"\n")

    def _put_in_memory(self, text: str) -> int:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._record_reason(error)
            return text.count("\n")
        return 0

    def _record_reason(self, error: Exception) -> None:
        number = error.errno if isinstance(error, OSError) else None
        self._reason = errno.errorcode.get(number or 0, type(error).__name__)


# the output for lines about requests; None while structlog formats them
_requests: _Output | None = None


def request(
    request_id: str,
    method: str,
    route: str,
    status: int,
    ms: float,
    *,
    quiet: bool = False,
) -> None:
    """Log a request after its response, at debug if ``quiet``. An event loop must be running.

    JSON lines bypass structlog, because they need no redaction: the route is a template, and
    unknown methods are replaced.
    """
    method = method if method in _METHODS else "other"
    trace_id = tracing.trace_id()
    if quiet or _requests is None:
        extra = {} if trace_id is None else {"trace_id": trace_id}
        logger = structlog.get_logger()
        write = logger.debug if quiet else logger.info
        write("request", method=method, route=route, status=status, ms=ms, **extra)
    else:
        _requests.buffer(
            Line(
                request_id,
                method,
                route,
                status,
                ms,
                datetime.now(UTC),
                merchant=merchant.get() or msgspec.UNSET,
                trace_id=trace_id or msgspec.UNSET,
            )
        )


def flush() -> None:
    """Write the buffered lines. Call this before the event loop stops, whose timer writes them."""
    if _requests is not None:
        _requests.flush()


def redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Redact values whose names suggest a secret, and secrets in texts, at any depth."""
    return {name: _redact_value(name, value) for name, value in event.items()}


def redact(text: str) -> str:
    """Redact keys, secrets, email addresses, query strings and card numbers in a text.

    A text longer than ``LONGEST`` is cut and marked.
    """
    if len(text) > LONGEST:
        # Cut between words and not inside a card number, since a partial secret is not recognized.
        words = text[:LONGEST].rsplit(maxsplit=1)
        beginning = words[0].rstrip("0123456789- ") if len(words) > 1 else ""
        return f"{redact(beginning)} [cut, of {len(text)} characters]"
    if _SUSPECT.search(text) is None:
        return text
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return _DIGITS.sub(_redact_among_digits, _CARD.sub(_redact_card, text))


@functools.lru_cache(1024)
def _names_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.replace("-", "_")) is not None


def _redact_value(name: str, value: object) -> object:
    if _names_secret(name) and not isinstance(value, bool | None):
        return REDACTED
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return (
            REDACTED
            if len(str(value)) > _TIME_DIGITS and _has_valid_check_digit(str(value))
            else value
        )
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {str(key): _redact_value(str(key), inner) for key, inner in pairs}
    if isinstance(value, list | tuple | set):
        return [_redact_value("", inner) for inner in cast("Iterable[object]", value)]
    return f"{len(value)} bytes" if isinstance(value, bytes) else redact(str(value))


def _redact_card(match: re.Match[str]) -> str:
    """Redact a card number. Most other numbers, such as times, have no valid check digit."""
    return REDACTED if _has_valid_check_digit(re.sub(r"[ -]", "", match[0])) else match[0]


def _redact_among_digits(match: re.Match[str]) -> str:
    """Redact groups of digits that form a card number, also next to a date or a code."""
    if len(match[0]) < _SHORTEST_CARD:
        return match[0]
    parts = re.split(r"([ ._-])", match[0])  # groups at even indices, separators at odd ones
    redacted: list[str] = []
    index = 0
    while index < len(parts):
        end = _end_of_card(parts, index)
        redacted.append(REDACTED if end else parts[index])
        index = end or index + 1
        if index < len(parts) and index % 2:
            redacted.append(parts[index])
            index += 1
    return "".join(redacted)


def _end_of_card(parts: Sequence[str], begin: int) -> int:
    """Return the end index of the longest card number that starts at ``begin``, 0 if none does."""
    digits, end = "", 0
    for index in range(begin, len(parts), 2):
        digits += parts[index]
        if len(parts[index]) < _SHORTEST_GROUP or len(digits) > _LONGEST_CARD:
            break
        if len(digits) >= _SHORTEST_CARD and _has_valid_check_digit(digits):
            end = index + 1
    return end


def _has_valid_check_digit(digits: str) -> bool:
    """Whether the check digit is valid (ISO/IEC 7812-1 annex B)."""
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    total = sum(int(digit) for digit in digits[-1::-2])
    total += sum(value - 9 if value > 9 else value for value in doubled)  # noqa: PLR2004 - a digit
    return total % 10 == 0


def _encode_json(event: EventDict, **_: object) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(event, default=str)
