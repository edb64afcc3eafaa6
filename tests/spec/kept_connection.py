"""A persistent connection for loops of thousands of requests.

An HTTP client of httpx takes longer for each of them than the server does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx2

from support.api_server import Shop, check_response


class KeptConnection:
    """Sends requests with a shop's key, and checks the properties that all responses have."""

    def __init__(self, shop: Shop, connection: HTTPConnection) -> None:
        """Use ``kept``."""
        self._shop = shop
        self._connection = connection

    def call(self, method: str, target: str, content: bytes | None = None) -> httpx2.Response:
        """Send a request, with a body of JSON if there is one."""
        headers = {"x-api-key": self._shop.key}
        if content is not None:
            headers["content-type"] = "application/json"
        self._connection.request(method, target, body=content, headers=headers)
        got = self._connection.getresponse()
        answer = httpx2.Response(
            got.status,
            headers=got.getheaders(),
            content=got.read(),
            request=httpx2.Request(method, self._shop.api_server.url + target),
        )
        check_response(answer)
        return answer


@contextmanager
def keep_connection(shop: Shop) -> Iterator[KeptConnection]:
    """Keep a connection while the block runs."""
    address = urlsplit(shop.api_server.url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    try:
        yield KeptConnection(shop, connection)
    finally:
        connection.close()
