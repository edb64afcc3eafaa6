"""The errors of the client: one class for each business code, and one for no response.

``maybe_done`` of every error says whether the request may have had its effect. If so, repeating it
with the same ``idempotency_key`` has no second effect.
"""


class OpenTillError(Exception):
    """A request that did not succeed. ``str()`` is one sentence without any secret."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: int | None = None,
        request_id: str = "",
        maybe_done: bool = False,
    ) -> None:
        """``status`` is the HTTP status, ``code`` the business code; None if there is none."""
        super().__init__(message)
        self.status = status
        self.code = code
        # The operator finds the request in the server's log by this id.
        self.request_id = request_id
        self.field = ""  # the refused field, "" if the response names none
        # Why the field was refused, or what would be accepted; "" if the response does not say.
        self.reason = ""
        self.maybe_done = maybe_done
        self.idempotency_key: str | None = None  # the key of a POST, None for other methods


class ValidationFailed(OpenTillError):
    """The input is invalid, or a business rule refuses it (40001)."""


class Unauthorized(OpenTillError):
    """The API key is missing, unknown, expired or of another environment (401)."""


class NotFound(OpenTillError):
    """The merchant has nothing with this id (40401)."""


class Conflict(OpenTillError):
    """A request with the same Idempotency-Key was still running at the last attempt (40901)."""


class IdempotencyKeyReused(OpenTillError):
    """The Idempotency-Key was used for another request before (42201)."""


class RateLimited(OpenTillError):
    """Too many requests (42901)."""

    # Seconds until the next request; None if the response does not say.
    retry_after: float | None = None


class RequestRefused(OpenTillError):
    """Any other 4xx, such as a size or media type that is not accepted."""


class NotPermitted(RequestRefused):
    """The merchant or its key may not do this (40301).

    If the key lacks a scope, ``field`` is ``scope`` and ``reason`` names the scope. Otherwise
    ``field`` is the capability that is switched off, or the agreement.
    """


class ServerError(OpenTillError):
    """The server, or a proxy in front of it, failed: 5xx."""


class UnexpectedResponse(OpenTillError):
    """A response that the API does not define, mostly from another server."""


class ConnectionFailed(OpenTillError):
    """No complete response arrived: the connection was refused, cut or too slow."""


class WebhookInvalid(Exception):
    """A webhook that is forged, too old or malformed. Respond with 400."""
