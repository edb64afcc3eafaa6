"""``compose.yaml`` starts a deployment that takes payments and can be restarted."""

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

from image.containers import BUILD_S, QUICKLY_S, TIMEOUT_S, TOP, Call, run, split_variable

pytestmark = pytest.mark.image

PASSWORD: Final = "p@ss/w:rd#%41 ?&='\"$x\\+${HOME}ü"
PROJECT: Final = "opentill-compose"
PUBLISHED: Final = "http://127.0.0.1:8080"
BANK: Final = "http://127.0.0.1:8081"
OPENTILL: Final = ("exec", "-T", "opentill", "opentill")


@pytest.fixture
def compose(engine: list[str], tmp_path: Path) -> Iterator[Call]:
    """A function that runs the compose command in a copy of the repository's files."""
    folder = tmp_path / PROJECT
    files = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=True)
    for name in filter(None, map(os.fsdecode, files.stdout.split(b"\0"))):
        if (TOP / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # Symbolic links stay links, because their target may be a directory.
            shutil.copyfile(TOP / name, folder / name, follow_symlinks=False)
    (folder / "secrets").mkdir(mode=0o700)
    (folder / "secrets" / "database_password").write_text(PASSWORD + "\n")
    (folder / "secrets" / "secret_key").write_text("k" * 64 + "\n")
    (folder / ".env").write_text("OPENTILL_SANDBOX=yes\nOPENTILL_OPERATOR_NAME=Tea & Co\n")
    command = split_variable("OPENTILL_TEST_COMPOSE") or [*engine, "compose"]
    compose: Call = partial(run, *command, cwd=folder, timeout_s=BUILD_S)
    yield compose
    compose("down", "--volumes", "--timeout", "30", check=False)


def test_a_deployment_with_special_characters_in_its_password_keeps_a_payment_after_a_restart(
    compose: Call, call: Call
) -> None:
    compose("up", "--detach")
    _wait_until(
        lambda: _container_state(call, "opentill")["Health"]["Status"] == "healthy", compose
    )
    findings = json.loads(compose(*OPENTILL, "doctor", "--json"))
    assert not [finding for finding in findings if finding["level"] == "fail"]
    settings = compose(*OPENTILL, "settings")
    assert "Tea & Co" in settings
    login = ("login", "--email", "nobody@example.com", "--password-stdin")
    # This error shows that the file of stored logins could be opened.
    refusal = compose(*OPENTILL, *login, check=False)
    assert "password must be that of this email address" in refusal

    merchant = json.loads(compose(*OPENTILL, "merchants", "create", "Tea House", "--json"))
    key = json.loads(compose(*OPENTILL, "keys", "create", merchant["id"], "--json"))["key"]
    with httpx2.Client(trust_env=False, timeout=30, follow_redirects=True) as client:
        client.headers["x-api-key"] = key
        order = _pay(client)
        _wait_until(lambda: _read_order(client, order)["status"] == "PAID", compose)
        assert PASSWORD not in settings + compose("logs")

        started_at = time.monotonic()
        compose("stop", "--timeout", "30")
        duration_s = time.monotonic() - started_at
        server, database = (_container_state(call, service) for service in ("opentill", "database"))
        assert (server["ExitCode"], database["ExitCode"]) == (0, 0)
        # The database must not stop while the server completes its requests.
        assert _finished_at(server) <= _finished_at(database)
        compose("down")
        assert duration_s < QUICKLY_S

        compose("up", "--detach")
        _wait_until(
            lambda: '"status":"ready"' in compose(*OPENTILL, "health", check=False), compose
        )
        assert _read_order(client, order)["status"] == "PAID"
    assert '"violations":[]' in compose(*OPENTILL, "ledger", "check", "--json")


def _wait_until(condition: Callable[[], bool], compose: Call) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, compose("ps", check=False) + compose("logs", check=False)
        time.sleep(0.5)


def _container_state(call: Call, service: str) -> dict[str, Any]:
    """Return the state of a service's container."""
    labels = {"project": PROJECT, "service": service}
    filters = [
        f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()
    ]
    (container,) = call("ps", "--all", "--quiet", *filters).split()
    state: dict[str, Any] = json.loads(call("inspect", container))[0]["State"]
    return state


def _finished_at(state: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(state["FinishedAt"])


def _read_order(client: httpx2.Client, order_id: str) -> dict[str, Any]:
    order: dict[str, Any] = client.get(f"{PUBLISHED}/v1/orders/{order_id}").json()["data"]
    return order


def _pay(client: httpx2.Client) -> str:
    """Pay a session at the published ports, as a browser does; return the order's id."""

    def create(path: str, **body: str) -> dict[str, Any]:
        response = client.post(f"{PUBLISHED}/v1/{path}", json=body)
        data: dict[str, Any] = response.raise_for_status().json()["data"]
        return data

    product = create("products", name="Tea", price="9.99", currency="USD")
    session = create("checkouts", productId=product["id"])
    form = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}
    bank_page = client.post(session["url"], data=form)
    attempt_id = bank_page.url.path.rpartition("/")[2]
    card = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}
    client.post(f"{BANK}/pay/{attempt_id}", data=card).raise_for_status()
    checkout = client.get(f"{PUBLISHED}/v1/checkouts/{session['id']}").json()["data"]
    order_id: str = checkout["orderId"]
    return order_id
