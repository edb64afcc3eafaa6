"""One write for the head of a response and the first part of its body."""

import asyncio

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class JoinedWrites:
    """The transport, as a response sees it: its head waits for the first part of its body.

    Each write is a system call and a packet; those of the two are the larger part of what uvicorn
    takes for a small response.
    """

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        """``cycle`` is the request whose response is written."""
        self._transport = transport
        self._cycle = cycle
        self._head: bytes | None = b""  # None: it was sent

    def write(self, data: bytes) -> None:
        """Send what came before the response at once, and the head with what follows it."""
        if self._head is None or not self._cycle.response_started:
            self._transport.write(data)
        elif self._head:
            self._transport.writelines((self._head, data))
            self._head = None
        else:
            self._head = data

    def flush(self) -> None:
        """Send the head of a response without a body."""
        if self._head:
            self._transport.write(self._head)
            self._head = None

    def close(self) -> None:
        """Close the connection when all is sent."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._transport.is_closing()
