"""Ports of 127.0.0.1 for the servers of tests."""

import itertools
import random
import socket
import threading
from collections.abc import Iterator
from typing import Final

# Below what the kernel hands out by itself: there a connection of another test may be sitting by
# the time that the server wants to listen (Linux: net.ipv4.ip_local_port_range).
_FROM: Final = range(10_000, 32_000)
_BLOCK: Final = 100
_lock: Final = threading.Lock()


def _unused() -> Iterator[int]:
    """Give ports, each once, from blocks that only one process of the machine can have."""
    blocks = list(_FROM[::_BLOCK])
    random.SystemRandom().shuffle(blocks)
    for block in itertools.cycle(blocks):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0opentill-test-ports-{block}")  # stands for the block
        except OSError:
            name.close()
            continue
        name.detach()  # it stays open until this process ends
        yield from range(block, block + _BLOCK)


_ports: Final = _unused()


def free_port() -> int:
    """Return a port that nobody listens on, and that no other test of the machine is ever given.

    What still calls a server that has ended, such as a bank that repeats its callback, therefore
    never reaches the server of another test.
    """
    while True:
        with _lock:
            port = next(_ports)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:  # not ours to use
            continue


def free_socket() -> socket.socket:
    """Bind a free port."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", free_port()))
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address of what listens on the socket."""
    return f"http://127.0.0.1:{sock.getsockname()[1]}"
