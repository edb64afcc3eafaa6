"""Deployments with a gateway, as processes, and the browser of a customer without scripts."""

import html
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2

from opentill.client import Client
from support import pooler
from support.commands import ForkServer
from support.deployment import TIMEOUT_S, Deployment


def _settings(database: str) -> dict[str, str]:
    return {
        "OPENTILL_DATABASE_URL": database,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DB_PREPARED": pooler.prepared_setting(database),
        "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
    }


@contextmanager
def run_server(
    fork_server: ForkServer, directory: Path, database: str, **environ: str
) -> Iterator[Deployment]:
    """Run ``opentill serve`` with its worker as a process, on a database of the test."""
    directory.mkdir()
    deployment = Deployment(directory, fork_server)
    deployment.environ |= _settings(database) | environ
    process = deployment.start()
    try:
        yield deployment
        report = json.loads(deployment.run_checked("ledger", "check", "--json"))
        assert report["violations"] == []
        assert report["entries"] > 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


class KilledServer:
    """A server that a test kills."""

    def __init__(self, deployment: Deployment) -> None:
        """Start the server."""
        self.deployment = deployment
        self._process = deployment.start()

    def kill(self) -> None:
        """Kill the server, if it runs."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait(TIMEOUT_S)
            if self._process.stdout is not None:
                self._process.stdout.close()


@contextmanager
def run_killed_server(
    fork_server: ForkServer, directory: Path, database: str, **environ: str
) -> Iterator[KilledServer]:
    """Run another server on a database, as ``run_server`` does, until the test kills it."""
    directory.mkdir()
    deployment = Deployment(directory, fork_server)
    deployment.environ |= _settings(database) | environ
    server = KilledServer(deployment)
    try:
        yield server
    finally:
        server.kill()


def create_merchant(deployment: Deployment) -> tuple[str, str]:
    """Create a merchant that settles in CNY; return its id and API key."""
    output = deployment.run_checked("merchants", "create", "Tea", "--currency", "CNY", "--json")
    merchant_id = json.loads(output)["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant_id, "--json"))["key"]
    deployment.run_checked("rates", "set", "CNY", "USD", "0.14", "--reason", "test")
    return merchant_id, key


def create_client(deployment: Deployment, key: str) -> Client:
    return Client(f"http://127.0.0.1:{deployment.port}", key, trust_env=False)


def wait_for(read_value: Callable[[], Any]) -> Any:
    """Call a function until it returns a true value; return that value."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := read_value()):
        assert time.monotonic() < deadline, "no true value before the deadline"
        time.sleep(0.1)
    return value


class Browser:
    """A customer's browser without scripts, which follows redirects and finds buttons."""

    def __init__(self) -> None:
        self.http = httpx2.Client(follow_redirects=True, trust_env=False, timeout=30)
        self.page = httpx2.Response(200)

    def open(self, url: str) -> None:
        self.page = self.http.get(url)
        assert self.page.status_code == 200, self.page.text

    def submit(self, **form: str) -> None:
        """Submit the form of the current page."""
        self.page = self.http.post(str(self.page.url), data=form)
        assert self.page.status_code == 200, self.page.text

    def button(self) -> str:
        """Return the URL of the current page's button."""
        match = re.search(r'<a class="button[^"]*" href="([^"]+)"', self.page.text)
        assert match is not None, self.page.text
        return urljoin(str(self.page.url), html.unescape(match[1]))
