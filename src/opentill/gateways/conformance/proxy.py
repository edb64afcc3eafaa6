"""A proxy between an adapter and its provider, which loses and replaces responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal, get_args

import aiohttp
from aiohttp import web

# What happens to a request. "before": the provider does not get it; "after": it has done it.
Fault = Literal[
    "refused",  # nothing listens at the address
    "cut_before",
    "cut_after",
    "silent_before",
    "silent_after",
    "cut_in_half",
    "error_500_before",
    "error_503_after",
    "too_many_requests",
    "redirect",
    "empty",
    "page",
    "no_object",
    "too_deep",
    "not_utf8",
    "too_long",
    "endless",
]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
_HOP: Final = ("connection", "content-length", "host", "keep-alive", "transfer-encoding")
_JSON: Final = "application/json"
_BODIES: Final[dict[Fault, bytes]] = {
    "empty": b"",
    "page": b"<html><h1>502 Bad Gateway</h1></html>",
    "no_object": b"[7]",
    "too_deep": b'{"data":' + b"[" * 100_000,
    "not_utf8": b'{"status":"\xff\xfe"}',
    "too_long": b'{"data":"' + b"x" * (1 << 23),
}
_STATUSES: Final[dict[Fault, int]] = {
    "error_500_before": 500,
    "error_503_after": 503,
    "too_many_requests": 429,
}


class Proxy:
    """Forwards requests to ``target``; ``fault`` applies to all after the first ``passed`` ones."""

    def __init__(self, target: str) -> None:
        """Use ``running_proxy``."""
        self.url = ""
        self.fault: Fault | None = None
        self.passed = 0
        self.applied = 0  # how many requests had the fault
        self._target = target
        self._session: aiohttp.ClientSession | None = None

    def inject(self, fault: Fault | None, passed: int = 0) -> None:
        """Let ``passed`` requests pass, and apply the fault to all later ones."""
        self.fault, self.passed, self.applied = fault, passed, 0

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request."""
        body = await request.read()
        if self.fault is None or self.passed > 0:
            self.passed -= 1
            return await self._forward(request, body)
        self.applied += 1
        return await self._fail(self.fault, request, body)

    async def _fail(
        self, fault: Fault, request: web.BaseRequest, body: bytes
    ) -> web.StreamResponse:
        if fault.startswith("silent"):
            if fault == "silent_after":
                await self._forward(request, body)
            await _disconnected(request)
            return web.Response()
        if fault in ("cut_before", "cut_after", "cut_in_half"):
            response = None if fault == "cut_before" else await self._forward(request, body)
            if response is not None and fault == "cut_in_half":
                await _send_half(request, response)
            _cut(request)
            return web.Response()
        if fault == "redirect":
            return web.Response(status=302, headers={"Location": f"{self.url}/elsewhere"})
        if fault == "endless":
            return await _send_endlessly(request)
        if fault in _STATUSES:
            if fault.endswith("after"):
                await self._forward(request, body)
            text = b'{"error":"not now"}'
            return web.Response(status=_STATUSES[fault], body=text, content_type=_JSON)
        return web.Response(body=_BODIES[fault], content_type=_JSON)

    async def _forward(self, request: web.BaseRequest, body: bytes) -> web.Response:
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, trust_env=False)
        headers = [(name, text) for name, text in request.headers.items() if _passes(name)]
        async with self._session.request(
            request.method,
            self._target + request.raw_path,
            headers=headers,
            data=body,
            allow_redirects=False,
        ) as response:
            content = await response.read()
            kept_headers = [
                (name, text) for name, text in response.headers.items() if _passes(name)
            ]
            return web.Response(status=response.status, body=content, headers=dict(kept_headers))

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()


def _passes(name: str) -> bool:
    return name.lower() not in _HOP


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _disconnected(request: web.BaseRequest) -> None:
    """Wait until the adapter gives up."""
    transport = request.transport
    while transport is not None and not transport.is_closing():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.02)


async def _send_half(request: web.BaseRequest, response: web.Response) -> None:
    content = response.body if isinstance(response.body, bytes) else b""
    half = web.StreamResponse(status=response.status)
    half.content_length = len(content) + 100
    await half.prepare(request)
    await half.write(content[: len(content) // 2])


async def _send_endlessly(request: web.BaseRequest) -> web.StreamResponse:
    """Send a body that does not end, until the adapter gives up."""
    response = web.StreamResponse()
    await response.prepare(request)
    transport = request.transport
    while transport is not None and not transport.is_closing():
        try:
            await response.write(b" " * 65_536)
        except ConnectionError:
            break
    return response


@asynccontextmanager
async def running_proxy(target: str) -> AsyncIterator[Proxy]:
    """Run a proxy in front of the server at ``target`` on a free port of loopback."""
    proxy = Proxy(target)
    server = web.ServerRunner(web.Server(proxy.serve, access_log=None), shutdown_timeout=0.1)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{server.addresses[0][1]}"
    try:
        yield proxy
    finally:
        await server.cleanup()
        await proxy.close()
