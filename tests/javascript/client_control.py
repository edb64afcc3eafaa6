"""An HTTP server by which tests in JavaScript create merchants and act as operators.

``POST /shop`` creates a merchant, ``POST /plan`` sets the faults of the cutting proxy. Requests and
responses are JSON.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.api_server import ApiServer, Shop
from support.cutting_proxy import Proxy, running_proxy


class Control:
    """The operations; a request's path is the name of its method."""

    def __init__(self, api_server: ApiServer, proxy: Proxy) -> None:
        """``proxy``: a cutting proxy in front of the server."""
        self._api_server = api_server
        self._proxy = proxy
        self._shops: dict[str, Shop] = {}

    def shop(self, _: Any) -> Any:
        """Create a merchant with an API key."""
        shop = self._api_server.create_shop()
        self._shops[shop.key] = shop
        return {"url": self._api_server.url, "proxy": self._proxy.url, "key": shop.key}

    def confirm(self, values: Any) -> Any:
        """Confirm an order's payment."""
        self._shops[values["key"]].confirm(values["order"])
        return {}

    def dispute(self, values: Any) -> Any:
        """Open a dispute of a paid order."""
        return {"id": self._shops[values["key"]].open_dispute(values["order"]).id}

    def payout(self, values: Any) -> Any:
        """Create a payout."""
        return {"id": self._shops[values["key"]].create_payout().id}

    def plan(self, values: Any) -> Any:
        """Set the faults of the next requests through the proxy."""
        self._proxy.requests.clear()
        self._proxy.plan = values["plan"]
        return {}

    def requests(self, _: Any) -> Any:
        """Return the requests through the proxy since the last plan."""
        return [request.decode() for request in self._proxy.requests]


@contextlib.contextmanager
def controlling(api_server: ApiServer) -> Iterator[str]:
    """Serve while the block runs; yield the address."""
    with running_proxy(api_server.url) as proxy:
        control = Control(api_server, proxy)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                values = json.loads(self.rfile.read(int(self.headers["content-length"])))
                work: Callable[[Any], Any] = getattr(control, self.path.strip("/"))
                try:
                    status, result = 200, work(values)
                except Exception as error:  # noqa: BLE001 - the test gets it in the response
                    status, result = 500, repr(error)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(result).encode())

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
