"""Runs a supervisor with three children: ``supervised.py FOLDER``.

Each child creates files named after itself and its process id: ``server-1-123.started``, then
``.ready``, and ``.stopping`` after SIGTERM. While the folder contains a file ``slow``, no child
becomes ready; while it contains ``busy``, no child ends.
"""

import signal
import sys
import time
from collections.abc import Callable
from os import getpid
from pathlib import Path

from opentill.server.supervisor import Child, Supervisor


def child(folder: str, name: str, *, ready: Callable[[], None]) -> None:
    """Run a child until SIGTERM."""
    directory, stopping = Path(folder), []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))

    def record(state: str) -> None:
        (directory / f"{name}-{getpid()}.{state}").touch()

    record("started")
    while (directory / "slow").exists() and not stopping:
        time.sleep(0.02)
    ready()
    record("ready")
    while not stopping:
        time.sleep(0.02)
    record("stopping")
    while (directory / "busy").exists():
        time.sleep(0.02)


if __name__ == "__main__":
    children = [
        Child("server-1", child, sys.argv[1], "server-1"),
        Child("server-2", child, sys.argv[1], "server-2"),
        Child("sandbox", child, sys.argv[1], "sandbox", replaceable=False),
    ]
    supervisor = Supervisor(children, finish_timeout_s=60)
    sys.exit(supervisor.run(lambda: Path(sys.argv[1], "ready").touch()))
