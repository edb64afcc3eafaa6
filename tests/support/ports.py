"""Ports of 127.0.0.1 for the servers of tests."""

import itertools
import random
import socket
import threading
from collections.abc import Iterator
from typing import Final

# These ports are below those that the kernel gives to outgoing connections
# (net.ipv4.ip_local_port_range), because an outgoing connection could take a port before the server
# listens.
_RANGE: Final = range(10_000, 32_000)
_BLOCK: Final = 100
_lock: Final = threading.Lock()


def _unused() -> Iterator[int]:
    """Yield ports, each once, from blocks that this process has reserved on the machine."""
    blocks = list(_RANGE[::_BLOCK])
    random.SystemRandom().shuffle(blocks)
    for block in itertools.cycle(blocks):
        name = socket.socket(socket.AF_UNIX)
        try:
            # The name reserves the block for this process.
            name.bind(f"\0opentill-test-ports-{block}")
        except OSError:
            name.close()
            continue
        name.detach()  # the socket stays open until this process ends
        yield from range(block, block + _BLOCK)


_ports: Final = _unused()


def free_port() -> int:
    """Return a free port that no other test of the machine gets.

    So a late request to a server that has ended, such as the repeated callback of a bank, never
    reaches the server of another test.
    """
    while True:
        with _lock:
            port = next(_ports)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # another program uses the port
            continue


def free_socket() -> socket.socket:
    """Bind a free port."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", free_port()))
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address of the server that listens on the socket."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}"
