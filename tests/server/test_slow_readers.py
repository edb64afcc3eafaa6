"""Clients that leave any part of a response unread are disconnected."""

import asyncio
import contextlib
import socket

import pytest

from opentill.server.http_server import Server
from opentill.server.protocol import Protocol
from server.test_http_server import CLOSE, GET, HASTY, POST, serving, until

PAGE = GET.replace(b"/echo", b"/page")
LAST_INPUTS = [
    # Each row: the client's last input before it stops reading.
    b"",  # without input, the connection stays open and becomes idle
    PAGE[:-2] + CLOSE + b"\r\n",
    PAGE.replace(b"HTTP/1.1", b"HTTP/1.0"),
    b"nonsense\r\n\r\n",
    PAGE[:9],
    POST.replace(b"/echo", b"/early") + b"Content-Length: 9\r\n\r\n",
]


async def test_a_client_that_leaves_the_end_of_a_response_unread_is_disconnected() -> None:
    """Flow control does not notice a short unread end.

    Each client has a separate server; the test waits for all concurrently.
    """
    async with contextlib.AsyncExitStack() as stack:
        servers = {last: await _leave_unread(stack, last) for last in LAST_INPUTS}
        for last, running in servers.items():
            try:
                await until(lambda running=running: not running.server_state.connections)
            except TimeoutError:
                pytest.fail(f"not disconnected after {last!r}")


async def _leave_unread(stack: contextlib.AsyncExitStack, last: bytes) -> Server:
    """Start a server, leave the end of a response unread, and return the server."""
    loop = asyncio.get_running_loop()
    running, port = await stack.enter_async_context(serving(HASTY))
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", port))
    await until(lambda: bool(running.server_state.connections))
    (connection,) = running.server_state.connections
    assert isinstance(connection, Protocol)
    requests = 0
    while not connection.transport.get_write_buffer_size():
        await loop.sock_sendall(client, PAGE)
        requests += 1
        while running.server_state.total_requests < requests:
            await asyncio.sleep(0)
    assert not connection.flow.write_paused
    await loop.sock_sendall(client, last)
    return running
