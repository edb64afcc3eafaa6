"""Writes the headers of a response together with the first chunk of its body."""

import asyncio

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class JoinedWrites:
    """A transport that delays the headers of a response until the first chunk of its body.

    Each write is a system call and a packet; two of them are most of uvicorn's cost of a small
    response.
    """

    def __init__(self, transport: asyncio.Transport, cycle: RequestResponseCycle) -> None:
        """``cycle`` is the request whose response is written."""
        self._transport = transport
        self._cycle = cycle
        self._head: bytes | None = b""  # headers that wait for the first data; None: already sent

    def write(self, data: bytes) -> None:
        """Write data immediately, but the headers of a response together with the next data."""
        if self._head is None or not self._cycle.response_started:
            self._transport.write(data)
        elif self._head:
            self._transport.writelines((self._head, data))
            self._head = None
        else:
            self._head = data

    def flush(self) -> None:
        """Write the headers of a response without a body."""
        if self._head:
            self._transport.write(self._head)
            self._head = None

    def close(self) -> None:
        """Close the connection after all data is sent."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._transport.is_closing()
