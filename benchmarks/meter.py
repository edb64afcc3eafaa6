"""What server, worker and PostgreSQL used: processor, log, commits that wrote, statements."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from benchmarks.deployment import exact_cpu_s
from opentill.db.database import Db

_READ: Final = """
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
_STATEMENT: Final = re.compile(
    rb"LOG:  (?:execute [^:]*|statement): (?!begin|commit|rollback)", re.IGNORECASE
)
_RELOADED_S: Final = 0.5


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in ``seconds``. Processor times are microseconds, the log is bytes."""

    seconds: float
    server_us: float
    database_us: float
    worker_us: float
    log_bytes: float
    commits: float  # that wrote
    statements: float

    def since(self, before: Self) -> Self:
        """Return what was used after another moment."""
        return self._each(lambda name: getattr(self, name) - getattr(before, name))

    def a_second(self) -> Self:
        """Return what was used in one second."""
        return self.each(self.seconds)

    def each(self, count: float) -> Self:
        """Return what was used for one of so many."""
        return self._each(lambda name: getattr(self, name) / count)

    def beyond(self, idle: Self) -> Self:
        """Return what was used beyond what is used in the same time while nobody comes."""
        return self._each(
            lambda name: (
                getattr(self, name)
                - (0.0 if name == "seconds" else getattr(idle, name) * self.seconds)
            )
        )

    def _each(self, value: Callable[[str], float]) -> Self:
        return type(self)(**{name: value(name) for name in self.__struct_fields__})

    def figures(self) -> dict[str, float]:
        """Return what is reported, by name: ms, kB, and commits that wrote."""
        return {
            "server ms": self.server_us / 1000,
            "PostgreSQL ms": self.database_us / 1000,
            "worker ms": self.worker_us / 1000,
            "all ms": (self.server_us + self.database_us + self.worker_us) / 1000,
            "log kB": self.log_bytes / 1000,
            "commits": self.commits,
        }


class Meter:
    """Reads what was used so far."""

    def __init__(self, db: Db, data_dir: Path, postmaster: int, server: int, worker: int) -> None:
        """Take the ids of the processes."""
        self._db, self._log = db, data_dir / "postgres.log"
        self._postmaster, self._server, self._worker = postmaster, server, worker
        self._counted_from: int | None = None

    async def read(self) -> Spent:
        """Return what was used so far, by this moment."""
        async with self._db.connection() as tx:
            row = await tx.fetchrow(_READ)
        assert row is not None
        return Spent(
            seconds=time.monotonic(),
            server_us=exact_cpu_s(self._server) * 1e6,
            database_us=exact_cpu_s(self._postmaster) * 1e6,
            worker_us=exact_cpu_s(self._worker) * 1e6,
            log_bytes=float(row[0]),
            commits=float(row[1]),
            statements=float(self._statements()),
        )

    def _statements(self) -> int:
        if self._counted_from is None:
            return 0
        with self._log.open("rb") as log:
            log.seek(self._counted_from)
            ran = [line for line in log if _STATEMENT.search(line)]
        return len(ran) - sum(b"pg_current_wal_insert_lsn" in line for line in ran)

    @asynccontextmanager
    async def counting_statements(self) -> AsyncIterator[None]:
        """Have PostgreSQL log its statements, without their values, and count them."""
        await self._set("alter system set log_statement = 'all'")
        self._counted_from = self._log.stat().st_size
        try:
            yield
        finally:
            self._counted_from = None
            await self._set("alter system reset log_statement")

    async def _set(self, statement: str) -> None:
        async with self._db.connection() as tx:
            await tx.execute(statement)
            await tx.execute("select pg_reload_conf()")
        await asyncio.sleep(_RELOADED_S)
