"""Asks a running server whether it is ready: what a container's engine does every few seconds.

It imports next to nothing and opens no database. The server logs such a request at debug only.
"""

import os
import socket
import sys
from typing import Final

import msgspec

from opentill import config
from opentill.core.settings import Settings

TIMEOUT_S: Final = 3.0
LARGEST_BYTES: Final = 65_536


class Found(msgspec.Struct, frozen=True):
    """Where the server was asked, whether it is ready, and its response or why there is none."""

    url: str
    ready: bool
    response: str


def ask(settings: Settings) -> Found:
    """Ask the server that the settings describe, on this machine."""
    url = f"{config.address(settings.host, settings.port)}/readyz"
    host = config.reachable(settings.host)
    request = f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    response = b""
    try:
        with socket.create_connection((host, settings.port), TIMEOUT_S) as connection:
            connection.sendall(request.encode())
            while len(response) < LARGEST_BYTES and (part := connection.recv(LARGEST_BYTES)):
                response += part
    except OSError as error:
        return Found(url, ready=False, response=f"no response ({error.strerror or error})")
    head, _, body = response.partition(b"\r\n\r\n")
    ready = head.split(maxsplit=2)[:2] == [b"HTTP/1.1", b"200"]
    return Found(url, ready, body.decode(errors="replace") or "no response")


def main() -> int:
    """Ask and say what was found; the exit code. Raises ``SettingError``."""
    found = ask(config.load(os.environ))
    sys.stdout.write(f"{found.url}: {found.response}\n")
    return 0 if found.ready else 1
