"""``opentill clock``: the clock can be advanced with the sandbox only."""

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from opentill.cli.clock import duration
from opentill.core.errors import Invalid
from support.deployment import Deployment

DAY = 86_400_000
REAL = {"OPENTILL_GATEWAYS": "sandbox,stripe"}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("8d", 8 * DAY), ("2h", 7_200_000), ("30m", 1_800_000), ("1d12h", 129_600_000), ("1s", 1000)],
)
def test_a_duration_is_parsed(text: str, ms: int) -> None:
    assert duration(text) == ms


@pytest.mark.parametrize("text", ["", "8", "-8d", "0d", "8 d", "8w", "d8", "1.5d", "٣d", "8d!"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="such as 8d, 2h, 30m"):
        duration(text)


def _created(deployment: Deployment, key: str, product: str) -> int:
    """Create a product and return its ``createdAt``, which shows the server's clock."""
    connection = HTTPConnection("127.0.0.1", deployment.port, timeout=60)
    headers = {"x-api-key": key, "content-type": "application/json"}
    connection.request("POST", "/v1/products", product, headers)
    response = json.loads(connection.getresponse().read())
    connection.close()
    return int(response["data"]["createdAt"])


def _until_follows(created: Callable[[], int], ahead_ms: int) -> None:
    """Wait until the server's clock is ``ahead_ms`` ahead, within 1 s if it is idle."""
    end = time.monotonic() + 120
    while abs(created() - time.time() * 1000 - ahead_ms) > 10_000:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def reset_clock(deployment: Deployment) -> Iterator[None]:
    """Reset the clock after the test."""
    yield
    deployment.run_checked("clock", "reset")


@pytest.mark.usefixtures("reset_clock")
def test_servers_and_commands_follow_the_clock_and_its_reset(deployment: Deployment) -> None:
    merchant = json.loads(deployment.run_checked("merchants", "create", "A", "--json"))["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    product = '{"name":"Tea","price":"1.00","currency":"USD"}'
    assert json.loads(deployment.run_checked("clock", "show", "--json"))["aheadMs"] == 0
    moved = json.loads(deployment.run_checked("clock", "advance", "8d", "--json"))
    assert moved["aheadMs"] == 8 * DAY
    _until_follows(lambda: _created(deployment, key, product), 8 * DAY)
    now = time.time() * 1000
    second = json.loads(deployment.run_checked("merchants", "create", "B", "--json"))
    assert abs(second["createdAt"] - now - 8 * DAY) < 30_000
    doctor = json.loads(deployment.run_checked("doctor", "--json"))
    (finding,) = [finding for finding in doctor if finding["subject"] == "time"]
    assert (finding["level"], "192.0 hours ahead" in finding["text"]) == ("warn", True)
    assert json.loads(deployment.run_checked("clock", "reset", "--json"))["aheadMs"] == 0
    _until_follows(lambda: _created(deployment, key, product), 0)


@pytest.mark.usefixtures("reset_clock")
def test_an_advance_first_names_the_open_sessions_that_it_ends(deployment: Deployment) -> None:
    merchant = json.loads(deployment.run_checked("merchants", "create", "C", "--json"))["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    headers = {"x-api-key": key, "content-type": "application/json"}
    connection = HTTPConnection("127.0.0.1", deployment.port, timeout=60)

    def post(path: str, body: str) -> str:
        connection.request("POST", path, body, headers)
        return str(json.loads(connection.getresponse().read())["data"]["id"])

    product = post("/v1/products", '{"name":"Tea","price":"1.00","currency":"USD"}')
    sessions = [post("/v1/checkouts", f'{{"productId":"{product}"}}') for _ in range(12)]
    connection.close()
    process = deployment.run("clock", "advance", "1h")
    assert (process.returncode, process.stderr) == (0, "")
    process = deployment.run("clock", "advance", "9999999d")
    assert process.returncode == 2
    assert "sessions" not in process.stderr
    process = deployment.run("clock", "advance", "1d")
    assert process.returncode == 0
    first, *lines, last = process.stderr.splitlines()
    assert (first, last) == ("open sessions that expire:", "  and 2 more")
    assert len({line.removeprefix("  ") for line in lines} & set(sessions)) == 10


@pytest.mark.usefixtures("reset_clock")
def test_an_advance_ends_no_invitation(deployment: Deployment) -> None:
    words = ("people", "invite", "ann@example.com", "--staff", "admin", "--json")
    path = urlsplit(json.loads(deployment.run_checked(*words))["url"]).path

    def status() -> int:
        connection = HTTPConnection("127.0.0.1", deployment.port, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status

    deployment.run_checked("clock", "advance", "180d", "--yes")
    merchant = json.loads(deployment.run_checked("merchants", "create", "D", "--json"))["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    product = '{"name":"Tea","price":"1.00","currency":"USD"}'
    _until_follows(lambda: _created(deployment, key, product), 180 * DAY)
    assert status() == 200
    deployment.run_checked("clock", "reset")
    _until_follows(lambda: _created(deployment, key, product), 0)
    assert status() == 200


@pytest.mark.parametrize("words", [("show",), ("advance", "8d"), ("reset",)])
def test_the_clock_cannot_be_advanced_with_a_real_gateway(
    deployment: Deployment, words: tuple[str, ...]
) -> None:
    refused = deployment.run("clock", *words, **REAL)
    assert refused.returncode == 2
    assert "with the sandbox bank only; OPENTILL_GATEWAYS has sandbox,stripe" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_an_invalid_duration_is_reported_in_one_line(deployment: Deployment) -> None:
    for words in (("advance", "eight"), ("advance", "999999d")):
        refused = deployment.run("clock", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert json.loads(deployment.run_checked("clock", "show", "--json"))["aheadMs"] == 0
