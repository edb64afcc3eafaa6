"""The port of the metrics, with and without a token."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx2
import pytest

from opentill.core import metrics
from opentill.core.errors import ConfigurationError
from support.ports import free_port

READINGS = [metrics.Reading("opentill_up", "Up", [({}, 1)])]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_port_serves_current_readings(host: str) -> None:
    port, calls = free_port(), []
    authority = f"[{host}]" if ":" in host else host

    def read() -> list[metrics.Reading]:
        calls.append(port)
        return READINGS

    with metrics.listening(host, port, read):
        for _ in range(2):
            page = httpx2.get(f"http://{authority}:{port}/metrics", trust_env=False)
            assert page.text.endswith("\nopentill_up 1\n")
            assert page.headers["content-type"] == metrics.CONTENT_TYPE
    assert len(calls) == 2


def test_the_port_with_a_token_requires_it() -> None:
    port = free_port()
    with metrics.listening("127.0.0.1", port, lambda: READINGS, "a token of metrics"):
        url = f"http://127.0.0.1:{port}/metrics"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer another one"}, 401),
            ({"authorization": "a token of metrics"}, 401),
            ({"authorization": "Bearer a token of metrics"}, 200),
        ):
            page = httpx2.get(url, headers=headers, trust_env=False)
            assert (page.status_code, "opentill_up" in page.text) == (status, status == 200)


def test_the_error_about_a_port_in_use_names_its_setting() -> None:
    port = free_port()
    with (
        metrics.listening("127.0.0.1", port, lambda: READINGS),
        pytest.raises(ConfigurationError, match="set OPENTILL_METRICS_PORT"),
        metrics.listening("127.0.0.1", port, lambda: READINGS),
    ):
        pass


_TWO_PROCESSES: Final = """
import os
from opentill.core import metrics
if os.fork() == 0:
    metrics.count_gateway_call("stripe", "pay", "succeeded", 0.5)
    metrics.count_gateway_call("stripe", "refund", "refused", 99)
    os._exit(0)
os.wait()
metrics.count_gateway_call("stripe", "pay", "unknown", 0.25)
metrics.count_request("/v1/orders", "GET", 200, 0.1)
print(metrics.gateway_calls())
"""


def test_gateway_calls_are_summed_over_processes(
    tmp_path: Path,
) -> None:
    (tmp_path / "counter_1.db").write_bytes(b"not a file of the library")
    environ = {**os.environ, metrics.VARIABLE: str(tmp_path)}
    process = subprocess.run(
        [sys.executable, "-c", _TWO_PROCESSES], env=environ, capture_output=True, check=True
    )
    expected = {("stripe", "pay"): (2, 0.75), ("stripe", "refund"): (1, 99.0)}
    assert eval(process.stdout) == expected  # noqa: S307 - printed above
