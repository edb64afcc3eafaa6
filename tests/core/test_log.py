"""The log: one JSON object per line, without secrets or personal data."""

import asyncio
import gc
import io
import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from opentill.core import log, metrics


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[None]:
    """Let nothing of earlier tests appear in the log while a test here captures it."""
    # A sandbox bank that other tests of this process share logs at any moment, in a thread of its
    # own. What it logs already has time to be written before the first test here.
    bank = logging.getLogger("opentill.sandbox")
    bank.setLevel(logging.CRITICAL)
    time.sleep(0.1)
    gc.collect()  # pending warnings appear
    yield
    bank.setLevel(logging.NOTSET)


@pytest.fixture
def stream(undisturbed: None) -> Iterator[io.StringIO]:
    """Capture the log; its configuration is restored afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.configure("info", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.contextvars.clear_contextvars()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


CANARIES = [
    # Each row: the logged text, the part that must be redacted, the part that remains.
    ("key svc_live_0123456789abcdefABCDEF here", "0123456789", "svc_live_"),
    ("key svc_stg_0123456789abcdefABCDEF here", "0123456789", "svc_stg_"),
    ("card 4242424242424242 declined", "4242", "declined"),
    ("card 4242 4242 4242 4242 declined", "4242", "declined"),
    ("card 4242-4242-4242-4242 declined", "4242", "declined"),
    ("card 378282246310005.", "378282246310005", "card"),
    ("card 4242 4242 4242 4242 12/34 123", "4242 4242", "12/34 123"),
    ("card 4242424242424242 123", "4242", "123"),
    ("7 4242424242424242 12 5555555555554444", "4242", "7 "),
    ("7 4242424242424242 12 5555555555554444", "5555", " 12 "),
    ("card 4242.4242.4242.4242", "4242", "card"),
    ("card 4242_4242_4242_4242", "4242", "card"),
    ("mail from ann.lee+tag@example.co.uk is refused", "ann", "is refused"),
    ("Key (email)=(ann@example.com) exists", "ann", "exists"),
    ("ann%40example.com", "ann", ""),
    ("connect postgresql://me:hunter2@db/x failed", "hunter2", "failed"),
    ("GET /epay/api.php?act=query&pid=1&key=hunter2 HTTP/1.1", "hunter2", "/epay/api.php?"),
    ("authorization: Bearer hunter2", "hunter2", ""),
    ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ", "whsec_"),
    ("sk_live_51Habcdef", "51Habcdef", "sk_live_"),
]


WORDS = ["a@b.co", "@", "x", "%40", ".", "-", "y@z.com", "a%40b.c", "/", " "]


@pytest.mark.parametrize(("text", "secret", "remainder"), CANARIES)
def test_secrets_and_personal_data_are_redacted(
    stream: io.StringIO, text: str, secret: str, remainder: str
) -> None:
    logger = structlog.get_logger()
    logger.info(text, a=text, b=[text], c={"d": text})
    logging.getLogger("library").warning("it says %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("failed")
    written = re.sub(r'"timestamp":"[^"]+"', "", stream.getvalue())  # may have any digits
    assert secret not in written
    assert remainder in written
    assert len(_lines(stream)) == 3


# Matches an address anywhere in a text; unlike the log's pattern, it may take quadratic time.
ADDRESS = re.compile(r"[^\s@<>\"'(),:;=\[\]{}/]+(?:@|%40)[\w.-]+\.\w+")


@given(st.text("ab@.-%4/ ", max_size=60) | st.lists(st.sampled_from(WORDS)).map("".join))
@example("a@b.com-x@y.com").via("the second begins in the middle of a word")
@example("x@y@z.com")
@example("a%40b.com%40c")
def test_an_address_is_redacted_wherever_it_begins(text: str) -> None:
    assert ADDRESS.search(log.redact(text).replace(log.REDACTED, "!")) is None


LONG = {
    # Each function returns a text of about n characters that could cause quadratic time.
    "letters": lambda n: "a" * n + " sk_",
    "an address to the end": lambda n: "a" * n + "@b.c",
    "an address without an end": lambda n: "a" * n + "@!",
    "escaped": lambda n: "a%40" * (n // 4),
    "ats": lambda n: "a@" * (n // 2),
    "dots": lambda n: "a@" + "." * n,
    "dashes": lambda n: "a@" + "-" * n,
    "addresses": lambda n: "a@b.c" * (n // 5),
    "schemes": lambda n: "://a" * (n // 4),
    "queries": lambda n: "?a" * (n // 2),
    "bearers": lambda n: "bearer" + " " * n,
    "digits": lambda n: "1 " * (n // 2),
    "keys": lambda n: "svc_live_" * (n // 9),
}


@pytest.mark.parametrize("name", LONG)
def test_redaction_takes_linear_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear time is about 0.1 s for these texts; a search from every letter would take 300 s."""
    monkeypatch.setattr(log, "LONGEST", 10**9)
    started = time.process_time()
    log.redact(LONG[name](200_000))
    assert time.process_time() - started < 5


CUT = [
    # Each row: text, start of the redacted text, part that must not remain ("": any may remain).
    ("word " * 10_000, "word word", ""),
    ("a" * 200_000, "", "a" * 20),
    ("x " * ((log.LONGEST - 12) // 2) + "4242 4242 4242 4242", "x x", "4242"),
    ("x " * ((log.LONGEST - 12) // 2) + "://me:hunter2345@host", "x x", "hunter"),
    ("x " * ((log.LONGEST - 12) // 2) + "ann.somebody@example.com", "x x", "ann"),
]


@pytest.mark.parametrize(("text", "remainder", "secret"), CUT, ids=[row[0][-20:] for row in CUT])
def test_a_long_text_is_cut_outside_of_secrets(text: str, remainder: str, secret: str) -> None:
    redacted = log.redact(text)
    assert redacted.startswith(remainder)
    assert not secret or secret not in redacted
    assert redacted.endswith(f"[cut, of {len(text)} characters]")
    assert len(redacted) <= log.LONGEST + 100


NAMES = [
    ("password", True),
    ("secret_key", True),
    ("api_key", True),
    ("x-api-key", True),
    ("key", True),
    ("email", True),
    ("customer_email", True),
    ("cvc", True),
    ("card_number", True),
    ("authorization", True),
    ("body", True),
    ("query_string", True),
    ("merchant_id", False),
    ("order", False),
    ("keyboard", False),
    ("somebody", False),
]


@pytest.mark.parametrize(("name", "is_secret"), NAMES)
def test_values_of_names_that_look_secret_are_redacted(
    stream: io.StringIO, name: str, is_secret: bool
) -> None:
    structlog.get_logger().info("event", **{name: "value"}, inner={name: 5})
    line = _lines(stream)[0]
    assert (line[name] == log.REDACTED) == is_secret
    assert (line["inner"][name] == log.REDACTED) == is_secret


def test_times_amounts_and_ids_are_not_redacted(stream: io.StringIO) -> None:
    values = {
        "at": 1_736_932_500_000,
        "text": "at 1736932500001, 12.50 USD, order_01m7y2q3dmffwa1159w3gfs5k7",
        "url": "https://pay.example/checkout/cs_1",
        "ok": True,
        "nothing": None,
        "ms": 1.5,
        "data": b"\x00\x01",
    }
    structlog.get_logger().info("event", **values)
    line = _lines(stream)[0]
    assert {name: line[name] for name in values} == values | {"data": "2 bytes"}


def test_a_lone_surrogate_is_written_as_an_escape(stream: io.StringIO) -> None:
    structlog.get_logger().info("said", text="a\ud800b")
    assert json.loads(stream.getvalue())["text"] == "a\ud800b"


def test_a_card_number_in_an_integer_is_redacted(stream: io.StringIO) -> None:
    structlog.get_logger().info("event", n=4242424242424242)
    assert _lines(stream)[0]["n"] == log.REDACTED


def test_lines_contain_the_request_the_level_and_the_time(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        structlog.get_logger().info("hello")
        logging.getLogger("library").error("there")
    structlog.get_logger().debug("not this")
    for line, event in zip(_lines(stream), ("hello", "there"), strict=True):
        assert line["event"] == event
        assert line["request_id"] == "req_1"
        assert line["timestamp"].endswith("Z")
    assert _lines(stream)[1]["level"] == "error"


def _log_request(number: int) -> None:
    log.request(f"req_{number}", "GET", "/v1/orders/{id}", 200, 1.5)


async def test_lines_about_requests_are_written_soon(stream: io.StringIO) -> None:
    _log_request(1)
    assert not stream.getvalue()
    end = asyncio.get_running_loop().time() + 30
    while not stream.getvalue() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(log.LATEST_S)
    line = _lines(stream)[0]
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "request_id": "req_1",
        "method": "GET",
        "route": "/v1/orders/{id}",
        "status": 200,
        "ms": 1.5,
        "event": "request",
        "level": "info",
    }


async def test_buffered_lines_are_written_before_any_other_line(stream: io.StringIO) -> None:
    _log_request(1)
    structlog.get_logger().warning("one")
    _log_request(2)
    _log_request(3)
    logging.getLogger("library").warning("two")
    _log_request(4)
    log.flush()
    lines = _lines(stream)
    assert [line.get("request_id", line["event"]) for line in lines] == [
        "req_1",
        "one",
        "req_2",
        "req_3",
        "two",
        "req_4",
    ]
    stamps = [line["timestamp"] for line in lines]
    assert stamps == sorted(stamps)  # lines have the times of their requests, not of writing


async def test_the_buffer_is_bounded_while_the_loop_is_busy(stream: io.StringIO) -> None:
    for number in range(450):  # meanwhile, the event loop runs no timer
        _log_request(number)
    written = len(_lines(stream))
    assert 400 <= written < 450
    log.flush()
    assert [line["request_id"] for line in _lines(stream)] == [f"req_{n}" for n in range(450)]


def test_a_server_that_stops_loses_no_line() -> None:
    """The last line is logged after the loop has stopped its timers."""
    process = subprocess.run(
        [sys.executable, "-c", _STOPPING], capture_output=True, text=True, timeout=60, check=True
    )
    assert [json.loads(line)["request_id"] for line in process.stderr.splitlines()] == ["req_last"]


_STOPPING = """
import os, signal
from opentill.core import log
from opentill.core.settings import Settings
from opentill.server import http_server

async def app(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    os.kill(os.getpid(), signal.SIGTERM)
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
    log.request("req_last", "GET", "/", 200, 1.0)

log.configure("info")
os._exit(http_server.serve(lambda: app, Settings(drain_delay_s=0), []))  # child processes end so
"""


_UNWRITABLE = """
import asyncio, logging, os, resource, sys
import structlog
from opentill.core import log

def break_stderr(fault):
    if fault == "full":
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    elif fault == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 2)
    else:  # a disk that becomes full after half a line
        end = os.fstat(2).st_size + 40
        resource.setrlimit(resource.RLIMIT_FSIZE, (end, resource.RLIM_INFINITY))

async def main():
    log.configure("info")
    log.request("req_1", "GET", "/", 200, 1.0)
    structlog.get_logger().warning("before")
    stderr = os.dup(2)
    break_stderr(sys.argv[1])
    for number in range(300):
        structlog.get_logger().warning("lost")
    logging.getLogger("library").error("lost")
    log.request("req_2", "GET", "/", 200, 1.0)
    await asyncio.sleep(0.1)  # until the timer has tried to write the line
    for number in range(200):
        log.request("req_3", "GET", "/", 200, 1.0)
    os.dup2(stderr, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    structlog.get_logger().warning("after")
    structlog.get_logger().warning("after")

asyncio.run(main())
"""


@pytest.mark.parametrize("fault", ["full", "pipe", "half"])
def test_lines_that_cannot_be_written_are_counted_without_an_error(
    tmp_path: Path, fault: str
) -> None:
    with (tmp_path / "log").open("wb") as target:
        process = subprocess.run(
            [sys.executable, "-c", _UNWRITABLE, fault], stderr=target, timeout=60, check=False
        )
    written = (tmp_path / "log").read_text().splitlines()
    assert process.returncode == 0, written
    if fault == "half":
        assert written.pop(2).startswith('{"')  # the third line is incomplete
    lines = [json.loads(line) for line in written]
    assert [line["event"] for line in lines] == [
        "request",
        "before",
        "lines of the log could not be written",
        "after",
        "after",
    ]
    assert lines[2].pop("timestamp").endswith("Z")
    assert lines[2] == {
        "event": "lines of the log could not be written",
        "level": "error",
        "lines": 502,
        "reason": {"full": "ENOSPC", "pipe": "EPIPE", "half": "EFBIG"}[fault],
    }


def test_a_closed_log_causes_no_error(stream: io.StringIO) -> None:
    stream.close()
    structlog.get_logger().warning("lost")
    logging.getLogger("library").warning("lost")
    log.flush()


def test_lines_on_a_terminal_are_readable() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log.configure("debug", stream=terminal)
    structlog.get_logger().debug("hello", email="ann@example.com")
    structlog.get_logger().debug("typed", name="Ada\u202e\x1b]0;x\x07")
    root.handlers[:] = handlers
    root.setLevel(level)
    assert "hello" in terminal.getvalue()
    assert "ann@" not in terminal.getvalue()
    assert "Ada\\u202e\\u001b]0;x\\u0007" in terminal.getvalue()
    assert not set(terminal.getvalue()) & {"\u202e", "\x07"}
    assert not terminal.getvalue().startswith("{")


def test_metrics_use_route_templates_and_prometheus_format() -> None:
    metrics.count_request("/v1/orders/{id}", "GET", 200, 0.004)
    metrics.count_job("prune", "done", 0.01)
    metrics.count_request("/healthz", "BREW", 405, 0.001)
    queue = metrics.Reading("opentill_age", "How old", [({"queue": 'a"b\\c'}, 3)])
    text = metrics.render([queue, metrics.Reading("opentill_up", "Up", [({}, 1)])]).decode()
    assert 'method="BREW"' not in text
    assert 'opentill_requests_total{method="GET",route="/v1/orders/{id}",status="200"}' in text
    assert 'opentill_request_seconds_bucket{le="0.005",method="GET"' in text
    assert 'opentill_jobs_total{kind="prune",outcome="done"}' in text
    assert "\n# HELP opentill_build_info " in text
    assert text.endswith(
        "# HELP opentill_age How old\n# TYPE opentill_age gauge\n"
        'opentill_age{queue="a\\"b\\\\c"} 3\n'
        "# HELP opentill_up Up\n# TYPE opentill_up gauge\nopentill_up 1\n"
    )
