"""A developer's own server, to which events are forwarded."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """A request that a developer's server got."""

    headers: dict[str, str]
    body: bytes

    @property
    def subject(self) -> str:
        """The payout or order of the event."""
        data = json.loads(self.body)["data"]
        return str(data.get("payout_id") or data["order_id"])


@contextlib.contextmanager
def developer_server(port: int, requests: list[Received], status: int = 200) -> Iterator[None]:
    """Serve at a port while the block runs, and append what arrives to ``requests``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            requests.append(Received({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"" if status == 200 else b"out of \x1b[2J stock\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
