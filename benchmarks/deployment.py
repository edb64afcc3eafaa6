"""Start the measured programs, and read how much processor time and memory they use."""

import contextlib
import http.client
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg
import psutil

from opentill.core.settings import Settings
from opentill.server import http_server
from opentill.server.embedded.programs import find_programs

READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.005
SECRET: Final = "benchmark-secret-benchmark-secret-01"  # noqa: S105 - of a temporary database
_spawn: Final = multiprocessing.get_context("spawn")


def build_settings(data_dir: Path, **others: Any) -> Settings:
    """Return the settings of a measured deployment: the defaults, without rate limits."""
    return Settings(
        data_dir=data_dir,
        secret_key=SECRET,
        sandbox_secret=SECRET,
        limit_ip_per_minute=0,
        limit_checkouts_per_minute=0,
        limit_payments_per_minute=0,
        **others,
    )


def build_environment(data_dir: Path, port: int, **others: str) -> dict[str, str]:
    """Return the same settings as environment variables for a command of ``opentill``."""
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")
    }
    return inherited | {
        "OPENTILL_DATA_DIR": str(data_dir),
        "OPENTILL_PORT": str(port),
        "OPENTILL_SECRET_KEY": SECRET,
        "OPENTILL_SANDBOX_SECRET": SECRET,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_LIMIT_IP_PER_MINUTE": "0",
        "OPENTILL_LIMIT_CHECKOUTS_PER_MINUTE": "0",
        "OPENTILL_LIMIT_PAYMENTS_PER_MINUTE": "0",
        **others,
    }


def find_free_port() -> int:
    """Return a port on which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Server:
    """``opentill serve`` in a process of its own."""

    def __init__(
        self,
        data_dir: Path,
        *,
        with_bank: bool = False,
        workers: int = 1,
        with_worker: bool = True,
        database_url: str | None = None,
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Start the server and wait until it is ready, which takes ``ready_s``.

        ``with_bank``: start the sandbox bank as well. ``database_url``: use this database instead
        of the data directory's. ``others``: additional environment variables.
        """
        self.port = find_free_port()
        bank_port = {"OPENTILL_SANDBOX_PORT": str(find_free_port())}
        variables = bank_port if with_bank else {"OPENTILL_SANDBOX_URL": "http://127.0.0.1:9"}
        if database_url is not None:
            variables["OPENTILL_DATABASE_URL"] = database_url
        variables |= others or {}
        command = [sys.executable, "-m", "opentill", "serve", "--workers", str(workers)]
        if not with_worker:
            command.append("--no-worker")
        with (data_dir / "serve.log").open("ab") as log:
            started = time.perf_counter()
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                env=build_environment(data_dir, self.port, **variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_ready(started, data_dir / "serve.log")
        except BaseException:
            self._process.kill()
            raise
        self.ready_s = time.perf_counter() - started
        self.pid = self._process.pid

    def _wait_until_ready(self, started: float, log: Path) -> None:
        while not _is_ready(self.port):
            if self._process.poll() is not None or time.perf_counter() - started > READY_TIMEOUT_S:
                message = f"opentill serve does not start: {log.read_text()[-2000:]}"
                raise RuntimeError(message)
            time.sleep(POLL_S)

    def resident_mb(self) -> float:
        """Return the resident memory of the process in megabytes."""
        return resident_mb(self.pid)

    def close(self) -> None:
        """Stop the server."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


class Program:
    """Another program that serves HTTP on a port of 127.0.0.1."""

    def __init__(
        self, command: Sequence[str], port: int, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start the program and wait until it accepts connections."""
        self.port = port
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                env={**os.environ, **(env or {})},
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid
        started = time.perf_counter()
        while not _accepts_connections(port):
            if self._process.poll() is not None or time.perf_counter() - started > READY_TIMEOUT_S:
                self._process.kill()
                message = f"{command[0]} does not start: {log.read_text()[-2000:]}"
                raise RuntimeError(message)
            time.sleep(POLL_S)

    def close(self) -> None:
        """Stop the program."""
        self._process.terminate()
        self._process.wait(30)


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def start_peer(python: Path, database_url: str, data_dir: Path) -> Program:
    """Start the FastAPI + SQLAlchemy peer with the interpreter of its own environment."""
    port = find_free_port()
    folder = str(Path(__file__).parent / "peers")
    command = [
        str(python),
        "-m",
        "uvicorn",
        "--app-dir",
        folder,
        "plain.operations:app",
        "--port",
        str(port),
    ]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    url = database_url.replace("postgresql://", "postgresql+asyncpg://", 1)
    env = {"PLAIN_URL": url, "PLAIN_SECRET": SECRET}
    return Program(command, port, data_dir / "peer.log", env)


class ServerProcess:
    """A process that runs ``target(*arguments, listener)``, a server of the benchmarks."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        """Start the process. The port is bound before, so that requests wait until it serves."""
        (listener,) = http_server.bind("127.0.0.1", 0, "")
        self.port: int = listener.getsockname()[1]
        process = _spawn.Process(target=target, args=(*arguments, listener), daemon=True)
        process.start()
        listener.close()
        self._process = process
        self.pid: int = process.pid or 0

    def close(self) -> None:
        """Stop the process."""
        self._process.terminate()
        self._process.join(10)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False


def fetch(port: int, request: bytes) -> tuple[int, bytes]:
    """Send the bytes of a request; return the status and body of the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read()


def read_cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children so far, in seconds."""
    total = 0.0
    process = psutil.Process(pid)
    for member in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            total += times.user + times.system
    return total + _ended_children_cpu_s(process)


def read_exact_cpu_s(pid: int) -> float:
    """Like ``read_cpu_s``, in seconds, but with a resolution of nanoseconds.

    The time of children that have ended still has a resolution of hundredths of a second.
    """
    process = psutil.Process(pid)
    total = _ended_children_cpu_s(process)
    for member in [process, *process.children(recursive=True)]:
        for thread in Path(f"/proc/{member.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total += int(thread.read_text().split()[0]) / 1e9
    return total


def _ended_children_cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


async def preallocate_wal(url: str) -> None:
    """Let PostgreSQL create the files of its write-ahead log before the measurement.

    A server creates them in its first hours and then recycles them. Creating a file takes some 60
    ms, during which every commit waits.
    """
    connection = await asyncpg.connect(url)
    try:
        for _ in range(3):
            # Write 448 MB of log, which is just less than would start a checkpoint.
            for _ in range(28):
                await connection.execute(
                    "select pg_logical_emit_message(false, '', repeat('x', 16777216))"
                )
            await connection.execute("checkpoint")
    finally:
        await connection.close()


def postmaster_pid(data_dir: Path) -> int:
    """Return the process id of the embedded PostgreSQL."""
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def describe_machine() -> Mapping[str, str]:
    """Describe the machine without anything that identifies it."""
    os_release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )
    version, _ = find_programs()
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": os_release.get("PRETTY_NAME", "").strip('"'),
        "python": sys.version.split()[0],
        "postgresql": str(version or ""),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }
