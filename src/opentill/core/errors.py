"""Exceptions: one class per business code of the error table (contract.md#error-codes).

Any layer raises them. HTTP renders them as the error body, pages as a page, and the command line as
one line on standard error.
"""

from collections.abc import Iterable
from typing import ClassVar, TypeVar

T = TypeVar("T")


class Problem(Exception):
    """A refusal. Subclasses define the HTTP status, the business code and the message."""

    status: ClassVar[int] = 500
    code: ClassVar[int] = 50001
    message: ClassVar[str] = "Internal error"

    def __init__(self, field: str | None = None, reason: str | None = None) -> None:
        """``field`` is the refused input; ``reason`` says what would be accepted."""
        super().__init__(f"{field}: {reason}" if field else reason or self.message)
        self.field = field
        self.reason = reason


class Invalid(Problem):
    """Invalid input, or a violated business rule."""

    status, code, message = 400, 40001, "Validation failed"

    def __init__(self, field: str, reason: str) -> None:
        """``reason`` is one plain sentence that says what would be accepted."""
        super().__init__(field, reason)


class Unauthorized(Problem):
    """An API key that is missing, unknown, expired or of another environment.

    The error does not say which of these.
    """

    status, code, message = 401, 401, "Unauthorized"
    challenge: ClassVar[bytes] = b'ApiKey realm="opentill"'  # RFC 9110 §11.6.1


class NotLoggedIn(Unauthorized):
    """A missing, unknown or ended token of a person, or wrong credentials."""

    challenge = b'Bearer realm="opentill"'


class NotPermitted(Problem):
    """The person or the merchant lacks the permission."""

    status, code, message = 403, 40301, "Not permitted"


class NotFound(Problem):
    """An unknown route, or a resource that does not exist for this merchant."""

    status, code, message = 404, 40401, "Not Found"


def or_not_found(row: T | None, reason: str | None = None) -> T:
    """Return ``row``. Raises NotFound with ``reason`` if it is None."""
    if row is None:
        raise NotFound(reason=reason)
    return row


class MethodNotAllowed(Problem):
    """The route exists but does not support the method."""

    status, code, message = 405, 40501, "Method not allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        """``allowed`` are the methods of the route."""
        super().__init__()
        self.allow = ", ".join(sorted(allowed))


class Conflict(Problem):
    """A request with the same Idempotency-Key is still running."""

    status, code, message = 409, 40901, "Conflict"


class PayloadTooLarge(Problem):
    """The body is over 64 KiB."""

    status, code, message = 413, 41301, "Payload too large"


class UnsupportedMediaType(Problem):
    """A body that is not ``application/json``."""

    status, code, message = 415, 41501, "Unsupported media type"


class KeyReused(Problem):
    """The same Idempotency-Key came with another request."""

    status, code, message = 422, 42201, "Idempotency key reused"


class TooManyRequests(Problem):
    """A rate limit is exceeded; a request may be retried after ``retry_after_s`` whole seconds."""

    status, code, message = 429, 42901, "Too many requests"

    def __init__(self, limit: int, retry_after_s: int, window_s: int = 60) -> None:
        """``limit`` requests are allowed in ``window_s`` seconds."""
        super().__init__()
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.window_s = window_s


class TooManyAtOnce(TooManyRequests):
    """The maximum number of concurrent operations of a kind is running."""

    def __init__(self, what: str, limit: int, retry_after_s: int) -> None:
        """At most ``limit`` operations of the kind ``what``, such as "exports", run at once."""
        super().__init__(limit, retry_after_s)
        self.reason = f"at most {limit} {what} may run at once"


class Internal(Problem):
    """A defect of the server, logged under the request id."""


class Unavailable(Problem):
    """The database, or a gateway that must respond first, is unavailable."""

    status, code, message = 503, 50301, "Service unavailable"


class Contended(Unavailable):
    """The database responds, but other transactions held a lock for too long."""


class ConfigurationError(Exception):
    """An error that only the operator can fix: a setting, a directory, the schema.

    The text is one line that says what is wrong and what to do. The command line prints it; with
    ``--json`` it prints the code too.
    """

    code: ClassVar[int] = 50002
    message: ClassVar[str] = "Configuration error"
