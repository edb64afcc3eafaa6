"""``opentill serve`` as real processes: start, crash, replacement and stop."""

import contextlib
import json
import re
import signal
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from cli.sites import (
    TIMEOUT_S,
    Site,
    has_ended,
    kill_tree,
    site,
    wait_until,
    with_database,
    without_log,
)
from opentill.cli.demo import PAYOUT_ACCOUNTS
from support.ports import free_port

__all__ = ["site", "with_database"]

MAX_RSS_MB = 150


def test_serve_starts_creates_private_files_and_stops(site: Site) -> None:
    process = site.start_unforked("serve")
    assert site.get("/readyz")[0] == 200
    assert psutil.Process(process.pid).memory_info().rss < MAX_RSS_MB * 1024 * 1024
    second = site.run("serve")
    assert second.returncode == 2
    [refusal] = without_log(second.stderr)
    assert refusal.startswith("opentill: another `opentill serve` (process ")
    migrated = site.run("migrate", "--json")
    assert json.loads(migrated.stdout) == {"applied": []}
    assert site.get("/readyz")[0] == 200
    for path in (site.data_dir, *site.data_dir.iterdir()):
        assert path.lstat().st_mode & 0o066 == 0, path  # other users have no access
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert site.postmaster() is None


@pytest.mark.usefixtures("with_database")
def test_serve_restarts_after_kill_9_of_all_processes(site: Site) -> None:
    process = site.start("serve")
    for victim in (process.pid, site.postmaster() or 0):
        kill_tree(victim)
    process.wait()
    process = site.start("serve")
    assert site.get("/readyz")[0] == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
def test_children_end_with_the_supervisor_and_a_dead_sandbox_is_restarted(
    site: Site,
) -> None:
    process = site.start_unforked("serve")
    supervisor = psutil.Process(process.pid)
    sandbox = _listener(supervisor, site.sandbox_port)
    sandbox.kill()
    wait_until(lambda: _responds(site.sandbox_port))
    sandbox = _listener(supervisor, site.sandbox_port)
    process.kill()
    process.wait()
    wait_until(lambda: has_ended(sandbox))


@pytest.mark.usefixtures("with_database")
def test_dead_children_are_restarted_even_if_the_log_cannot_be_written(
    site: Site,
) -> None:
    process = site.start("serve", "--workers", "2", stderr_to=Path("/dev/full"))
    supervisor = psutil.Process(process.pid)
    before = {child.pid for child in supervisor.children()}
    _listener(supervisor, site.sandbox_port).kill()  # the supervisor tries to log this death
    wait_until(lambda: _responds(site.sandbox_port))
    assert len({child.pid for child in supervisor.children()} & before) == len(before) - 1
    assert site.get("/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
@pytest.mark.parametrize("workers", ["2"])
def test_a_rolling_restart_fails_no_request(site: Site, workers: str) -> None:
    process = site.start("serve", "--workers", workers)
    before = {child.pid for child in psutil.Process(process.pid).children()}
    stop = threading.Event()
    statuses: list[int | str] = []

    def send_requests() -> None:
        connection = HTTPConnection("127.0.0.1", site.port, timeout=60)
        while not stop.is_set():
            try:
                connection.request("GET", "/healthz")
                response = connection.getresponse()
                response.read()
                statuses.append(response.status)
                if response.getheader("connection") == "close":
                    connection.close()
            except OSError as error:
                statuses.append(repr(error))
                connection.close()
            time.sleep(0.025)
        connection.close()

    threads = [threading.Thread(target=send_requests) for _ in range(4)]
    for thread in threads:
        thread.start()
    process.send_signal(signal.SIGHUP)
    # The worker and the servers are replaced, the sandbox bank is not.
    wait_until(lambda: len({c.pid for c in psutil.Process(process.pid).children()} - before) == 3)
    wait_until(lambda: len(psutil.Process(process.pid).children()) == len(before))
    wait_until(lambda: len(statuses) > 100)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
def test_a_second_demo_shows_the_merchant_of_the_running_one(site: Site) -> None:
    process = site.start("demo")
    wait_until((site.data_dir / "demo.json").exists)
    wait_until(lambda: json.loads((site.data_dir / "demo.json").read_bytes())["product_id"])
    state = json.loads((site.data_dir / "demo.json").read_bytes())
    assert (site.data_dir / "demo.json").stat().st_mode & 0o077 == 0
    second = site.run("demo")
    assert second.returncode == 0, second.stderr
    assert state["key"] in second.stdout
    assert f"Pay here:  http://127.0.0.1:{site.port}/checkout/cs_" in second.stdout
    assert f"Dashboard: http://127.0.0.1:{site.port}/invite/" in second.stdout
    environ_file = site.data_dir / "demo.env"
    assert second.stdout.endswith(f"  . {environ_file}\n\n")
    assert environ_file.stat().st_mode & 0o077 == 0
    environment = environ_file.read_text()
    for line in (
        f"KEY={state['key']}",
        f"OPENTILL_PORT={site.port}",
        f"OPENTILL_PUBLIC_URL=http://127.0.0.1:{site.port}",
        f"OPENTILL_PAYOUT_ACCOUNTS={PAYOUT_ACCOUNTS}",
    ):
        assert f"export {line}\n" in environment
    exported = dict(re.findall(r"export (OPENTILL_\w+)=(\S+)", environment))
    health = site.run("health", **exported)
    assert (health.returncode, f"http://127.0.0.1:{site.port}" in health.stdout) == (0, True)
    refused = site.run("demo", OPENTILL_PORT=str(free_port()))
    assert refused.returncode == 2
    [refusal] = without_log(refused.stderr)
    assert f"(process {process.pid}) uses {site.data_dir} and serves " in refusal
    assert f"serves http://127.0.0.1:{site.port};" in refusal
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0


def _listener(supervisor: psutil.Process, port: int) -> psutil.Process:
    """Return the child that serves a port; its parent only holds the socket.

    Only the test's processes are inspected, because others may end during the inspection.
    """
    holders: list[psutil.Process] = []

    def is_held() -> bool:
        holders.clear()
        for child in supervisor.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                ports = (
                    connection.laddr.port
                    for connection in child.net_connections("tcp")
                    if connection.status == psutil.CONN_LISTEN
                )
                if port in ports:
                    holders.append(child)
        return bool(holders)

    wait_until(is_held)
    return max(holders, key=lambda process: process.create_time())


def _responds(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
