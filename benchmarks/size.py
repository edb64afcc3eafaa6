"""How long the programs take to start."""

import subprocess
import sys
import time

from benchmarks.deployment import Serving, environment, free_port
from benchmarks.run import Run
from opentill.server.embedded.postgres import EmbeddedPostgres

STARTS = 3


def measure(run: Run) -> None:
    """Start ``opentill --help`` and ``opentill serve`` some times."""
    env = environment(run.data_dir, free_port())
    for _ in range(STARTS * 2 + 1):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "opentill", "--help"], env=env, check=True, capture_output=True
        )
        run.note("help", (time.perf_counter() - started) * 1000)
    with EmbeddedPostgres.start(run.data_dir):
        for _ in range(STARTS):
            run.note("ready", _start(run, with_bank=False))
    for _ in range(STARTS):
        run.note("ready, with PostgreSQL and the bank", _start(run, with_bank=True))


def _start(run: Run, *, with_bank: bool) -> float:
    serving = Serving(run.data_dir, with_bank=with_bank)
    serving.close()
    return serving.ready_s
