"""The private parts of uvicorn and httptools that ``server/`` uses are unchanged.

If a new version fails here, read its changes, check whether ``server/`` still works, and run the
tests in this folder. Then set the digest that the failure shows.
"""

import hashlib
import inspect

import httptools
import pytest
from uvicorn import Server
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from opentill.server.refusals import Refusal, too_many

PARTS = [
    # Each row: a private object, the first digits of the SHA-256 of its source, how server/ relies
    # on it.
    (HttpToolsProtocol.__init__, "4f0899941034", "creates parser, pipeline and cycle"),
    (
        HttpToolsProtocol.connection_made,
        "6efb565ff3d3",
        "creates `flow`, which is replaced, and `client`",
    ),
    (
        HttpToolsProtocol.connection_lost,
        "c91a4c9bf2e2",
        "disconnects `cycle` only, drops the parser",
    ),
    (HttpToolsProtocol.data_received, "010a7ae59a5d", "is replaced"),
    (HttpToolsProtocol.on_message_begin, "96d377fdc7c2", "creates `url`, `headers` and the scope"),
    (HttpToolsProtocol.on_header, "65d62c044f61", "also gets trailers"),
    (
        HttpToolsProtocol.on_headers_complete,
        "1ea8589acfad",
        "starts the application or queues at the left",
    ),
    (HttpToolsProtocol.on_body, "dba9c32aeba3", "ignores input after the response"),
    (HttpToolsProtocol.on_message_complete, "1fbad42dc31f", "ends the body"),
    (HttpToolsProtocol.on_response_complete, "64e254f28e38", "is replaced"),
    (HttpToolsProtocol.shutdown, "d7351fa33f00", "is replaced"),
    (HttpToolsProtocol._start_asgi_task, "9c08c2571ae9", "runs one cycle"),
    (
        RequestResponseCycle,
        "e67d470d435d",
        "keep_alive, body, disconnected, message_event, response_…",
    ),
    (FlowControl, "126debcdaa89", "read_paused and the two pairs of methods"),
    (ServerState, "f2260fbf1015", "connections, total_requests, default_headers"),
    (Server._serve, "4575b7a50adf", "startup, main loop, shutdown"),
    (Server.startup, "2aa1d70a244b", "raises SystemExit if the lifespan fails"),
    (Server.on_tick, "60ea49b06ccf", "creates the default headers, ends on `should_exit`"),
    (Server.shutdown, "9b33c5056299", "calls `shutdown` of each connection and waits for them"),
    (Server.capture_signals, "e1bbcd4770d1", "is replaced"),
]


@pytest.mark.parametrize(
    ("part", "digest"), [row[:2] for row in PARTS], ids=[row[0].__qualname__ for row in PARTS]
)
def test_a_private_part_of_uvicorn_is_unchanged(part: object, digest: str) -> None:
    source = inspect.getsource(part)  # type: ignore[arg-type] # a class or a function
    assert hashlib.sha256(source.encode()).hexdigest()[:12] == digest


def test_the_constants_of_uvicorn_are_unchanged() -> None:
    assert HIGH_WATER_LIMIT == 65536
    assert STATUS_LINE[429] == b"HTTP/1.1 429 Too Many Requests\r\n"


def test_an_exception_of_a_callback_is_the_context_of_the_parser_error() -> None:
    class Callbacks:
        def on_message_begin(self) -> None:
            raise too_many()

    with pytest.raises(httptools.HttpParserCallbackError) as caught:
        httptools.HttpRequestParser(Callbacks()).feed_data(b"GET / HTTP/1.1\r\n\r\n")
    assert isinstance(caught.value.__context__, Refusal)


AMBIGUOUS = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    b"Content-Length: 1\r\nContent-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
]


@pytest.mark.parametrize("headers", AMBIGUOUS)
def test_the_parser_refuses_more_than_one_length_or_coding(headers: bytes) -> None:
    """``check_framing`` leaves these cases to the parser."""
    parser = httptools.HttpRequestParser(object())
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # uvicorn sets this leniency too
    with pytest.raises(httptools.HttpParserError):
        parser.feed_data(b"POST / HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n0\r\n\r\n")
