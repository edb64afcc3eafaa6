"""Children of a supervisor, beside ``tests/cli/test_running.py``, where they are servers.

That no request fails while they are replaced is there too.
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

SOON_S = 20.0  # less than a supervisor waits for a child that does not start or end
TESTS = Path(__file__).parents[1]


class Supervised:
    """A supervisor with three children, and what they wrote in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, supervised.__file__, str(folder)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)])},
        )
        until((folder / "ready").exists)

    def pids(self, name: str, what: str = "started") -> set[int]:
        """The processes of a child of which that was written."""
        files = self.folder.glob(f"{name}-*.{what}")
        return {int(file.stem.removeprefix(f"{name}-")) for file in files}

    def have(self, name: str, number: int, what: str = "started") -> set[int]:
        """Wait until there are so many such processes; their ids."""
        until(lambda: len(self.pids(name, what)) >= number)
        return self.pids(name, what)

    def all_pids(self) -> set[int]:
        """All processes that were ever started."""
        return {pid for name in ("server-1", "server-2", "sandbox") for pid in self.pids(name)}

    def ends(self) -> None:
        """See that it ends, with all of its children."""
        assert self.process.wait(SOON_S) == 0
        until(lambda: not any(map(psutil.pid_exists, self.all_pids())))


def until(look: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SOON_S
    while not look():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor whose children are ready; it and they are killed in the end."""
    made = Supervised(tmp_path)
    yield made
    if made.process.poll() is None:
        for child in psutil.Process(made.process.pid).children():
            child.kill()
        made.process.kill()
    made.process.wait()


def test_those_that_can_be_are_replaced_one_after_the_other(running: Supervised) -> None:
    running.process.send_signal(signal.SIGHUP)
    for name in ("server-1", "server-2"):
        running.have(name, 2, "ready")
        (old,) = running.have(name, 1, "stopping")
        until(lambda old=old: not psutil.pid_exists(old))
    assert len(running.pids("sandbox")) == 1
    running.process.send_signal(signal.SIGTERM)
    running.ends()


def test_a_stop_while_a_successor_starts_stops_both(running: Supervised) -> None:
    (running.folder / "slow").touch()
    running.process.send_signal(signal.SIGHUP)
    running.have("server-1", 2)
    running.process.send_signal(signal.SIGTERM)
    running.ends()
    assert len(running.pids("server-2")) == 1  # which no one began to replace


def test_a_stop_while_a_predecessor_ends_stops_the_others_at_once(running: Supervised) -> None:
    (running.folder / "busy").touch()
    running.process.send_signal(signal.SIGHUP)
    running.have("server-1", 1, "stopping")
    running.process.send_signal(signal.SIGTERM)
    for name in ("server-2", "sandbox"):
        running.have(name, 1, "stopping")
    running.have("server-1", 2, "stopping")
    assert running.process.poll() is None  # it waits for what they have begun
    (running.folder / "busy").unlink()
    running.ends()


@pytest.mark.parametrize("keeps", ["slow", "busy"])
def test_what_crashes_during_a_replacement_is_started_again(
    running: Supervised, keeps: str
) -> None:
    (running.folder / keeps).touch()
    running.process.send_signal(signal.SIGHUP)
    running.have("server-1", 2, "started" if keeps == "slow" else "ready")
    (sandbox,) = running.pids("sandbox")
    os.kill(sandbox, signal.SIGKILL)
    running.have("sandbox", 2)
    (running.folder / keeps).unlink()
    running.have("server-2", 2, "ready")
    running.process.send_signal(signal.SIGTERM)
    running.ends()


def test_threads_may_ask_at_once_whether_a_child_is_ready() -> None:
    """A server asks in the thread that looks after its children and in that which announces it."""
    threads = 4
    begin = threading.Barrier(threads)

    def ask(child: Child) -> bool:
        begin.wait()
        return child.check_ready()

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(300):
            child = Child("sandbox", print)
            child._ready, said = multiprocessing.Pipe(duplex=False)
            said.send_bytes(b"1")
            said.close()
            assert list(pool.map(ask, [child] * threads)) == [True] * threads
            assert child.is_ready
