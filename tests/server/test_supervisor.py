"""Start, replacement and stop of a supervisor's children.

``tests/cli/test_running.py`` tests them with real servers under requests.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from opentill.server.supervisor import Child
from support import supervised

SOON_S = 20.0  # the supervisor's timeouts for a child's start and end are longer
TESTS = Path(__file__).parents[1]


class Supervised:
    """A supervisor with three children that write files in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, supervised.__file__, str(folder)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)])},
        )
        until((folder / "ready").exists)

    def pids(self, name: str, event: str = "started") -> set[int]:
        """The ids of a child's processes that have reported an event."""
        files = self.folder.glob(f"{name}-*.{event}")
        return {int(file.stem.removeprefix(f"{name}-")) for file in files}

    def wait_for_pids(self, name: str, count: int, event: str = "started") -> set[int]:
        """Wait until ``count`` processes of a child have reported an event; return their ids."""
        until(lambda: len(self.pids(name, event)) >= count)
        return self.pids(name, event)

    def all_pids(self) -> set[int]:
        """The ids of all processes since the start."""
        return {pid for name in ("server-1", "server-2", "sandbox") for pid in self.pids(name)}

    def check_end(self) -> None:
        """Check that the supervisor and all its children end."""
        assert self.process.wait(SOON_S) == 0
        until(lambda: not any(map(psutil.pid_exists, self.all_pids())))


def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition()`` is true."""
    end = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor whose children are ready; all are killed after the test."""
    supervisor = Supervised(tmp_path)
    yield supervisor
    if supervisor.process.poll() is None:
        for child in psutil.Process(supervisor.process.pid).children():
            child.kill()
        supervisor.process.kill()
    supervisor.process.wait()


def test_replaceable_children_are_replaced_one_after_the_other(running: Supervised) -> None:
    running.process.send_signal(signal.SIGHUP)
    for name in ("server-1", "server-2"):
        running.wait_for_pids(name, 2, "ready")
        (old,) = running.wait_for_pids(name, 1, "stopping")
        until(lambda old=old: not psutil.pid_exists(old))
    assert len(running.pids("sandbox")) == 1
    running.process.send_signal(signal.SIGTERM)
    running.check_end()


def test_a_stop_while_a_successor_starts_stops_both(running: Supervised) -> None:
    (running.folder / "slow").touch()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_pids("server-1", 2)
    running.process.send_signal(signal.SIGTERM)
    running.check_end()
    assert len(running.pids("server-2")) == 1  # the replacement of server-2 was never started


def test_a_stop_while_a_predecessor_ends_stops_the_others_immediately(running: Supervised) -> None:
    (running.folder / "busy").touch()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_pids("server-1", 1, "stopping")
    running.process.send_signal(signal.SIGTERM)
    for name in ("server-2", "sandbox"):
        running.wait_for_pids(name, 1, "stopping")
    running.wait_for_pids("server-1", 2, "stopping")
    # The supervisor waits for requests that are being processed.
    assert running.process.poll() is None
    (running.folder / "busy").unlink()
    running.check_end()


@pytest.mark.parametrize("condition", ["slow", "busy"])
def test_a_child_that_crashes_during_a_replacement_is_restarted(
    running: Supervised, condition: str
) -> None:
    (running.folder / condition).touch()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_pids("server-1", 2, "started" if condition == "slow" else "ready")
    (sandbox,) = running.pids("sandbox")
    os.kill(sandbox, signal.SIGKILL)
    running.wait_for_pids("sandbox", 2)
    (running.folder / condition).unlink()
    running.wait_for_pids("server-2", 2, "ready")
    running.process.send_signal(signal.SIGTERM)
    running.check_end()


def test_concurrent_threads_can_check_whether_a_child_is_ready() -> None:
    """One thread supervises the children, and another announces that they are ready."""
    threads = 4
    begin = threading.Barrier(threads)

    def check(child: Child) -> bool:
        begin.wait()
        return child.check_ready()

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(300):
            child = Child("sandbox", print)
            child._ready, writer = multiprocessing.Pipe(duplex=False)
            writer.send_bytes(b"1")
            writer.close()
            assert list(pool.map(check, [child] * threads)) == [True] * threads
            assert child.is_ready
