"""Measure how long the programs take to start."""

import subprocess
import sys
import time

from benchmarks.deployment import Server, build_environment, find_free_port
from benchmarks.run import Run
from opentill.server.embedded.postgres import EmbeddedPostgres

STARTS = 3  # ``opentill serve`` is started this many times


def measure(run: Run) -> None:
    """Time ``opentill --help`` and ``opentill serve`` several times."""
    env = build_environment(run.data_dir, find_free_port())
    for _ in range(STARTS * 2 + 1):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "opentill", "--help"], env=env, check=True, capture_output=True
        )
        run.record_figure("help", (time.perf_counter() - started) * 1000)
    with EmbeddedPostgres.start(run.data_dir):
        for _ in range(STARTS):
            run.record_figure("ready", _time_start(run, with_bank=False))
    for _ in range(STARTS):
        run.record_figure("ready, with PostgreSQL and the bank", _time_start(run, with_bank=True))


def _time_start(run: Run, *, with_bank: bool) -> float:
    server = Server(run.data_dir, with_bank=with_bank)
    server.close()
    return server.ready_s
