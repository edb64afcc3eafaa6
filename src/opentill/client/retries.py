"""Deciding whether a request is repeated, and which error its caller gets otherwise.

Both clients use it; it does no I/O. No request is repeated that could have a second effect: all
attempts of a POST have one Idempotency-Key, GET and DELETE are idempotent, and a PATCH is repeated
only if it certainly had no effect. A DELETE succeeds if the resource is gone after an attempt
without a response.
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

from .errors import (
    Conflict,
    ConnectionFailed,
    IdempotencyKeyReused,
    NotFound,
    NotPermitted,
    OpenTillError,
    RateLimited,
    RequestRefused,
    ServerError,
    Unauthorized,
    UnexpectedResponse,
    ValidationFailed,
    WebhookInvalid,
)
from .event import MALFORMED, Event
from .event_reading import read
from .request import Request

T = TypeVar("T")
E = TypeVar("E", bound=OpenTillError)
# httpx2 raises these without a complete response.
Failure = httpx2.RequestError | httpx2.StreamError

# These are raised before any part of the request was sent.
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
    403: NotPermitted,
    404: NotFound,
    409: Conflict,
    422: IdempotencyKeyReused,
    429: RateLimited,
}
_KEY: Final = re.compile(r"[ -~]{1,255}")
_RETRIED: Final = frozenset({429, 502, 503, 504})
# The response code while an earlier attempt still runs, whose result will soon be known.
_STILL_RUNNING: Final = 40901
# No attempt begins after this share of the total time: too little time would be left.
_LAST_BEGIN: Final = 0.9
# Statuses that the server sends before it looks up the key, so that they reveal nothing about an
# earlier attempt without a response.
_UNDECIDED: Final = frozenset({401, 409, 429})


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long to try. Delays double; each is shortened at random by up to half.

    No attempt begins in the last tenth of ``total_s``.
    """

    attempts: int = 6
    # Seconds for all attempts and delays, which is more than two windows of the rate limit.
    total_s: float = 150.0
    first_delay_s: float = 0.25
    longest_delay_s: float = 8.0


class _Detail(msgspec.Struct, frozen=True):
    field: str = ""
    reason: str = ""


class _Body(msgspec.Struct, frozen=True):
    code: int
    message: str
    error: _Detail | None = None
    data: msgspec.Raw = msgspec.Raw()


class RetriedRequest(Generic[T]):
    """The attempts of a request, until it has a response or must not be repeated."""

    def __init__(self, request: Request[T], retries: Retries, timeout_s: float) -> None:
        """Start; ``retries.total_s`` is counted from now."""
        self.request = request
        self.key = _key(request.idempotency_key) if request.method == "POST" else None
        self._retries = retries
        self._timeout_s = timeout_s
        begun = time.monotonic()
        self._end = begun + retries.total_s
        self._last_begin = begun + _LAST_BEGIN * retries.total_s
        self._attempts = 0
        self._uncertain = False  # whether an earlier attempt may have had its effect

    @property
    def timeout_s(self) -> float:
        """The timeout of the next attempt in seconds."""
        return max(0.001, min(self._timeout_s, self._end - time.monotonic()))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of this request in addition to the client's."""
        headers = {} if self.key is None else {"idempotency-key": self.key}
        if self.request.body is not None:
            headers["content-type"] = "application/json"
        return headers

    def check_time(self) -> None:
        """Check that there is time left for reading. Raises httpx2.ReadTimeout."""
        if time.monotonic() > self._end:
            message = f"the response was not whole after {self._retries.total_s:g} s"
            raise httpx2.ReadTimeout(message)

    def delay_after_failure(self, failure: Failure) -> float:
        """Return the delay in seconds after an incomplete response. Raises ConnectionFailed."""
        never_sent = isinstance(failure, _NEVER_SENT)
        self._uncertain |= not never_sent and self.request.method != "GET"
        why = str(failure) or type(failure).__name__
        error = ConnectionFailed(f"{self._name} got no response: {why}")
        # The request is invalid, so no attempt can send it.
        if isinstance(failure, httpx2.LocalProtocolError):
            self._give_up(error)
        repeatable = never_sent or self.request.method != "PATCH"
        return self._delay(error, None) if repeatable else self._give_up(error)

    def delay_after_refusal(self, response: httpx2.Response, body: bytes) -> float:
        """Return the delay in seconds after an unsuccessful response. Raises OpenTillError."""
        status, problem = response.status_code, _problem(body)
        error = self._error(response, problem)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self._uncertain |= self.request.method != "GET"
        elif self.key is not None and problem is not None and status not in _UNDECIDED:
            # All attempts had the same key, so this response applies to each of them.
            self._uncertain = False
        running = problem is not None and problem.code == _STILL_RUNNING and self.key is not None
        again = running or status in _RETRIED
        if self.request.method == "PATCH" and status != HTTPStatus.TOO_MANY_REQUESTS:
            again = False
        return self._delay(error, _retry_after(response)) if again else self._give_up(error)

    def succeeded(self, response: httpx2.Response, body: bytes) -> bool:
        """Whether a response is a success: 2xx, or a 404 after an earlier attempt to delete."""
        if response.is_success:
            return True
        if self.request.method != "DELETE" or response.status_code != HTTPStatus.NOT_FOUND:
            return False
        return self._uncertain and _problem(body) is not None

    def read(self, response: httpx2.Response, body: bytes) -> T:
        """Return the data of a successful response. Raises UnexpectedResponse."""
        try:
            envelope = msgspec.json.decode(body, type=_Body)
            if self.request.response is None:
                return cast("T", None)
            # The type of the event decides its class.
            if self.request.response is Event:
                return cast("T", read(bytes(envelope.data)))
            return cast("T", msgspec.json.decode(envelope.data, type=self.request.response))
        except (*MALFORMED, WebhookInvalid) as reason:
            raise self.unexpected(response, f"is not in the API's form ({reason})") from None

    def unexpected(self, response: httpx2.Response, flaw: str) -> UnexpectedResponse:
        """Return the error for a response that the API does not define."""
        error = UnexpectedResponse(
            f"the response to {self._name} {flaw}",
            status=response.status_code,
            request_id=_request_id(response),
        )
        self._uncertain |= self.request.method != "GET"
        return self._finish(error)

    def broke_off(self, failure: Failure) -> ConnectionFailed:
        """Return the error for a file whose transfer was cut off."""
        why = str(failure) or type(failure).__name__
        return self._finish(ConnectionFailed(f"{self.request.path} broke off: {why}"))

    @property
    def _name(self) -> str:
        return f"{self.request.method} {self.request.path}"

    def _delay(self, error: OpenTillError, retry_after_s: float | None) -> float:
        self._attempts += 1
        delay = self._retries.first_delay_s * 2.0 ** (self._attempts - 1)
        delay = min(delay, self._retries.longest_delay_s)
        delay *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing
        delay = max(delay, retry_after_s or 0.0)
        is_too_late = time.monotonic() + delay >= self._last_begin
        if is_too_late or self._attempts >= self._retries.attempts:
            self._give_up(error)
        return delay

    def _give_up(self, error: OpenTillError) -> NoReturn:
        raise self._finish(error)

    def _finish(self, error: E) -> E:
        error.maybe_done = self._uncertain
        error.idempotency_key = self.key
        return error

    def _error(self, response: httpx2.Response, problem: _Body | None) -> OpenTillError:
        """Return the error of a response."""
        status = response.status_code
        kind = _ERRORS.get(status, RequestRefused)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = ServerError
        elif problem is None and status != HTTPStatus.TOO_MANY_REQUESTS:
            kind = UnexpectedResponse  # a 404 of another server says nothing about the resource
        summary = f"HTTP {status}" if problem is None else f"{problem.message} ({problem.code})"
        detail = problem.error if problem is not None else None
        text = f"{summary}: {detail.reason}" if detail is not None and detail.reason else summary
        error = kind(
            f"{self._name}: {text}",
            status=status,
            code=None if problem is None else problem.code,
            request_id=_request_id(response),
        )
        if detail is not None:
            error.field, error.reason = detail.field, detail.reason
        if isinstance(error, RateLimited):
            error.retry_after = _retry_after(response)
        return error


def _key(chosen: str | None) -> str:
    """Return the caller's key for a POST, or a random one. Raises ValueError for an invalid key."""
    if chosen is None:
        return f"auto-{uuid.uuid4().hex}"
    if _KEY.fullmatch(chosen) is None:
        message = "idempotency_key must be 1 to 255 printable ASCII characters"
        raise ValueError(message)
    return chosen


def _problem(body: bytes) -> _Body | None:
    """Return the API's error body; None for any other body, such as a proxy's."""
    try:
        return msgspec.json.decode(body, type=_Body)
    except MALFORMED:
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
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):  # no date, or an impossible year
        return None
    return max(0.0, moment - time.time())
