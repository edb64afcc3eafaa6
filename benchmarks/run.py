"""What a run of the bench has in hand: options, the PostgreSQL, the driver, and its findings."""

import argparse
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import msgspec

from benchmarks.contest import Work
from benchmarks.deployment import postmaster, settings
from benchmarks.driver import Driver
from benchmarks.report import Report
from benchmarks.seed import Seed, plant
from opentill.core.settings import Settings
from opentill.db import migrations
from opentill.db.database import Db


class Run(msgspec.Struct, kw_only=True):
    """Handed to every part."""

    options: argparse.Namespace
    data_dir: Path
    url: str  # of the database that the contest works in
    driver: Driver
    report: Report
    work: Work | None = None  # of the contest, once its database is seeded

    @property
    def socket_dir(self) -> Path:
        """Where PostgreSQL listens."""
        return self.data_dir / "postgres"

    @property
    def postmaster(self) -> int:
        """The process id of PostgreSQL."""
        return postmaster(self.data_dir)

    def note(self, figure: str, value: float) -> None:
        """Keep a figure of a round, and print it."""
        self.report.figures.setdefault(figure, []).append(value)
        say(f"{figure}: {value:,.2f}")

    @contextlib.asynccontextmanager
    async def database(self, name: str, merchants: int) -> AsyncIterator["Apart"]:
        """Make a database of its own with so many merchants; dropped in the end."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f"create database {name}")
            url = self.url.replace("/opentill?", f"/{name}?", 1)
            await migrations.migrate(url)
            chosen = settings(self.data_dir, database_url=url)
            db = await Db.connect(url, 4)
            try:
                say(f"seeding {name}")
                seed = await plant(db, chosen, merchants)
                yield Apart(url=url, db=db, seed=seed, settings=chosen)
            finally:
                await db.close()
                await connection.execute(f"drop database {name} with (force)")
        finally:
            await connection.close()


class Apart(msgspec.Struct, frozen=True):
    """A database of its own for a part."""

    url: str
    db: Db
    seed: Seed
    settings: Settings


def say(line: str) -> None:
    """Print how far the run is, beside the report."""
    sys.stderr.write(line + "\n")
