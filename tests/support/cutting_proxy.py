"""A TCP proxy that cuts connections at a chosen point.

Each request gets the next fault of ``plan``; once the plan is used up, requests pass.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Literal

from support.ports import free_port

Cut = Literal[
    "pass",
    "before",  # the proxy reads the request and does not forward it
    "after",  # the proxy does not forward the server's response
    "half",  # the client gets half of the response
    "silent_before",  # like "before", but the proxy keeps the connection open
    "silent_after",  # like "after", but the proxy keeps the connection open
]


class Proxy:
    """A proxy between a client and a server on loopback."""

    def __init__(self, host: str, port: int) -> None:
        """Use ``running_proxy``."""
        self.plan: list[Cut] = []
        self.requests: list[bytes] = []  # each item contains the headers and the body
        self.url = ""
        self._target = host, port
        self._waiting: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        try:
            while True:
                request = await _message(reader)
                if not request:
                    return
                self.requests.append(request)
                cut = self.plan.pop(0) if self.plan else "pass"
                if not await self._handle(cut, request, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _handle(self, cut: Cut, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Handle a request; return whether the connection stays open."""
        if cut == "before":
            _reset(writer)
            return False
        if cut == "silent_before":
            await asyncio.sleep(30)
        response = await self._forward(request)
        if cut == "silent_after":
            await asyncio.sleep(30)
        if cut == "after":
            _reset(writer)
            return False
        writer.write(response[: len(response) // 2] if cut == "half" else response)
        await writer.drain()
        return cut == "pass"

    async def _forward(self, request: bytes) -> bytes:
        """Forward a request and read the complete response."""
        reader, writer = await asyncio.open_connection(*self._target)
        writer.write(request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        response = await reader.read()
        writer.close()
        # The server closes its connection, but the client's connection stays open.
        return response.replace(b"connection: close\r\n", b"", 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection with RST, as a failing host does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Read a request with its body."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + await reader.readexactly(length)


@contextlib.contextmanager
def running_proxy(url: str) -> Iterator[Proxy]:
    """Run a proxy in front of a server while the block runs."""
    host, _, port = url.removeprefix("http://").partition(":")
    proxy = Proxy(host, int(port))
    ready = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        stop = asyncio.Event()
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", free_port())
        proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        loops.append((asyncio.get_running_loop(), stop))
        ready.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait(10)
    try:
        yield proxy
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
