"""``compose.yaml`` does what its first lines say: ``make test-image``."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from image.containers import BUILD_S, QUICKLY_S, TIMEOUT_S, TOP, Call, run, words

pytestmark = pytest.mark.image

STRANGE: Final = "p@ss/w:rd#%41 ?&='\"$x\\+${HOME}ü"
PROJECT: Final = "opentill-compose"
PUBLISHED: Final = "http://127.0.0.1:8080"
BANK: Final = "http://127.0.0.1:8081"
OPENTILL: Final = ("exec", "-T", "opentill", "opentill")


@pytest.fixture
def compose(engine: list[str], tmp_path: Path) -> Iterator[Call]:
    """Run the compose command in a copy of what git knows; what it made is gone after the test."""
    here = tmp_path / PROJECT
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=True)
    for name in filter(None, map(os.fsdecode, listed.stdout.split(b"\0"))):
        if (TOP / name).exists():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            # A symbolic link stays one: what it leads to may be a directory.
            shutil.copyfile(TOP / name, here / name, follow_symlinks=False)
    (here / "secrets").mkdir(mode=0o700)
    (here / "secrets" / "database_password").write_text(STRANGE + "\n")
    (here / "secrets" / "secret_key").write_text("k" * 64 + "\n")
    (here / ".env").write_text("OPENTILL_SANDBOX=yes\nOPENTILL_OPERATOR_NAME=Tea & Co\n")
    command = words("OPENTILL_TEST_COMPOSE") or [*engine, "compose"]
    compose: Call = partial(run, *command, cwd=here, timeout_s=BUILD_S)
    yield compose
    compose("down", "--volumes", "--timeout", "30", check=False)


def test_it_comes_up_with_a_strange_password_is_paid_stops_and_keeps_its_books(
    compose: Call, call: Call
) -> None:
    compose("up", "--detach")
    _until(lambda: _state(call, "opentill")["Health"]["Status"] == "healthy", compose)
    findings = json.loads(compose(*OPENTILL, "doctor", "--json"))
    assert not [found for found in findings if found["level"] == "fail"]
    settings = compose(*OPENTILL, "settings")
    assert "Tea & Co" in settings
    login = ("login", "--email", "nobody@example.com", "--password-stdin")
    refused = compose(*OPENTILL, *login, check=False)  # and not that it could not be kept
    assert "password must be that of this e-mail address" in refused

    merchant = json.loads(compose(*OPENTILL, "merchants", "create", "Tea House", "--json"))
    key = json.loads(compose(*OPENTILL, "keys", "create", merchant["id"], "--json"))["key"]
    with httpx2.Client(trust_env=False, timeout=30, follow_redirects=True) as client:
        client.headers["x-api-key"] = key
        order = _pay(client)
        _until(lambda: _read(client, order)["status"] == "PAID", compose)
        assert STRANGE not in settings + compose("logs")

        begin = time.monotonic()
        compose("stop", "--timeout", "30")
        took = time.monotonic() - begin
        served, kept = (_state(call, service) for service in ("opentill", "database"))
        assert (served["ExitCode"], kept["ExitCode"]) == (0, 0)
        # What still runs in the server is finished in the database.
        assert _ended(served) <= _ended(kept)
        compose("down")
        assert took < QUICKLY_S

        compose("up", "--detach")
        _until(lambda: '"status":"ready"' in compose(*OPENTILL, "health", check=False), compose)
        assert _read(client, order)["status"] == "PAID"
    assert '"violations":[]' in compose(*OPENTILL, "ledger", "check", "--json")


def _until(done: Callable[[], bool], compose: Call) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < end, compose("ps", check=False) + compose("logs", check=False)
        time.sleep(0.5)


def _state(call: Call, service: str) -> dict[str, Any]:
    """What the engine says about a service's container."""
    labels = {"project": PROJECT, "service": service}
    filters = [
        f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()
    ]
    (container,) = call("ps", "--all", "--quiet", *filters).split()
    state: dict[str, Any] = json.loads(call("inspect", container))[0]["State"]
    return state


def _ended(state: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(state["FinishedAt"])


def _read(client: httpx2.Client, order_id: str) -> dict[str, Any]:
    order: dict[str, Any] = client.get(f"{PUBLISHED}/v1/orders/{order_id}").json()["data"]
    return order


def _pay(client: httpx2.Client) -> str:
    """Pay a session by the published ports, as a browser does; the id of its order."""

    def make(path: str, **body: str) -> dict[str, Any]:
        answer = client.post(f"{PUBLISHED}/v1/{path}", json=body)
        made: dict[str, Any] = answer.raise_for_status().json()["data"]
        return made

    product = make("products", name="Tea", price="9.99", currency="USD")
    session = make("checkouts", productId=product["id"])
    form = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}
    begun = client.post(session["url"], data=form)
    attempt_id = begun.url.path.rpartition("/")[2]
    card = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}
    client.post(f"{BANK}/pay/{attempt_id}", data=card).raise_for_status()
    read = client.get(f"{PUBLISHED}/v1/checkouts/{session['id']}").json()["data"]
    order_id: str = read["orderId"]
    return order_id
