"""``opentill serve`` and other commands as real processes: start, crash, replacement and stop."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import psutil
import pytest

from opentill.cli.demo import PAYOUT_ACCOUNTS
from support import pooler
from support.commands import ForkedProcess, ForkServer, without_settings
from support.deployment import copy_directory
from support.ports import free_port

TIMEOUT_S = 180.0  # limit for operations that take some seconds on an idle machine
MAX_RSS_MB = 150
LATER = (
    "insert into schema_migrations (version, name, sha256, applied_at)"
    " values (9999, '9999_later', repeat('0', 64), 0)"
)


class Site:
    """A new data directory, free ports, and the processes that use them."""

    def __init__(self, directory: Path, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self.data_dir = directory / "data"
        self.port, self.sandbox_port = free_port(), free_port()
        self.environ = {
            **without_settings(os.environ),
            "OPENTILL_DATA_DIR": str(self.data_dir),
            "OPENTILL_PORT": str(self.port),
            "OPENTILL_SANDBOX_PORT": str(self.sandbox_port),
        }
        self.started: list[subprocess.Popen[str] | ForkedProcess] = []

    def start(self, *words: str, stderr_to: Path | None = None) -> ForkedProcess:
        """Fork a command and wait until it is ready."""
        folder = self.data_dir.parent
        with (stderr_to or self._log_path()).open("a") as stderr:
            process = self._fork_server.start(words, self.environ, folder, stderr.fileno())
        self._wait_until_ready(process, process.stdout)
        return process

    def start_unforked(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a new interpreter and wait until it is ready."""
        with self._log_path().open("a") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "opentill", *words],
                env=self.environ,
                cwd=self.data_dir.parent,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._wait_until_ready(process, process.stdout)
        return process

    def _wait_until_ready(
        self, process: subprocess.Popen[str] | ForkedProcess, stdout: IO[str] | None
    ) -> None:
        self.started.append(process)
        assert stdout is not None
        line = stdout.readline()
        assert "is ready: http://127.0.0.1" in line, self._log_path().read_text()[-2000:]

    def _log_path(self) -> Path:
        return self.data_dir.parent / "stderr.log"

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Fork a command and wait for its end."""
        process = self._fork_server.run(words, self.environ | environ, self.data_dir.parent, b"")
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    def run_unforked(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a new interpreter and wait for its end."""
        return subprocess.run(
            [sys.executable, "-m", "opentill", *words],
            env=self.environ | environ,
            cwd=self.data_dir.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def get(self, path: str) -> tuple[int, bytes]:
        """Send a GET request; return status and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def postmaster(self) -> int | None:
        """The process id of the embedded database, if it runs."""
        path = self.data_dir / "postgres" / "postmaster.pid"
        return int(path.read_text().splitlines()[0]) if path.exists() else None


@pytest.fixture
def site(fork_server: ForkServer) -> Iterator[Site]:
    """A `Site`, whose processes are killed after the test."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        site = Site(Path(directory), fork_server)
        yield site
        for process in site.started:
            if process.poll() is None:
                _kill_tree(process.pid)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if (pid := site.postmaster()) and psutil.pid_exists(pid):
            _kill_tree(pid)


def _without_log(stderr: str) -> list[str]:
    """Return the lines without log entries, which a child stopped during its start may write."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]


@pytest.fixture
def with_database(site: Site, migrated: Path) -> None:
    """Copy a database, because creating one takes seconds."""
    copy_directory(migrated, site.data_dir)


def test_serve_starts_creates_private_files_and_stops(site: Site) -> None:
    process = site.start_unforked("serve")
    assert site.get("/readyz")[0] == 200
    assert psutil.Process(process.pid).memory_info().rss < MAX_RSS_MB * 1024 * 1024
    second = site.run("serve")
    assert second.returncode == 2
    [refusal] = _without_log(second.stderr)
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
        _kill_tree(victim)
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
    _until(lambda: _responds(site.sandbox_port))
    sandbox = _listener(supervisor, site.sandbox_port)
    process.kill()
    process.wait()
    _until(lambda: _has_ended(sandbox))


@pytest.mark.usefixtures("with_database")
def test_dead_children_are_restarted_even_if_the_log_cannot_be_written(
    site: Site,
) -> None:
    process = site.start("serve", "--workers", "2", stderr_to=Path("/dev/full"))
    supervisor = psutil.Process(process.pid)
    before = {child.pid for child in supervisor.children()}
    _listener(supervisor, site.sandbox_port).kill()  # the supervisor tries to log this death
    _until(lambda: _responds(site.sandbox_port))
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
    _until(lambda: len({c.pid for c in psutil.Process(process.pid).children()} - before) == 3)
    _until(lambda: len(psutil.Process(process.pid).children()) == len(before))
    _until(lambda: len(statuses) > 100)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
def test_a_second_demo_shows_the_merchant_of_the_running_one(site: Site) -> None:
    process = site.start("demo")
    _until((site.data_dir / "demo.json").exists)
    _until(lambda: json.loads((site.data_dir / "demo.json").read_bytes())["product_id"])
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
    [refusal] = _without_log(refused.stderr)
    assert f"(process {process.pid}) uses {site.data_dir} and serves " in refusal
    assert f"serves http://127.0.0.1:{site.port};" in refusal
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0


def test_doctor_gives_advice(site: Site, migrated: Path) -> None:
    process = site.run_unforked("doctor", "--json")
    assert process.returncode == 1
    findings = {finding["subject"]: finding["text"] for finding in json.loads(process.stdout)}
    assert f"no OpenTill database in {site.data_dir}/postgres" in findings["database"]
    assert not site.data_dir.exists()
    copy_directory(migrated, site.data_dir)
    process = site.run("doctor", "--json")
    assert process.returncode == 0, process.stdout
    assert {finding["level"] for finding in json.loads(process.stdout)} == {"ok"}
    process = site.run(
        "doctor",
        OPENTILL_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x",
        OPENTILL_SECRET_KEY="k" * 32,
        OPENTILL_PUBLIC_URL="http://pay.example",
    )
    assert process.returncode == 1
    lines = {line.split()[1]: line for line in process.stdout.splitlines()}
    assert "fail" in lines["database"]
    assert "OPENTILL_DATABASE_URL cannot be reached" in lines["database"]
    assert "https only" in lines["public"]
    assert "fail" in lines["test"]
    assert "OPENTILL_SANDBOX=yes" in lines["test"]


def test_an_old_schema_is_not_served(site: Site, empty_database_url: str) -> None:
    external = {
        "OPENTILL_DATABASE_URL": empty_database_url,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DB_PREPARED": pooler.prepared_setting(empty_database_url),
        "OPENTILL_SECRET_KEY": "k" * 32,
    }
    refused = site.run("serve", **external)
    assert refused.returncode == 2
    # On a busy machine, the command may first report that it waits for the database.
    lines = _without_log(refused.stderr)
    (line,) = [line for line in lines if not line.endswith("; waiting for it")]
    assert "run `opentill migrate`" in line
    migrated = site.run("migrate", **external)
    assert migrated.stdout.startswith("applied 0001_schema\n")
    assert json.loads(site.run("migrate", "--json", **external).stdout) == {"applied": []}
    # The schema is newer than the program after a downgrade, and during an upgrade.
    asyncio.run(_execute(empty_database_url, LATER))
    assert site.run("migrate", **external).stdout == "nothing to do\n"
    checked = site.run("ledger", "check", **external)
    assert checked.returncode == 0
    warning = "of a newer OpenTill (it has 9999_later); this one runs with it"
    assert "\n".join(_without_log(checked.stderr)).count(warning) == 1, checked.stderr
    findings = json.loads(site.run("doctor", "--json", **external).stdout)
    finding = next(finding for finding in findings if finding["subject"] == "database")
    assert finding["level"] == "warn"
    assert "9999_later" in finding["text"]
    asyncio.run(_execute(empty_database_url, "alter table secret_key rename to elsewhere"))
    refused = site.run("ledger", "check", **external)
    assert refused.returncode == 2
    line = _without_log(refused.stderr)[-1]
    assert "OPENTILL_DATABASE_URL cannot be read: relation" in line, refused.stderr


def test_an_invalid_replica_url_is_refused_at_the_start(site: Site) -> None:
    for end in ("db/x?sslmode=verify-full", "db/x?sslmode=hunter2", f"{'a' * 64}/x"):
        refused = site.run(
            "serve",
            OPENTILL_DATABASE_URL="postgresql://u@127.0.0.1:1/x",
            OPENTILL_DATABASE_READ_URL=f"postgresql://u:hunter2@{end}",
            OPENTILL_SECRET_KEY="k" * 32,
            OPENTILL_SANDBOX="yes",
            HOME="/proc/nowhere",
        )
        assert refused.returncode == 2
        (line,) = _without_log(refused.stderr)
        assert line.startswith("opentill: the database of OPENTILL_DATABASE_READ_URL cannot be")
        assert "hunter2" not in line


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


@pooler.skip_if_pooled("the test creates the path of the database's socket")
def test_migrate_waits_for_the_database_and_needs_no_data_directory(
    site: Site, empty_database_url: str
) -> None:
    address = urlsplit(empty_database_url)
    folder = Path(parse_qs(address.query)["host"][0])
    socket_folder = site.data_dir.parent / "late"
    environ = site.environ | {
        "OPENTILL_DATABASE_URL": empty_database_url.replace(
            address.query, urlencode({"host": str(socket_folder), "port": "5432"})
        ),
        "OPENTILL_SECRET_KEY": "k" * 32,
        "OPENTILL_DATA_DIR": "/proc/nowhere",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "opentill", "migrate"],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as migrating:  # fmt: skip
        site.started.append(migrating)
        assert migrating.stderr is not None
        assert "cannot be reached" in (line := migrating.stderr.readline())
        assert line.endswith("; waiting for it\n")
        socket_folder.mkdir()
        (socket_folder / ".s.PGSQL.5432").symlink_to(folder / ".s.PGSQL.5432")
        output, _ = migrating.communicate(timeout=TIMEOUT_S)
    assert migrating.returncode == 0
    assert output.startswith("applied 0001_schema\n")


@pytest.mark.usefixtures("with_database")
def test_health_reports_readiness_and_is_not_logged(site: Site) -> None:
    health = site.run_unforked("health")
    assert (health.returncode, health.stderr) == (1, "")
    assert f"http://127.0.0.1:{site.port}/readyz: no response" in health.stdout
    process = site.start("serve")
    health = site.run_unforked("health")
    assert health.returncode == 0
    assert health.stdout == f'http://127.0.0.1:{site.port}/readyz: {{"status":"ready"}}\n'
    report = json.loads(site.run("health", "--json").stdout)
    assert report["ready"]
    assert site.get("/healthz")[0] == 200
    assert site.get("/nothing")[0] == 404
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    log = (site.data_dir.parent / "stderr.log").read_text()
    assert log.count('"event":"request"') == 1  # only the request with status 404 is logged


def test_health_imports_no_heavy_module(site: Site) -> None:
    code = "import sys; sys.argv = ['opentill', 'health']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=site.environ
    )
    assert process.returncode == 1
    heavy = {"typer", "starlette", "asyncpg", "uvicorn", "structlog", "pydantic", "http.client"}
    assert not heavy & set(process.stdout.split())


REFUSED = [
    # Each row: name, environment, part of the error.
    ("bad value", {"OPENTILL_PORT": "http"}, "a whole number from 1 to 65535"),
    ("data directory", {"OPENTILL_DATA_DIR": "/proc/nowhere"}, "OPENTILL_DATA_DIR"),
    ("test mode", {"OPENTILL_PUBLIC_URL": "https://pay.example"}, "OPENTILL_SANDBOX=yes"),
    ("short key", {"OPENTILL_SECRET_KEY": "k" * 31}, "openssl rand -hex 32"),
]


@pytest.mark.parametrize(
    ("environ", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_an_error_of_configuration_is_one_line(
    site: Site, environ: dict[str, str], text: str
) -> None:
    site.data_dir.parent.mkdir(exist_ok=True)
    refused = site.run("serve", **environ)
    assert refused.returncode == 2
    assert refused.stderr.startswith("opentill: ")
    assert text in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "size", "count"),
    [(("--workers", "8"), "10", 100), (("--no-worker",), "50", 100), ((), "91", 91)],
)
def test_more_connections_than_the_embedded_database_has_are_refused(
    site: Site, words: tuple[str, ...], size: str, count: int
) -> None:
    site.data_dir.parent.mkdir(exist_ok=True)
    refused = site.run("serve", *words, OPENTILL_DB_POOL_SIZE=size)
    assert refused.returncode == 2
    assert f"are {count} database connections" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_misspelt_setting_is_a_warning(site: Site) -> None:
    """It cannot be an error, because orchestrators set variables that are named after services."""
    process = site.run("settings", OPENTILL_PROT="1")
    assert process.returncode == 0
    assert process.stderr == (
        "opentill: warning: OPENTILL_PROT is not a setting; did you mean OPENTILL_PORT?\n"
    )


def test_a_port_in_use_is_reported_in_one_line(site: Site) -> None:
    with socket.create_server(("127.0.0.1", site.port)):
        refused = site.run("serve")
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {site.port}" in refused.stderr


def test_settings_are_listed_with_masked_secrets(site: Site) -> None:
    process = site.run("settings", "--json", OPENTILL_SECRET_KEY="canary" * 6)
    rows = {row["variable"]: row for row in json.loads(process.stdout)}
    assert rows["OPENTILL_PORT"]["value"] == str(site.port)
    assert rows["OPENTILL_SECRET_KEY"]["value"] == "(set)"
    assert "canary" not in process.stdout
    assert "OPENTILL_GATEWAYS" in site.run("settings").stdout


def test_help_is_fast_and_imports_no_heavy_module(site: Site) -> None:
    code = "import sys; sys.argv = ['opentill', '--help']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=site.environ
    )
    for word in ("serve", "worker", "sandbox", "migrate", "demo", "doctor", "settings"):
        assert f"\n  {word} " in process.stdout
    loaded = set(process.stdout.split())
    assert not loaded & {"starlette", "asyncpg", "uvicorn", "structlog", "prometheus_client"}


def _kill_tree(pid: int) -> None:
    """Kill a process and its descendants, and wait until their ports are free."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        processes = (top, *top.children(recursive=True))
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _until(lambda: all(_has_ended(process) for process in processes))


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


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

    _until(is_held)
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


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
