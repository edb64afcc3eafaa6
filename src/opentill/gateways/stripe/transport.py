"""The library's way out: everything it sends goes through our one outgoing client."""

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
import stripe

from opentill.outgoing.client import NoResponse, Response

TIMEOUT_S: Final = 10.0  # below the time after which an attempt without an answer is asked about
MAX_BYTES: Final = 4 * 1024 * 1024  # a page of a hundred sessions
_NOTICE: Final = "stripe-notice"  # the library makes Python warnings of it

# Neither what was sent nor what was answered belongs into a log, and nothing about this machine
# to Stripe.
logging.getLogger("stripe").setLevel(logging.WARNING)
stripe.enable_telemetry = False


class Sender(Protocol):
    """What is used of ``core.outgoing.Outgoing``."""

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_s: float,
        max_bytes: int,
    ) -> Response:
        """Send a request. Raises Forbidden, Unreachable and NoResponse."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class Transport(stripe.HTTPClient):
    """Sends what the library has put together; never again by itself.

    Raises the exceptions of ``core.outgoing``, which the library passes through as they are.
    """

    name = "opentill"

    def __init__(self, outgoing: Sender, timeout_s: float) -> None:
        """``outgoing`` is closed with it."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - a parameter of its tests
        self._outgoing = outgoing
        self._timeout_s = timeout_s

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """Send one request; the answer's body, status and headers.

        Raises NoResponse for a body that is no JSON object: a proxy's error page is not Stripe's.
        """
        body = post_data.encode() if isinstance(post_data, str) else post_data or b""
        answer = await self._outgoing.send(
            method.upper(),
            url,
            headers=headers,
            body=body,
            timeout_s=self._timeout_s,
            max_bytes=MAX_BYTES,
        )
        try:
            msgspec.json.decode(answer.body, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            msg = f"HTTP {answer.status} without a JSON object"
            raise NoResponse(msg) from None
        kept = {name: value for name, value in answer.headers if name != _NOTICE}
        return answer.body, answer.status, kept

    async def close_async(self) -> None:
        """Close connections."""
        await self._outgoing.close()
