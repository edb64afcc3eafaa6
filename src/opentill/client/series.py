"""A call and its repetitions: when to try again, when to give up, and what is said then.

It sends nothing and sleeps nowhere; both clients ask it what to do. Nothing is repeated that could
have a second effect: a POST carries one Idempotency-Key through all its tries, GET and DELETE are
idempotent by themselves, and a PATCH is repeated only when it surely was not done.
"""

import email.utils
import random
import re
import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Generic, NoReturn, TypeVar, cast

import httpx2
import msgspec

from opentill.client import events
from opentill.client.calls import Call
from opentill.client.errors import (
    Conflict,
    ConnectionFailed,
    IdempotencyKeyReused,
    NotFound,
    OpenTillError,
    RateLimited,
    RequestRefused,
    ServerError,
    Unauthorized,
    UnexpectedAnswer,
    ValidationFailed,
    WebhookInvalid,
)

T = TypeVar("T")
E = TypeVar("E", bound=OpenTillError)
Failed = httpx2.RequestError | httpx2.StreamError  # what httpx2 raises when no whole answer comes

# Before anything of the request was sent.
_NEVER_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_ERRORS: Final[dict[int, type[OpenTillError]]] = {
    400: ValidationFailed,
    401: Unauthorized,
    404: NotFound,
    409: Conflict,
    422: IdempotencyKeyReused,
    429: RateLimited,
}
_KEY: Final = re.compile(r"[ -~]{1,255}")
_AGAIN: Final = frozenset({429, 502, 503, 504})
_BUSY: Final = 40901  # the first try still runs: its answer will be there soon
# Answers that a try gets before the server looks whether it did it before: they decide nothing
# about an earlier try without an answer.
_UNDECIDED: Final = frozenset({401, 409, 429})


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long to try. A wait doubles each time, and half of it is chance."""

    tries: int = 6
    total_s: float = 60.0  # over all tries and waits; no new try begins after it
    first_wait_s: float = 0.25
    longest_wait_s: float = 8.0


class _Detail(msgspec.Struct, frozen=True):
    field: str = ""
    reason: str = ""


class _Body(msgspec.Struct, frozen=True):
    code: int
    message: str
    error: _Detail | None = None
    data: msgspec.Raw = msgspec.Raw()


class Series(Generic[T]):
    """One call until it has an answer, or until there is no use in going on."""

    def __init__(self, call: Call[T], retries: Retries, timeout_s: float) -> None:
        """Begin; the clock of ``retries.total_s`` runs from now."""
        self.call = call
        self.key = _key(call.key) if call.verb == "POST" else None
        self._retries = retries
        self._timeout_s = timeout_s
        self._end = time.monotonic() + retries.total_s
        self._tried = 0
        self._uncertain = False  # an earlier try may have had its effect

    @property
    def timeout_s(self) -> float:
        """Seconds that the next try may be silent for."""
        return max(0.001, min(self._timeout_s, self._end - time.monotonic()))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this call, beside those of the client."""
        headers = {} if self.key is None else {"idempotency-key": self.key}
        if self.call.body is not None:
            headers["content-type"] = "application/json"
        return headers

    def in_time(self) -> None:
        """See that there is time left to read on. Raises httpx2.ReadTimeout."""
        if time.monotonic() > self._end:
            message = f"the answer was not whole after {self._retries.total_s:g} s"
            raise httpx2.ReadTimeout(message)

    def lost(self, failure: Failed) -> float:
        """Take in that no whole answer came; seconds to wait. Raises ConnectionFailed."""
        never_sent = isinstance(failure, _NEVER_SENT)
        self._uncertain |= not never_sent and self.call.verb != "GET"
        why = str(failure) or type(failure).__name__
        error = ConnectionFailed(f"{self.call.verb} {self.call.path} got no answer: {why}")
        if isinstance(failure, httpx2.LocalProtocolError):  # it cannot be sent at all
            self._give_up(error)
        repeatable = never_sent or self.call.verb != "PATCH"
        return self._wait(error, None) if repeatable else self._give_up(error)

    def refused(self, response: httpx2.Response, body: bytes) -> float:
        """Take in an answer that is no success; seconds to wait. Raises what it says."""
        status, problem = response.status_code, _problem(body)
        error = self._error(response, problem)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._uncertain |= self.call.verb != "GET"
        elif problem is not None and status not in _UNDECIDED:
            self._uncertain = False  # the answer to all tries: they are one by their key
        busy = problem is not None and problem.code == _BUSY and self.key is not None
        again = busy or status in _AGAIN
        if self.call.verb == "PATCH" and status != HTTPStatus.TOO_MANY_REQUESTS:
            again = False
        return self._wait(error, _retry_after(response)) if again else self._give_up(error)

    def read(self, response: httpx2.Response, body: bytes) -> T:
        """Return what a success says. Raises UnexpectedAnswer if it is not in the API's form."""
        try:
            found = msgspec.json.decode(body, type=_Body)
            if self.call.answer is None:
                return cast("T", None)
            if self.call.answer is events.Event:  # typed by what it says it is
                return cast("T", events.read(bytes(found.data)))
            return cast("T", msgspec.json.decode(found.data, type=self.call.answer))
        except (msgspec.MsgspecError, UnicodeDecodeError, WebhookInvalid) as reason:
            raise self.unexpected(response, f"is not in the API's form ({reason})") from None

    def unexpected(self, response: httpx2.Response, what: str) -> UnexpectedAnswer:
        """Make the error of an answer that the API does not give."""
        error = UnexpectedAnswer(
            f"the answer to {self.call.verb} {self.call.path} {what}",
            status=response.status_code,
            request_id=_request_id(response),
        )
        self._uncertain |= self.call.verb != "GET"
        return self._finish(error)

    def broke_off(self, failure: Failed) -> ConnectionFailed:
        """Make the error of a file that ended before its end."""
        why = str(failure) or type(failure).__name__
        return self._finish(ConnectionFailed(f"{self.call.path} broke off: {why}"))

    def _wait(self, error: OpenTillError, asked_s: float | None) -> float:
        self._tried += 1
        wait = min(
            self._retries.first_wait_s * 2.0 ** (self._tried - 1), self._retries.longest_wait_s
        )
        wait *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing
        wait = max(wait, asked_s or 0.0)
        if self._tried >= self._retries.tries or time.monotonic() + wait >= self._end:
            self._give_up(error)
        return wait

    def _give_up(self, error: OpenTillError) -> NoReturn:
        raise self._finish(error)

    def _finish(self, error: E) -> E:
        error.maybe_done = self._uncertain
        error.idempotency_key = self.key
        return error

    def _error(self, response: httpx2.Response, problem: _Body | None) -> OpenTillError:
        """Return the error that an answer stands for."""
        status = response.status_code
        kind = _ERRORS.get(status, RequestRefused)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = ServerError
        elif problem is None and status != HTTPStatus.TOO_MANY_REQUESTS:
            kind = UnexpectedAnswer  # a 404 of something else says nothing about what is yours
        what = f"HTTP {status}" if problem is None else f"{problem.message} ({problem.code})"
        detail = problem.error if problem is not None else None
        text = f"{what}: {detail.reason}" if detail is not None and detail.reason else what
        error = kind(
            f"{self.call.verb} {self.call.path}: {text}",
            status=status,
            code=None if problem is None else problem.code,
            request_id=_request_id(response),
        )
        if isinstance(error, ValidationFailed) and detail is not None:
            error.field, error.reason = detail.field, detail.reason
        if isinstance(error, RateLimited):
            error.retry_after = _retry_after(response)
        return error


def _key(chosen: str | None) -> str:
    """Return the key of a POST. Raises ValueError for one that the server would refuse."""
    if chosen is None:
        return f"auto-{uuid.uuid4().hex}"
    if _KEY.fullmatch(chosen) is None:
        message = "idempotency_key must be 1 to 255 printable ASCII characters"
        raise ValueError(message)
    return chosen


def _problem(body: bytes) -> _Body | None:
    """Return our error body; what a proxy answers is none."""
    try:
        return msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _request_id(response: httpx2.Response) -> str:
    headers: Mapping[str, str] = response.headers
    return headers.get("x-request-id", "")


def _retry_after(response: httpx2.Response) -> float | None:
    """Return the seconds of a Retry-After, which may also be a date (RFC 9110 §10.2.3)."""
    headers: Mapping[str, str] = response.headers
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
