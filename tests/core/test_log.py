"""The log: one JSON object a line, and nothing in it that must not be there."""

import asyncio
import gc
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from opentill.core import log, metrics


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What the log writes; logging is put back afterwards."""
    gc.collect()  # what tests before left behind complains now, and not here
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.configure("info", stream=stream)
    # A bank that other tests of this process keep running writes its own lines.
    bank = logging.getLogger("opentill.sandbox")
    bank.setLevel(logging.CRITICAL)
    yield stream
    bank.setLevel(logging.NOTSET)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


CANARIES = [
    # what somebody tries to log, what must not be there, what stays
    ("key svc_live_0123456789abcdefABCDEF here", "0123456789", "svc_live_"),
    ("key svc_stg_0123456789abcdefABCDEF here", "0123456789", "svc_stg_"),
    ("card 4242424242424242 declined", "4242", "declined"),
    ("card 4242 4242 4242 4242 declined", "4242", "declined"),
    ("card 4242-4242-4242-4242 declined", "4242", "declined"),
    ("card 378282246310005.", "378282246310005", "card"),
    ("mail from ann.lee+tag@example.co.uk bounced", "ann", "bounced"),
    ("Key (email)=(ann@example.com) exists", "ann", "exists"),
    ("ann%40example.com", "ann", ""),
    ("connect postgresql://me:hunter2@db/x failed", "hunter2", "failed"),
    ("GET /epay/api.php?act=query&pid=1&key=hunter2 HTTP/1.1", "hunter2", "/epay/api.php?"),
    ("authorization: Bearer hunter2", "hunter2", ""),
    ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ", "whsec_"),
    ("sk_live_51Habcdef", "51Habcdef", "sk_live_"),
]


@pytest.mark.parametrize(("text", "gone", "kept"), CANARIES)
def test_what_must_not_be_in_a_log_is_struck_out(
    stream: io.StringIO, text: str, gone: str, kept: str
) -> None:
    logger = structlog.get_logger()
    logger.info(text, a=text, b=[text], c={"d": text})
    logging.getLogger("library").warning("it says %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("failed")
    written = stream.getvalue()
    assert gone not in written
    assert kept in written
    assert len(_lines(stream)) == 3


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


@pytest.mark.parametrize(("name", "struck"), NAMES)
def test_values_of_names_that_look_secret_are_struck_out(
    stream: io.StringIO, name: str, struck: bool
) -> None:
    structlog.get_logger().info("event", **{name: "value"}, inner={name: 5})
    line = _lines(stream)[0]
    assert (line[name] == log.STRUCK) == struck
    assert (line["inner"][name] == log.STRUCK) == struck


def test_times_amounts_and_ids_stay(stream: io.StringIO) -> None:
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


def test_a_card_number_as_a_number_is_struck_out(stream: io.StringIO) -> None:
    structlog.get_logger().info("event", n=4242424242424242)
    assert _lines(stream)[0]["n"] == log.STRUCK


def test_lines_carry_the_request_the_level_and_the_time(stream: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        structlog.get_logger().info("hello")
        logging.getLogger("library").error("there")
    structlog.get_logger().debug("not this")
    for line, event in zip(_lines(stream), ("hello", "there"), strict=True):
        assert line["event"] == event
        assert line["request_id"] == "req_1"
        assert line["timestamp"].endswith("Z")
    assert _lines(stream)[1]["level"] == "error"


def _answered(number: int) -> None:
    log.request(f"req_{number}", "GET", "/v1/orders/{id}", 200, 1.5)


async def test_lines_of_requests_are_written_soon(stream: io.StringIO) -> None:
    _answered(1)
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


async def test_what_waits_is_written_before_any_other_line(stream: io.StringIO) -> None:
    _answered(1)
    structlog.get_logger().warning("one")
    _answered(2)
    _answered(3)
    logging.getLogger("library").warning("two")
    _answered(4)
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
    assert stamps == sorted(stamps)  # each of its own moment, not of its writing


async def test_only_so_many_lines_wait_for_a_busy_loop(stream: io.StringIO) -> None:
    for number in range(450):  # and the loop never comes to its timers
        _answered(number)
    written = len(_lines(stream))
    assert 400 <= written < 450
    log.flush()
    assert [line["request_id"] for line in _lines(stream)] == [f"req_{n}" for n in range(450)]


def test_a_server_that_stops_loses_no_line() -> None:
    """Answered in the very last moment, when no timer goes off any more."""
    done = subprocess.run(
        [sys.executable, "-c", _STOPPING], capture_output=True, text=True, timeout=60, check=True
    )
    assert [json.loads(line)["request_id"] for line in done.stderr.splitlines()] == ["req_last"]


_STOPPING = """
import os, signal
from opentill.core import log, server
from opentill.core.settings import Settings

async def app(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    os.kill(os.getpid(), signal.SIGTERM)
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
    log.request("req_last", "GET", "/", 200, 1.0)

log.configure("info")
os._exit(server.serve(lambda: app, Settings(drain_delay_s=0), []))  # as children of ours end
"""


def test_a_terminal_gets_readable_lines() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    log.configure("debug", stream=terminal)
    structlog.get_logger().debug("hello", email="ann@example.com")
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    assert "hello" in terminal.getvalue()
    assert "ann@" not in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")


def test_metrics_are_by_template_and_rendered_for_prometheus() -> None:
    metrics.count_request("/v1/orders/{id}", "GET", 200, 0.004)
    metrics.count_job("prune", "done", 0.01)
    text = metrics.render({"opentill_jobs_due": 3}).decode()
    assert 'opentill_requests_total{method="GET",route="/v1/orders/{id}",status="200"}' in text
    assert 'opentill_request_seconds_bucket{le="0.005",method="GET"' in text
    assert 'opentill_jobs_total{kind="prune",outcome="done"}' in text
    assert text.endswith("# TYPE opentill_jobs_due gauge\nopentill_jobs_due 3\n")
