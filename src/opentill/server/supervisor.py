"""Keeps child processes running: server processes on shared sockets, the worker, the sandbox bank.

Children are spawned and not forked, so that no lock or connection is copied. A child that ends is
restarted, with increasing pauses if it keeps ending early. SIGHUP replaces the children one by one:
a new child is ready before the old one gets SIGTERM, so that no request fails. SIGTERM and SIGINT
stop all children, even during a replacement. Decision 0054 explains why uvicorn's supervisor is not
used.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Final

import structlog

from opentill.server.http_server import ServeError

READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.05
SOON_S: Final = 10.0  # the pause before a restart grows if the child ran for less than this time
PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_log: Final = structlog.get_logger()
_spawn: Final = multiprocessing.get_context("spawn")

Target = Callable[..., None]
"""A module-level function ``target(*arguments, ready=…)`` that calls ``ready()`` once it serves."""


class Child:
    """A child process, restarted when it ends."""

    def __init__(
        self, name: str, target: Target, *arguments: Any, replaceable: bool = True
    ) -> None:
        """``arguments`` are pickled for the new process and may contain sockets.

        A ``replaceable`` child is replaced on SIGHUP: two of them may run at the same time.
        """
        self.name = name
        self.replaceable = replaceable
        self._target = target
        self._arguments = arguments
        self._process: SpawnProcess | None = None
        self._ready: Connection | None = None
        self._lock = threading.Lock()
        self.is_ready = False
        self._started_at = 0.0
        self._early_ends = 0
        self._not_before = 0.0

    def start(self) -> None:
        """Start a process; ``is_ready`` is true once it has reported that it serves."""
        self._ready, theirs = _spawn.Pipe(duplex=False)
        self.is_ready = False
        self._started_at = time.monotonic()
        self._process = _spawn.Process(
            target=_run, args=(self._target, self._arguments, theirs), name=self.name
        )
        # Ctrl-C sends SIGINT to the whole process group. Only the supervisor handles it, by sending
        # SIGTERM to the children: these start with SIGINT blocked and then ignore it (``_run``).
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    @property
    def pid(self) -> int | None:
        """The process id, None before the start."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._process.exitcode if self._process else None

    def keep_running(self) -> None:
        """Check whether the process is ready, or restart it if it has ended."""
        if self.alive:
            self.check_ready()
        elif self._not_before == 0.0:
            is_early = time.monotonic() - self._started_at < SOON_S
            self._early_ends = self._early_ends + 1 if is_early else 1
            pause = PAUSES_S[min(self._early_ends, len(PAUSES_S)) - 1]
            self._not_before = time.monotonic() + pause
            _log.error(
                "process ended, starting it again",
                name=self.name,
                exit=self.exit_code,
                pause_s=pause,
            )
        elif time.monotonic() >= self._not_before:
            self._not_before = 0.0
            self.start()

    def check_ready(self) -> bool:
        """Whether the process has reported that it is ready. Thread-safe."""
        with self._lock:
            if not self.is_ready and self._ready is not None and self._ready.poll():
                try:
                    self._ready.recv_bytes()
                    self.is_ready = True
                except EOFError:
                    pass
                self._ready.close()
                self._ready = None
            return self.is_ready

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process is running."""
        if self._process is not None and self._process.is_alive() and self._process.pid:
            os.kill(self._process.pid, number)

    def end(self, timeout_s: float) -> None:
        """Wait for the process to end; kill it after ``timeout_s``."""
        if self._process is not None:
            self._process.join(timeout_s)
            if self._process.is_alive():
                _log.error("process does not end, killed", name=self.name)
                self._process.kill()
                self._process.join()

    def successor(self) -> "Child":
        """Return an equal child that is not started."""
        return Child(self.name, self._target, *self._arguments, replaceable=self.replaceable)


class Supervisor:
    """Runs children: by ``run`` in the main thread, or by ``keep_running`` next to a server."""

    def __init__(self, children: Sequence[Child], *, finish_timeout_s: float) -> None:
        """``finish_timeout_s`` is the time after which a stopping child is killed."""
        self.children = list(children)
        # While a child is replaced: the successor until it is ready, then the old child.
        self._beside: list[Child] = []
        self._finish_timeout_s = finish_timeout_s
        self._stopping = False
        self._replace = False

    def wait_ready(self) -> None:
        """Wait until all children are ready. Raises ``ServeError`` if one ends before."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._all_ready() and not self._stopping:
            for child in self.children:
                if not child.alive and not child.check_ready():
                    message = f"the {child.name} process ended while starting, see the log above"
                    raise ServeError(message)
            if time.monotonic() > deadline:
                message = f"not ready within {READY_TIMEOUT_S:.0f} s"
                raise ServeError(message)
            time.sleep(POLL_S / 5)

    def run(self, on_ready: Callable[[], None]) -> int:
        """Start all children, keep them running until a signal, and return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_replace)
        try:
            for child in self.children:
                if not child.alive:
                    child.start()
            self.wait_ready()
            if not self._stopping:
                on_ready()
            while not self._stopping:
                self.keep_running()
                if self._replace:
                    self._replace = False
                    self._replace_all()
                time.sleep(POLL_S)
        finally:
            self.finish()
        return 0

    def _all_ready(self) -> bool:
        return sum(child.check_ready() for child in self.children) == len(self.children)

    def keep_running(self, but: Child | None = None) -> None:
        """Restart children that have ended, except for ``but`` (None: all children)."""
        for child in self.children:
            if child is not but:
                child.keep_running()

    def finish(self) -> None:
        """Send SIGTERM to all children and wait for them."""
        children = [*self.children, *self._beside]
        for child in children:
            child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._finish_timeout_s
        for child in children:
            child.end(max(0.0, deadline - time.monotonic()))

    def _on_stop(self, *_: object) -> None:
        self._stopping = True

    def _on_replace(self, *_: object) -> None:
        self._replace = True

    def _replace_all(self) -> None:
        """Replace the children one by one, until a successor does not get ready."""
        for index, child in enumerate(self.children):
            if child.replaceable and not self._replace_one(index):
                return
        _log.info("all processes replaced")

    def _replace_one(self, index: int) -> bool:
        """Replace a child while the others run; return False if no other child should be replaced.

        That is so if the new process does not get ready, or if all must stop meanwhile. In the
        latter case ``finish`` also ends the process in ``_beside``, old or new.
        """
        old = self.children[index]
        new = old.successor()
        self._beside = [new]
        new.start()
        self._wait(lambda: new.check_ready() or not new.alive, READY_TIMEOUT_S, but=old)
        if self._stopping:
            return False
        if not new.is_ready:
            _log.error(
                "the new process does not start, the old one goes on",
                name=old.name,
                exit=new.exit_code,
            )
            new.send_signal(signal.SIGKILL)
            new.end(1.0)
            self._beside = []
            return False
        self.children[index], self._beside = new, [old]
        old.send_signal(signal.SIGTERM)
        self._wait(lambda: not old.alive, self._finish_timeout_s)
        if self._stopping:
            return False
        old.end(0.0)
        self._beside = []
        return True

    def _wait(
        self, is_done: Callable[[], bool], timeout_s: float, but: Child | None = None
    ) -> None:
        """Wait for ``is_done``, the timeout or a stop; restart ended children except ``but``."""
        deadline = time.monotonic() + timeout_s
        while not (is_done() or self._stopping) and time.monotonic() < deadline:
            self.keep_running(but)
            time.sleep(POLL_S)


def _run(target: Target, arguments: tuple[Any, ...], ready: Connection) -> None:
    """Run ``target`` in the new process."""

    def report_ready() -> None:
        ready.send_bytes(b"1")
        ready.close()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    target(*arguments, ready=report_ready)
