"""A TCP load balancer that checks its servers' health with HTTP."""

import asyncio
import collections
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import httpx2

from support.ports import free_port

INTERVAL_S: Final = 0.3


class Balancer:
    """Connects each new client to the next server."""

    def __init__(self, targets: list[int], port: int = 0) -> None:
        """``targets``: ports of the servers; ``port``: the balancer's port, 0 for a free one."""
        self._targets = targets
        self._port = port or free_port()
        self._next = 0
        self.ready = list(targets)
        self.used: collections.Counter[int] = collections.Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen at a port while the block runs."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port, backlog=512)
        try:
            yield self._port
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def watch(self) -> None:
        """Check the servers' health repeatedly; a server that is not ready gets no connections."""
        async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
            while True:
                healthy = await asyncio.gather(*(_is_ready(http, port) for port in self._targets))
                self.ready = [port for port, ok in zip(self._targets, healthy, strict=True) if ok]
                await asyncio.sleep(INTERVAL_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if not self.ready:
            writer.transport.abort()
            return
        self._next += 1
        port = self.ready[self._next % len(self.ready)]
        self.used[port] += 1
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(server_writer)
        for source, target in ((reader, server_writer), (server_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pump(source, target)))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(65536):
                target.write(piece)
                await target.drain()
        target.close()


async def _is_ready(http: httpx2.AsyncClient, port: int) -> bool:
    try:
        response = await http.get(f"http://127.0.0.1:{port}/readyz")
    except httpx2.HTTPError:
        return False
    return response.status_code == 200
