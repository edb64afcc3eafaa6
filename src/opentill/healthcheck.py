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
    """Where the server was asked, whether it is ready, and what it answered or why it did not."""

    url: str
    ready: bool
    answer: str


def ask(settings: Settings) -> Found:
    """Ask the server that the settings describe, on this machine."""
    url = f"{config.address(settings.host, settings.port)}/readyz"
    host = config.reachable(settings.host)
    request = f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = b""
    try:
        with socket.create_connection((host, settings.port), TIMEOUT_S) as connection:
            connection.sendall(request.encode())
            while len(answer) < LARGEST_BYTES and (part := connection.recv(LARGEST_BYTES)):
                answer += part
    except OSError as error:
        return Found(url, ready=False, answer=f"no answer ({error.strerror or error})")
    head, _, body = answer.partition(b"\r\n\r\n")
    ready = head.split(maxsplit=2)[:2] == [b"HTTP/1.1", b"200"]
    return Found(url, ready, body.decode(errors="replace") or "no answer")


def main() -> int:
    """Ask and say what was found; the exit code. Raises ``SettingError``."""
    found = ask(config.load(os.environ))
    sys.stdout.write(f"{found.url}: {found.answer}\n")
    return 0 if found.ready else 1
