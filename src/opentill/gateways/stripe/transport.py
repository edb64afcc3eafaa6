"""The library's transport, which sends all its requests through our outgoing client."""

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import stripe

from opentill.gateways.failures import MALFORMED
from opentill.outgoing.client import NoResponse, Outgoing

TIMEOUT_S: Final = 10.0  # shorter than the 15 s after which an attempt without a result is queried
MAX_BYTES: Final = 4 * 1024 * 1024  # a page of a hundred sessions fits into this size
_NOTICE: Final = "stripe-notice"  # the library turns this header into a Python warning

# The library must log no requests and responses, and report nothing about this machine to Stripe.
logging.getLogger("stripe").setLevel(logging.WARNING)
stripe.enable_telemetry = False


class Transport(stripe.HTTPClient):
    """Sends the library's requests, once each.

    Raises the errors of ``outgoing.client``, which the library passes on unchanged.
    """

    name = "opentill"

    def __init__(self, outgoing: Outgoing, timeout_s: float) -> None:
        """``outgoing`` is closed with the transport."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType] - its ``_lib`` has no type
        self._outgoing = outgoing
        self._timeout_s = timeout_s

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        """Send one request; return the response's body, status and headers.

        Raises NoResponse for a body that is not a JSON object, such as a proxy's error page.
        """
        body = post_data.encode() if isinstance(post_data, str) else post_data or b""
        response = await self._outgoing.send(
            method.upper(),
            url,
            headers=headers,
            body=body,
            timeout_s=self._timeout_s,
            max_bytes=MAX_BYTES,
        )
        try:
            msgspec.json.decode(response.body, type=dict[str, Any])
        except MALFORMED:
            msg = f"HTTP {response.status} without a JSON object"
            raise NoResponse(msg) from None
        response_headers = {name: value for name, value in response.headers if name != _NOTICE}
        return response.body, response.status, response_headers

    async def close_async(self) -> None:
        """Close connections."""
        await self._outgoing.close()
