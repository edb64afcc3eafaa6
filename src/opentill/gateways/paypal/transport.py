"""Requests to PayPal with an access token, which is cached until shortly before its end.

Source: developer.paypal.com, "Get access token", "API requests", "API responses", "Idempotency".
"""

import asyncio
import base64
import logging
import time
from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from opentill.gateways.failures import FAILURES, status_of
from opentill.gateways.paypal.wire import Error, Token, read
from opentill.outgoing.client import Outgoing, Response

# An operation takes at most about ten seconds, whatever the number of its requests.
_OPERATION_S: Final = 10.0
_TOKEN_MARGIN_S: Final = 60.0
_LONGEST_TOKEN_S: Final = 9 * 3600.0
MAX_BYTES: Final = 512 * 1024
_OK: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The account and its webhook."""

    url: str  # of the API, without a trailing slash
    client_id: str
    client_secret: str
    webhook_id: str
    merchant_id: str = ""  # "" if it is not checked
    trusted: bytes | None = None  # PEM; None for the certificates that are trusted for TLS

    def __repr__(self) -> str:
        """Omit the secret."""
        return f"Options(url={self.url!r}, client_id={self.client_id!r})"


class Reply(msgspec.Struct, frozen=True):
    """A response of PayPal's API."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether PayPal processed the request."""
        return self.status in _OK

    @property
    def is_open(self) -> bool:
        """Whether PayPal may have processed the request although it responds with an error."""
        return self.status >= _SERVER_ERROR

    @property
    def is_unprocessed(self) -> bool:
        """Whether PayPal surely did nothing and accepts the same request later."""
        return self.status in (_UNAUTHORIZED, _TOO_MANY)

    @property
    def error(self) -> Error:
        """The error of a request that was not processed."""
        return read(self.body, Error) or Error(name=f"HTTP_{self.status}")


class NoReply(msgspec.Struct, frozen=True):
    """There is no response. ``refused``: PayPal did not accept our credentials: UNREACHABLE."""

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str
    refused: bool = False


class Deadline:
    """The end of an operation, which its requests share."""

    def __init__(self, timeout_s: float) -> None:
        """``timeout_s`` is the longest time of a single request."""
        self._timeout_s = timeout_s
        self._ends = time.monotonic() + _OPERATION_S

    @property
    def left_s(self) -> float:
        """How long the next request may take."""
        return max(0.01, min(self._timeout_s, self._ends - time.monotonic()))

    @property
    def is_over(self) -> bool:
        """Whether no time is left for another request."""
        return time.monotonic() >= self._ends


class Transport:
    """Sends requests with an access token."""

    def __init__(self, options: Options, outgoing: Outgoing) -> None:
        """``outgoing`` is closed with the transport."""
        self._options = options
        self._outgoing = outgoing
        self._token = ""
        self._token_ends = float("-inf")  # monotonic time in seconds
        self._lock = asyncio.Lock()

    async def send(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Any = None,
        *,
        request_id: str = "",
        deadline: Deadline,
        is_check: bool = False,
    ) -> Reply | NoReply:
        """Send a request; log a failure without its content, unless ``is_check``.

        ``request_id`` is the idempotency key (PayPal-Request-Id). A token that PayPal no longer
        accepts is replaced once: a request with it was not processed.
        """
        reply = await self._send(method, path, body, request_id, deadline)
        if isinstance(reply, NoReply) and not is_check:
            _log.warning("PayPal: %s: %s", reply.status, reply.reason)
        return reply

    async def close(self) -> None:
        """Close the connections."""
        await self._outgoing.close()

    async def _send(
        self, method: str, path: str, body: Any, request_id: str, deadline: Deadline
    ) -> Reply | NoReply:
        failure = NoReply("UNREACHABLE", "", refused=True)
        for _ in range(2):
            token = await self._get_token(deadline)
            if isinstance(token, NoReply):
                return token
            headers = {
                "Accept": "application/json",
                "Authorization": f"Bearer {token}",
                "Prefer": "return=representation",
            }
            if request_id:
                headers["PayPal-Request-Id"] = request_id
            if method == "POST":
                headers["Content-Type"] = "application/json"
            content = b"" if body is None else msgspec.json.encode(body)
            response = await self._request(method, path, headers, content, deadline)
            if isinstance(response, NoReply):
                return response
            reply = Reply(response.status, response.body)
            if response.status != _UNAUTHORIZED:
                return reply
            failure = msgspec.structs.replace(
                failure, reason=f"HTTP {reply.status} {reply.error.code}"
            )
            if self._token == token:
                self._token = ""
        return failure

    async def _get_token(self, deadline: Deadline) -> str | NoReply:
        """Return an access token. Without one nothing was sent: the failure is UNREACHABLE."""
        if self._has_token():
            return self._token
        async with self._lock:
            if self._has_token():
                return self._token
            return await self._fetch_token(deadline)

    def _has_token(self) -> bool:
        return bool(self._token) and time.monotonic() < self._token_ends

    async def _fetch_token(self, deadline: Deadline) -> str | NoReply:
        options = self._options
        credentials = f"{options.client_id}:{options.client_secret}".encode()
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        form = urlencode({"grant_type": "client_credentials"}).encode()
        started = time.monotonic()
        response = await self._request("POST", "/v1/oauth2/token", headers, form, deadline)
        if isinstance(response, NoReply):
            return NoReply("UNREACHABLE", f"no access token: {response.reason}")
        token = read(response.body, Token) if response.status in _OK else None
        if token is None or not token.is_usable:
            reason = f"no access token: HTTP {response.status}"
            return NoReply("UNREACHABLE", reason, refused=response.status == _UNAUTHORIZED)
        lifetime_s = min(float(token.expires_in), _LONGEST_TOKEN_S)
        self._token = token.access_token
        self._token_ends = started + max(0.0, lifetime_s - _TOKEN_MARGIN_S)
        return self._token

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, deadline: Deadline
    ) -> Response | NoReply:
        try:
            response = await self._outgoing.send(
                method,
                self._options.url + path,
                headers=headers,
                body=body,
                timeout_s=deadline.left_s,
                max_bytes=MAX_BYTES,
            )
        except FAILURES as error:
            return NoReply(status_of(error), str(error))
        if response.cut:
            return NoReply("UNKNOWN", "the response is too long")
        return response
