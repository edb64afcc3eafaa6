"""An OTLP receiver on loopback: takes traces over HTTP and keeps their spans."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Received(NamedTuple):
    """One span; ids in hex, ``parent`` "" for the first of a trace."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    service: str


class TraceReceiver:
    """Use ``receiving_traces``."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self.url = ""
        self.spans: list[Received] = []

    def take(self, body: bytes) -> None:
        """Keep the spans of one export."""
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            self.spans += [
                Received(
                    span.name,
                    span.kind,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    service,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    def named(self, name: str) -> list[Received]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def receiving_traces() -> Iterator[TraceReceiver]:
    """Listen on a free port while the block runs."""
    receiver = TraceReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces", self.path
            body = self.rfile.read(int(self.headers["content-length"]))
            zipped = self.headers.get("content-encoding") == "gzip"
            receiver.take(gzip.decompress(body) if zipped else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
