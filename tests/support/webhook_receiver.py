"""A merchant's webhook server on loopback that records requests and misbehaves on demand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from support.ports import free_port


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One request; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float  # Unix seconds

    @property
    def event_id(self) -> str:
        """The id of the event."""
        return self.headers["webhook-id"]


# The reaction to a request: an HTTP status, "reset", "hang", "late" (a fifth of a second, then
# 200), "slow" (half a second, then 200) or "slowly gone" (410, as soon as ``gone`` is set).
Behaviour = Callable[[ReceivedRequest], int | str]


class Receiver:
    """A receiver that records requests; create it with ``receiving``."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[ReceivedRequest] = []
        self.accepted: list[ReceivedRequest] = []  # those that were answered 200
        self.behave: Behaviour = lambda _: 200
        self.gone = asyncio.Event()
        self.open_requests = 0
        self.max_open_requests = 0

    def accepted_event_ids(self) -> set[str]:
        """The ids of the events answered with 200."""
        return {got.event_id for got in self.accepted}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while await self._serve_request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lines = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        got = ReceivedRequest(head[0].split(" ")[1], headers, body, time.time())
        self.received.append(got)
        self.open_requests += 1
        self.max_open_requests = max(self.max_open_requests, self.open_requests)
        try:
            return await self._answer(got, writer)
        finally:
            self.open_requests -= 1

    async def _answer(self, got: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        doing = self.behave(got)
        match doing:
            case "reset":
                writer.transport.abort()
                return False
            case "hang":
                await asyncio.sleep(3600)
            case "late":
                await asyncio.sleep(0.2)
            case "slow":
                await asyncio.sleep(0.5)
            case "slowly gone":
                await self.gone.wait()
        status = doing if isinstance(doing, int) else 410 if doing == "slowly gone" else 200
        if status == 200:
            self.accepted.append(got)
        more = f"location: {self.url}/elsewhere\r\n" if 300 <= status < 400 else ""
        text = f"HTTP/1.1 {status} Whatever\r\n{more}content-length: 2\r\n\r\nok"
        writer.write(text.encode())
        await writer.drain()
        return True


@asynccontextmanager
async def receiving(behave: Behaviour | None = None) -> AsyncIterator[Receiver]:
    """Run a receiver while the block runs."""
    receiver = Receiver()
    receiver.behave = behave or receiver.behave
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
        with suppress(asyncio.CancelledError):  # at the end, while one hangs
            await receiver.handle(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", free_port(), backlog=1000)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
