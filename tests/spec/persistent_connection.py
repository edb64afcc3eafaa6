"""A persistent connection makes loops of thousands of requests quick.

The client of httpx takes longer for a request than the server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx2

from support.api_server import Shop, check_response


class PersistentConnection:
    """Sends requests with a shop's key, and checks the properties that all responses have."""

    def __init__(self, shop: Shop, connection: HTTPConnection) -> None:
        """Use ``persistent_connection``."""
        self._shop = shop
        self._connection = connection

    def call(self, method: str, target: str, content: bytes | None = None) -> httpx2.Response:
        """Send a request, with a JSON body if ``content`` is given."""
        headers = {"x-api-key": self._shop.key}
        if content is not None:
            headers["content-type"] = "application/json"
        self._connection.request(method, target, body=content, headers=headers)
        received = self._connection.getresponse()
        response = httpx2.Response(
            received.status,
            headers=received.getheaders(),
            content=received.read(),
            request=httpx2.Request(method, self._shop.api_server.url + target),
        )
        check_response(response)
        return response


@contextmanager
def persistent_connection(shop: Shop) -> Iterator[PersistentConnection]:
    """Keep a connection while the block runs."""
    address = urlsplit(shop.api_server.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        yield PersistentConnection(shop, connection)
    finally:
        connection.close()
