"""Errors: one class per business code of the error table (contract.md#error-codes).

Any layer raises them; HTTP makes the error body of them, the payment page a page, and the command
line one line on standard error.
"""

from collections.abc import Iterable
from typing import ClassVar, TypeVar

T = TypeVar("T")


class Problem(Exception):
    """Something was refused. Subclasses fix the HTTP status, the business code and the message."""

    status: ClassVar[int] = 500
    code: ClassVar[int] = 50001
    message: ClassVar[str] = "Internal error"

    def __init__(self, field: str | None = None, reason: str | None = None) -> None:
        """Remember which input field was refused and the sentence that says what is accepted."""
        super().__init__(f"{field}: {reason}" if field else reason or self.message)
        self.field = field
        self.reason = reason


class Invalid(Problem):
    """Refused input or business rule: names the field and says what is accepted."""

    status, code, message = 400, 40001, "Validation failed"

    def __init__(self, field: str, reason: str) -> None:
        """``reason`` is one plain sentence that says what would be accepted."""
        super().__init__(field, reason)


class Unauthorized(Problem):
    """Missing, unknown, expired or foreign API key; says nothing that helps to guess one."""

    status, code, message = 401, 401, "Unauthorized"
    challenge: ClassVar[bytes] = b'ApiKey realm="opentill"'  # what would open it, RFC 9110 §11.6.1


class NotLoggedIn(Unauthorized):
    """Missing, unknown or ended token of a person; or what they log in with is wrong."""

    challenge = b'Bearer realm="opentill"'


class NotPermitted(Problem):
    """The person, or the merchant, may not do this here."""

    status, code, message = 403, 40301, "Not permitted"


class NotFound(Problem):
    """Unknown route, or a resource that does not exist for this merchant."""

    status, code, message = 404, 40401, "Not Found"


def or_not_found(row: T | None, reason: str | None = None) -> T:
    """Return what was looked up. Raises NotFound, with ``reason``, where that is None."""
    if row is None:
        raise NotFound(reason=reason)
    return row


class MethodNotAllowed(Problem):
    """The route exists, the method does not."""

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
    """A rate limit is exceeded; ``retry_after_s`` whole seconds until a request passes again."""

    status, code, message = 429, 42901, "Too many requests"

    def __init__(self, limit: int, retry_after_s: int) -> None:
        """``limit`` requests per minute are allowed."""
        super().__init__()
        self.limit = limit
        self.retry_after_s = retry_after_s


class TooManyAtOnce(TooManyRequests):
    """So many of a kind are running already; one passes when another has ended."""

    def __init__(self, what: str, limit: int, retry_after_s: int) -> None:
        """``what`` names the kind; ``limit`` of it may run at once."""
        super().__init__(limit, retry_after_s)
        self.reason = f"at most {limit} {what} may run at once"


class Internal(Problem):
    """A defect of the server; the log has it under the request id."""


class Unavailable(Problem):
    """The database, or a gateway that must be asked first, does not respond now."""

    status, code, message = 503, 50301, "Service unavailable"


class Contended(Unavailable):
    """The database responds, and others held a lock for too long."""


class ConfigurationError(Exception):
    """Only the operator can put it right: a setting, a directory, the schema.

    The text is one line that says what is wrong and what to do; the command line prints it, with
    ``--json`` under this code.
    """

    code: ClassVar[int] = 50002
    message: ClassVar[str] = "Configuration error"
