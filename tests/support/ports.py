"""Ports for servers that tests start as processes."""

import random
import socket
from typing import Final

# Below what the kernel hands out by itself: there a connection of another test may be sitting by
# the time that the server wants to listen (Linux: net.ipv4.ip_local_port_range).
_FROM: Final = range(10_000, 32_000)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, and that no other test is given.

    A name that only one process of the machine can have stands for the port until this one ends.
    """
    while True:
        port = random.SystemRandom().choice(_FROM)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0opentill-test-port-{port}")
            with socket.create_server(("127.0.0.1", port)):
                name.detach()  # it stays open
                return port
        except OSError:
            name.close()
