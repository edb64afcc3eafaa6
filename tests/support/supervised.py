"""A supervisor as a process of its own: ``supervised.py FOLDER``.

Each child writes a file named by its name and its process id: ``server-123.started``, then
``.ready``, and ``.stopping`` when it has got SIGTERM. ``slow`` in the folder keeps what starts from
getting ready, ``busy`` what stops from ending.
"""

import signal
import sys
import time
from collections.abc import Callable
from os import getpid
from pathlib import Path

from opentill.server.supervisor import Child, Supervisor


def child(folder: str, name: str, *, ready: Callable[[], None]) -> None:
    """Be ready, and wait for SIGTERM."""
    place, stopping = Path(folder), []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))

    def note(what: str) -> None:
        (place / f"{name}-{getpid()}.{what}").touch()

    note("started")
    while (place / "slow").exists() and not stopping:
        time.sleep(0.02)
    ready()
    note("ready")
    while not stopping:
        time.sleep(0.02)
    note("stopping")
    while (place / "busy").exists():
        time.sleep(0.02)


if __name__ == "__main__":
    children = [
        Child("server-1", child, sys.argv[1], "server-1"),
        Child("server-2", child, sys.argv[1], "server-2"),
        Child("sandbox", child, sys.argv[1], "sandbox", replaceable=False),
    ]
    supervisor = Supervisor(children, finish_timeout_s=60)
    sys.exit(supervisor.run(lambda: Path(sys.argv[1], "ready").touch()))
