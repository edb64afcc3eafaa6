"""Forwards events to a developer's own server, signed like webhooks."""

import asyncio
import base64
import hmac
import time
from typing import TYPE_CHECKING, Final

from opentill.cli import output

if TYPE_CHECKING:
    from opentill.outgoing.client import Response

_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.25  # between two attempts to connect
_MAX_SHOWN: Final = 200  # characters of a response that is an error
_PURPOSE: Final = b"opentill listen"


def signing_secret(key: str) -> str:
    """Return the secret that signs forwarded events: the same at each start with this API key.

    It does not reveal the key.
    """
    digest = hmac.digest(key.encode(), _PURPOSE, "sha256")
    return f"whsec_{base64.b64encode(digest[:24]).decode()}"


class Forward:
    """Sends events to one URL and prints the responses."""

    def __init__(self, url: str, key: str, header_prefix: str, wait_s: float) -> None:
        """Print the secret. ``wait_s``: how long to try to connect. Raises Invalid."""
        from opentill.core import hostnames
        from opentill.http import inputs
        from opentill.outgoing.client import Outgoing, Policy

        inputs.check_url("forward-to", url)
        self._url = hostnames.with_ascii_host(url)
        self._outgoing = Outgoing(Policy.only(self._url))
        self._secret = signing_secret(key)
        self._prefix = header_prefix
        self._wait_s = wait_s
        output.say(f"forwarding to {url}, signed with {self._secret}")

    async def send(self, event_id: str, body: bytes) -> None:
        """Send one event once, and print the result."""
        from opentill.outgoing.client import Forbidden, NoResponse, Unreachable

        begin = time.monotonic()
        while True:
            try:
                response = await self._post(event_id, body)
            except Unreachable as error:
                # Nothing was sent, so another attempt does not deliver the event twice.
                if time.monotonic() - begin < self._wait_s:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                output.say(f"  not delivered: {error}")
            except (Forbidden, NoResponse) as error:
                output.say(f"  no response: {error}")
            else:
                output.say(_result(response, time.monotonic() - begin))
            return

    async def _post(self, event_id: str, body: bytes) -> "Response":
        from opentill.db.clock import now_ms
        from opentill.webhooks import signing

        signed = signing.headers([self._secret], event_id, now_ms(), body, self._prefix)
        headers = {"content-type": "application/json", **dict(signed)}
        return await self._outgoing.send(
            "POST", self._url, headers=headers, body=body, timeout_s=_TIMEOUT_S
        )

    async def close(self) -> None:
        """Close connections."""
        await self._outgoing.close()


def _result(response: "Response", duration_s: float) -> str:
    line = f"  responded with {response.status} in {duration_s * 1000:.0f} ms"
    is_success = 200 <= response.status < 300  # noqa: PLR2004 - the range of a success
    text = " ".join(response.body.decode(errors="replace").split())[:_MAX_SHOWN]
    return line if is_success or not text else f"{line}: {text}"
