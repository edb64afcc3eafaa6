"""The state of a run of the benchmarks: its options, database, driver and report."""

import argparse
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import msgspec

from benchmarks.competitors import Workload
from benchmarks.deployment import build_settings, postmaster_pid
from benchmarks.driver import Driver
from benchmarks.report import Report
from benchmarks.seed import Seed, seed_merchants
from opentill.core.settings import Settings
from opentill.db import migrations
from opentill.db.database import Db


class Run(msgspec.Struct, kw_only=True):
    """The state that every part of a run shares."""

    options: argparse.Namespace
    data_dir: Path
    url: str  # of the database that the competitors use
    driver: Driver
    report: Report
    workload: Workload | None = None  # the competitors' workload; None until ``url`` is seeded

    @property
    def socket_dir(self) -> Path:
        """The folder of PostgreSQL's socket."""
        return self.data_dir / "postgres"

    @property
    def postmaster_pid(self) -> int:
        """The process id of PostgreSQL."""
        return postmaster_pid(self.data_dir)

    def record_figure(self, figure: str, value: float) -> None:
        """Add a round's figure to the report, and print it."""
        self.report.figures.setdefault(figure, []).append(value)
        log_progress(f"{figure}: {value:,.2f}")

    @contextlib.asynccontextmanager
    async def create_database(
        self, name: str, merchant_count: int
    ) -> AsyncIterator["BenchDatabase"]:
        """Create and seed a database for one part of the run, and drop it afterwards."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f"create database {name}")
            url = self.url.replace("/opentill?", f"/{name}?", 1)
            await migrations.migrate(url)
            settings = build_settings(self.data_dir, database_url=url)
            db = await Db.connect(url, 4)
            try:
                log_progress(f"seeding {name}")
                seed = await seed_merchants(db, settings, merchant_count)
                yield BenchDatabase(url=url, db=db, seed=seed, settings=settings)
            finally:
                await db.close()
                await connection.execute(f"drop database {name} with (force)")
        finally:
            await connection.close()


class BenchDatabase(msgspec.Struct, frozen=True):
    """A seeded database of one part of a run."""

    url: str
    db: Db
    seed: Seed
    settings: Settings


def log_progress(line: str) -> None:
    """Print a line about the progress to standard error."""
    sys.stderr.write(line + "\n")
