"""The port of the metrics: open on loopback, asking for the token beyond."""

import httpx2
import pytest

from opentill.core import metrics
from opentill.core.errors import ConfigurationError
from support.ports import free_port

READ = [metrics.Reading("opentill_up", "Up", [({}, 1)])]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_port_shows_what_is_read_at_that_moment(host: str) -> None:
    port, asked = free_port(), []
    shown = f"[{host}]" if ":" in host else host

    def read() -> list[metrics.Reading]:
        asked.append(port)
        return READ

    with metrics.listening(host, port, read):
        for _ in range(2):
            page = httpx2.get(f"http://{shown}:{port}/metrics", trust_env=False)
            assert page.text.endswith("\nopentill_up 1\n")
            assert page.headers["content-type"] == metrics.CONTENT_TYPE
    assert len(asked) == 2


def test_with_a_token_only_its_bearer_gets_an_answer() -> None:
    port = free_port()
    with metrics.listening("127.0.0.1", port, lambda: READ, "a token of metrics"):
        url = f"http://127.0.0.1:{port}/metrics"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer another one"}, 401),
            ({"authorization": "a token of metrics"}, 401),
            ({"authorization": "Bearer a token of metrics"}, 200),
        ):
            page = httpx2.get(url, headers=headers, trust_env=False)
            assert (page.status_code, "opentill_up" in page.text) == (status, status == 200)


def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    port = free_port()
    with (
        metrics.listening("127.0.0.1", port, lambda: READ),
        pytest.raises(ConfigurationError, match="set OPENTILL_METRICS_PORT"),
        metrics.listening("127.0.0.1", port, lambda: READ),
    ):
        pass
