"""Checks whether a running server is ready, for container engines, every few seconds.

It imports very little and opens no database. The server logs these requests at debug.
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


class Health(msgspec.Struct, frozen=True):
    """The checked URL, whether the server is ready, and its response or the failure."""

    url: str
    ready: bool
    response: str


def check(settings: Settings) -> Health:
    """Check the server on this machine that the settings describe."""
    url = f"{config.base_url(settings.host, settings.port)}/readyz"
    host = config.connect_host(settings.host)
    request = f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    response = b""
    try:
        with socket.create_connection((host, settings.port), TIMEOUT_S) as connection:
            connection.sendall(request.encode())
            while len(response) < LARGEST_BYTES and (part := connection.recv(LARGEST_BYTES)):
                response += part
    except OSError as error:
        return Health(url, ready=False, response=f"no response ({error.strerror or error})")
    head, _, body = response.partition(b"\r\n\r\n")
    ready = head.split(maxsplit=2)[:2] == [b"HTTP/1.1", b"200"]
    return Health(url, ready, body.decode(errors="replace") or "no response")


def main() -> int:
    """Check and print the result; return the exit code. Raises ``SettingError``."""
    health = check(config.load(os.environ))
    sys.stdout.write(f"{health.url}: {health.response}\n")
    return 0 if health.ready else 1
