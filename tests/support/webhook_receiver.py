"""A merchant's webhook server on loopback, which records requests and can misbehave."""

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
    at: float  # Unix time in seconds

    @property
    def event_id(self) -> str:
        """The id of the event."""
        return self.headers["webhook-id"]


# Returns how the receiver reacts to a request: an HTTP status, "reset", "hang", "late" (200 after
# 0.2 s), "slow" (200 after 0.5 s) or "slowly gone" (410 once ``gone`` is set).
Behaviour = Callable[[ReceivedRequest], int | str]


class Receiver:
    """A receiver that records requests; create it with ``receiving``."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[ReceivedRequest] = []
        self.accepted: list[ReceivedRequest] = []  # the requests that got the response 200
        self.behave: Behaviour = lambda _: 200
        self.gone = asyncio.Event()
        self.open_requests = 0
        self.max_open_requests = 0

    def accepted_event_ids(self) -> set[str]:
        """Return the ids of the events with response 200."""
        return {request.event_id for request in self.accepted}

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
        request = ReceivedRequest(head[0].split(" ")[1], headers, body, time.time())
        self.received.append(request)
        self.open_requests += 1
        self.max_open_requests = max(self.max_open_requests, self.open_requests)
        try:
            return await self._respond(request, writer)
        finally:
            self.open_requests -= 1

    async def _respond(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        reaction = self.behave(request)
        match reaction:
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
        status = (
            reaction if isinstance(reaction, int) else 410 if reaction == "slowly gone" else 200
        )
        if status == 200:
            self.accepted.append(request)
        location = f"location: {self.url}/elsewhere\r\n" if 300 <= status < 400 else ""
        text = f"HTTP/1.1 {status} Whatever\r\n{location}content-length: 2\r\n\r\nok"
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
        # A hanging request is cancelled when the receiver stops.
        with suppress(asyncio.CancelledError):
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
