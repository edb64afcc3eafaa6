"""``opentill serve`` and other commands as real processes: start, crash, replacement and stop."""

import asyncio
import contextlib
import json
import os
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

from support import pooler
from support.commands import ForkServer, Served, clean
from support.deployment import copy
from support.ports import free_port

TIMEOUT_S = 180.0  # for steps that take seconds on an idle machine
MAX_RSS_MB = 150
LATER = (
    "insert into schema_migrations (version, name, sha256, applied_at)"
    " values (9999, '9999_later', repeat('0', 64), 0)"
)


class Place:
    """A new data directory and free ports, and the processes started there."""

    def __init__(self, directory: Path, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self.data_dir = directory / "data"
        self.port, self.sandbox_port = free_port(), free_port()
        self.environ = {
            **clean(os.environ),
            "OPENTILL_DATA_DIR": str(self.data_dir),
            "OPENTILL_PORT": str(self.port),
            "OPENTILL_SANDBOX_PORT": str(self.sandbox_port),
        }
        self.started: list[subprocess.Popen[str] | Served] = []

    def start(self, *words: str, stderr_to: Path | None = None) -> Served:
        """Fork a command and wait until it is ready."""
        folder = self.data_dir.parent
        with (stderr_to or self._log_path()).open("a") as stderr:
            process = self._fork_server.start(words, self.environ, folder, stderr.fileno())
        self._see_ready(process, process.stdout)
        return process

    def start_really(self, *words: str) -> subprocess.Popen[str]:
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
        self._see_ready(process, process.stdout)
        return process

    def _see_ready(self, process: subprocess.Popen[str] | Served, stdout: IO[str] | None) -> None:
        self.started.append(process)
        assert stdout is not None
        line = stdout.readline()
        assert "is ready: http://127.0.0.1" in line, self._log_path().read_text()[-2000:]

    def _log_path(self) -> Path:
        return self.data_dir.parent / "stderr.log"

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Fork a command and wait for its end."""
        ran = self._fork_server.run(words, self.environ | environ, self.data_dir.parent, b"")
        return subprocess.CompletedProcess(
            ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
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
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def postmaster(self) -> int | None:
        """The process id of the embedded database, if it runs."""
        path = self.data_dir / "postgres" / "postmaster.pid"
        return int(path.read_text().splitlines()[0]) if path.exists() else None


@pytest.fixture
def place(fork_server: ForkServer) -> Iterator[Place]:
    """A `Place`; processes that still run after the test are killed."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        place = Place(Path(directory), fork_server)
        yield place
        for process in place.started:
            if process.poll() is None:
                _kill_tree(process.pid)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if (pid := place.postmaster()) and psutil.pid_exists(pid):
            _kill_tree(pid)


def _without_log(stderr: str) -> list[str]:
    """Return the lines without log entries, which a child stopped during its start may write."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]


@pytest.fixture
def with_database(place: Place, migrated: Path) -> None:
    """Copy a database into the place, because creating one takes seconds."""
    copy(migrated, place.data_dir)


def test_serve_starts_creates_private_files_and_stops(place: Place) -> None:
    process = place.start_really("serve")
    assert place.get("/readyz")[0] == 200
    assert psutil.Process(process.pid).memory_info().rss < MAX_RSS_MB * 1024 * 1024
    second = place.run("serve")
    assert second.returncode == 2
    [refusal] = _without_log(second.stderr)
    assert refusal.startswith("opentill: another `opentill serve` (process ")
    beside = place.run("migrate", "--json")
    assert json.loads(beside.stdout) == {"applied": []}
    assert place.get("/readyz")[0] == 200
    for path in (place.data_dir, *place.data_dir.iterdir()):
        assert path.lstat().st_mode & 0o066 == 0, path  # no access for others
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert place.postmaster() is None


@pytest.mark.usefixtures("with_database")
def test_serve_restarts_after_kill_9_of_all_processes(place: Place) -> None:
    process = place.start("serve")
    for victim in (process.pid, place.postmaster() or 0):
        _kill_tree(victim)
    process.wait()
    begin = time.monotonic()
    process = place.start("serve")
    assert time.monotonic() - begin < TIMEOUT_S
    assert place.get("/readyz")[0] == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
def test_children_end_with_the_supervisor_and_a_dead_sandbox_is_restarted(
    place: Place,
) -> None:
    process = place.start_really("serve")
    supervisor = psutil.Process(process.pid)
    sandbox = _listener(supervisor, place.sandbox_port)
    sandbox.kill()
    _until(lambda: _answers(place.sandbox_port))
    sandbox = _listener(supervisor, place.sandbox_port)
    process.kill()
    process.wait()
    _until(lambda: _ended(sandbox))


@pytest.mark.usefixtures("with_database")
def test_dead_children_are_restarted_even_if_the_log_cannot_be_written(
    place: Place,
) -> None:
    process = place.start("serve", "--workers", "2", stderr_to=Path("/dev/full"))
    supervisor = psutil.Process(process.pid)
    before = {child.pid for child in supervisor.children()}
    _listener(supervisor, place.sandbox_port).kill()  # the supervisor logs it
    _until(lambda: _answers(place.sandbox_port))
    assert len({child.pid for child in supervisor.children()} & before) == len(before) - 1
    assert place.get("/readyz")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0


@pytest.mark.usefixtures("with_database")
@pytest.mark.parametrize("workers", ["2"])
def test_a_rolling_restart_fails_no_request(place: Place, workers: str) -> None:
    process = place.start("serve", "--workers", workers)
    before = {child.pid for child in psutil.Process(process.pid).children()}
    stop = threading.Event()
    statuses: list[int | str] = []

    def ask() -> None:
        connection = HTTPConnection("127.0.0.1", place.port, timeout=60)
        while not stop.is_set():
            try:
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
                if answer.getheader("connection") == "close":
                    connection.close()
            except OSError as error:
                statuses.append(repr(error))
                connection.close()
            time.sleep(0.025)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    process.send_signal(signal.SIGHUP)
    # The sandbox bank continues; the worker and the servers are new.
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
def test_a_second_demo_shows_the_merchant_of_the_running_one(place: Place) -> None:
    process = place.start("demo")
    _until((place.data_dir / "demo.json").exists)
    _until(lambda: json.loads((place.data_dir / "demo.json").read_bytes())["product_id"])
    state = json.loads((place.data_dir / "demo.json").read_bytes())
    assert (place.data_dir / "demo.json").stat().st_mode & 0o077 == 0
    again = place.run("demo")
    assert again.returncode == 0, again.stderr
    assert state["key"] in again.stdout
    assert f"Pay here:  http://127.0.0.1:{place.port}/checkout/cs_" in again.stdout
    assert f"Dashboard: http://127.0.0.1:{place.port}/invite/" in again.stdout
    written = place.data_dir / "demo.env"
    assert again.stdout.endswith(f"  . {written}\n\n")
    assert written.stat().st_mode & 0o077 == 0
    assert f"export KEY={state['key']}\n" in written.read_text()
    elsewhere = place.run("demo", OPENTILL_PORT=str(free_port()))
    assert elsewhere.returncode == 2
    [refusal] = _without_log(elsewhere.stderr)
    assert f"(process {process.pid}) uses {place.data_dir} and serves " in refusal
    assert f"serves http://127.0.0.1:{place.port};" in refusal
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 0


def test_doctor_gives_advice(place: Place, migrated: Path) -> None:
    nothing = place.run_unforked("doctor", "--json")
    assert nothing.returncode == 1
    ill_at = {one["subject"]: one["text"] for one in json.loads(nothing.stdout)}["database"]
    assert f"no OpenTill database in {place.data_dir}/postgres" in ill_at
    assert not place.data_dir.exists()
    copy(migrated, place.data_dir)
    well = place.run("doctor", "--json")
    assert well.returncode == 0, well.stdout
    assert {finding["level"] for finding in json.loads(well.stdout)} == {"ok"}
    ill = place.run(
        "doctor",
        OPENTILL_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x",
        OPENTILL_SECRET_KEY="k" * 32,
        OPENTILL_PUBLIC_URL="http://pay.example",
    )
    assert ill.returncode == 1
    lines = {line.split()[1]: line for line in ill.stdout.splitlines()}
    assert "fail" in lines["database"]
    assert "OPENTILL_DATABASE_URL cannot be reached" in lines["database"]
    assert "https only" in lines["public"]
    assert "fail" in lines["test"]
    assert "OPENTILL_SANDBOX=yes" in lines["test"]


def test_an_old_schema_is_not_served(place: Place, empty_database_url: str) -> None:
    external = {
        "OPENTILL_DATABASE_URL": empty_database_url,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DB_PREPARED": pooler.prepared_setting(empty_database_url),
        "OPENTILL_SECRET_KEY": "k" * 32,
    }
    refused = place.run("serve", **external)
    assert refused.returncode == 2
    # On a busy machine it may first wait for the database.
    lines = _without_log(refused.stderr)
    (line,) = [line for line in lines if not line.endswith("; waiting for it")]
    assert "run `opentill migrate`" in line
    migrated = place.run("migrate", **external)
    assert migrated.stdout.startswith("applied 0001_schema\n")
    assert json.loads(place.run("migrate", "--json", **external).stdout) == {"applied": []}
    # As after a downgrade, or during an upgrade.
    asyncio.run(_execute(empty_database_url, LATER))
    assert place.run("migrate", **external).stdout == "nothing to do\n"
    checked = place.run("ledger", "check", **external)
    assert checked.returncode == 0
    warning = "of a newer OpenTill (it has 9999_later); this one runs with it"
    assert "\n".join(_without_log(checked.stderr)).count(warning) == 1, checked.stderr
    findings = json.loads(place.run("doctor", "--json", **external).stdout)
    of_database = next(finding for finding in findings if finding["subject"] == "database")
    assert of_database["level"] == "warn"
    assert "9999_later" in of_database["text"]
    asyncio.run(_execute(empty_database_url, "alter table secret_key rename to elsewhere"))
    refused = place.run("ledger", "check", **external)
    assert refused.returncode == 2
    line = _without_log(refused.stderr)[-1]
    assert "OPENTILL_DATABASE_URL cannot be read: relation" in line, refused.stderr


def test_an_invalid_replica_url_is_refused_at_the_start(place: Place) -> None:
    for end in ("db/x?sslmode=verify-full", "db/x?sslmode=hunter2", f"{'a' * 64}/x"):
        refused = place.run(
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


@pooler.direct("its address is a path that the test makes")
def test_migrate_waits_for_the_database_and_needs_no_data_directory(
    place: Place, empty_database_url: str
) -> None:
    address = urlsplit(empty_database_url)
    folder = Path(parse_qs(address.query)["host"][0])
    late = place.data_dir.parent / "late"
    environ = place.environ | {
        "OPENTILL_DATABASE_URL": empty_database_url.replace(
            address.query, urlencode({"host": str(late), "port": "5432"})
        ),
        "OPENTILL_SECRET_KEY": "k" * 32,
        "OPENTILL_DATA_DIR": "/proc/nowhere",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "opentill", "migrate"],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as migrating:  # fmt: skip
        place.started.append(migrating)
        assert migrating.stderr is not None
        assert "cannot be reached" in (line := migrating.stderr.readline())
        assert line.endswith("; waiting for it\n")
        late.mkdir()
        (late / ".s.PGSQL.5432").symlink_to(folder / ".s.PGSQL.5432")
        output, _ = migrating.communicate(timeout=TIMEOUT_S)
    assert migrating.returncode == 0
    assert output.startswith("applied 0001_schema\n")


@pytest.mark.usefixtures("with_database")
def test_health_reports_readiness_and_is_not_logged(place: Place) -> None:
    away = place.run_unforked("health")
    assert (away.returncode, away.stderr) == (1, "")
    assert f"http://127.0.0.1:{place.port}/readyz: no response" in away.stdout
    process = place.start("serve")
    there = place.run_unforked("health")
    assert there.returncode == 0
    assert there.stdout == f'http://127.0.0.1:{place.port}/readyz: {{"status":"ready"}}\n'
    report = json.loads(place.run("health", "--json").stdout)
    assert report["ready"]
    assert place.get("/healthz")[0] == 200
    assert place.get("/nothing")[0] == 404
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    log = (place.data_dir.parent / "stderr.log").read_text()
    assert log.count('"event":"request"') == 1  # the 404


def test_health_imports_no_heavy_module(place: Place) -> None:
    code = "import sys; sys.argv = ['opentill', 'health']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=place.environ
    )
    assert ran.returncode == 1
    heavy = {"typer", "starlette", "asyncpg", "uvicorn", "structlog", "pydantic", "http.client"}
    assert not heavy & set(ran.stdout.split())


REFUSED = [
    # name, environment, text in the error
    ("bad value", {"OPENTILL_PORT": "http"}, "a whole number from 1 to 65535"),
    ("data directory", {"OPENTILL_DATA_DIR": "/proc/nowhere"}, "OPENTILL_DATA_DIR"),
    ("test mode", {"OPENTILL_PUBLIC_URL": "https://pay.example"}, "OPENTILL_SANDBOX=yes"),
    ("short key", {"OPENTILL_SECRET_KEY": "k" * 31}, "openssl rand -hex 32"),
]


@pytest.mark.parametrize(
    ("environ", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_an_error_of_configuration_is_one_line(
    place: Place, environ: dict[str, str], text: str
) -> None:
    place.data_dir.parent.mkdir(exist_ok=True)
    refused = place.run("serve", **environ)
    assert refused.returncode == 2
    assert refused.stderr.startswith("opentill: ")
    assert text in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "size", "taken"),
    [(("--workers", "8"), "10", 100), (("--no-worker",), "50", 100), ((), "91", 91)],
)
def test_more_connections_than_the_embedded_database_has_are_refused(
    place: Place, words: tuple[str, ...], size: str, taken: int
) -> None:
    place.data_dir.parent.mkdir(exist_ok=True)
    refused = place.run("serve", *words, OPENTILL_DB_POOL_SIZE=size)
    assert refused.returncode == 2
    assert f"are {taken} database connections" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_misspelt_setting_is_a_warning(place: Place) -> None:
    """It is no error, because orchestrators set variables named after services."""
    listed = place.run("settings", OPENTILL_PROT="1")
    assert listed.returncode == 0
    assert listed.stderr == (
        "opentill: warning: OPENTILL_PROT is not a setting; did you mean OPENTILL_PORT?\n"
    )


def test_a_port_in_use_is_reported_in_one_line(place: Place) -> None:
    with socket.create_server(("127.0.0.1", place.port)):
        refused = place.run("serve")
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {place.port}" in refused.stderr


def test_settings_are_listed_with_masked_secrets(place: Place) -> None:
    listed = place.run("settings", "--json", OPENTILL_SECRET_KEY="canary" * 6)
    rows = {row["variable"]: row for row in json.loads(listed.stdout)}
    assert rows["OPENTILL_PORT"]["value"] == str(place.port)
    assert rows["OPENTILL_SECRET_KEY"]["value"] == "(set)"
    assert "canary" not in listed.stdout
    assert "OPENTILL_GATEWAYS" in place.run("settings").stdout


def test_help_is_fast_and_imports_no_heavy_module(place: Place) -> None:
    code = "import sys; sys.argv = ['opentill', '--help']\nfrom opentill.__main__ import main\n"
    code += "try: main()\nfinally: print(*sys.modules)"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=place.environ
    )
    for word in ("serve", "worker", "sandbox", "migrate", "demo", "doctor", "settings"):
        assert f"\n  {word} " in listed.stdout
    loaded = set(listed.stdout.split())
    assert not loaded & {"starlette", "asyncpg", "uvicorn", "structlog", "prometheus_client"}


def _kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, and wait until their ports are free.

    Some of them may end meanwhile by themselves.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        killed = (top, *top.children(recursive=True))
        for process in killed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _until(lambda: all(_ended(process) for process in killed))


def _ended(process: psutil.Process) -> bool:
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
                listening = (
                    one.laddr.port
                    for one in child.net_connections("tcp")
                    if one.status == psutil.CONN_LISTEN
                )
                if port in listening:
                    holders.append(child)
        return bool(holders)

    _until(is_held)
    return max(holders, key=lambda process: process.create_time())


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
