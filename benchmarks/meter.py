"""Read what server, worker and PostgreSQL use: processor time, log, commits and statements."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from benchmarks.deployment import read_exact_cpu_s
from opentill.db.database import Db

_READ_LOG_AND_COMMITS: Final = """
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
_STATEMENT: Final = re.compile(
    rb"LOG:  (?:execute [^:]*|statement): (?!begin|commit|rollback)", re.IGNORECASE
)
_RELOAD_S: Final = 0.5


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that were used in ``seconds``. Processor times are in microseconds."""

    seconds: float
    server_us: float
    database_us: float
    worker_us: float
    log_bytes: float
    commits: float  # committed transactions that wrote something
    statements: float

    def since(self, before: Self) -> Self:
        """Return the difference from an earlier reading."""
        return self._each(lambda name: getattr(self, name) - getattr(before, name))

    def per_second(self) -> Self:
        """Return the average usage of one second."""
        return self.per(self.seconds)

    def per(self, count: float) -> Self:
        """Return the average usage of one of ``count`` orders."""
        return self._each(lambda name: getattr(self, name) / count)

    def without_idle(self, idle: Self) -> Self:
        """Subtract what an idle deployment uses in the same time; ``idle`` is per second."""
        return self._each(
            lambda name: (
                getattr(self, name)
                - (0.0 if name == "seconds" else getattr(idle, name) * self.seconds)
            )
        )

    def _each(self, value: Callable[[str], float]) -> Self:
        return type(self)(**{name: value(name) for name in self.__struct_fields__})

    def figures(self) -> dict[str, float]:
        """Return the reported figures by name, in ms and kB."""
        return {
            "server ms": self.server_us / 1000,
            "PostgreSQL ms": self.database_us / 1000,
            "worker ms": self.worker_us / 1000,
            "all ms": (self.server_us + self.database_us + self.worker_us) / 1000,
            "log kB": self.log_bytes / 1000,
            "commits": self.commits,
        }


class Meter:
    """Reads the total usage of a deployment so far."""

    def __init__(
        self, db: Db, data_dir: Path, postmaster_pid: int, server: int, worker: int
    ) -> None:
        """``postmaster_pid``, ``server`` and ``worker`` are process ids."""
        self._db, self._log = db, data_dir / "postgres.log"
        self._postmaster, self._server, self._worker = postmaster_pid, server, worker
        # Where the part of the log begins that is counted; None: nothing is counted.
        self._log_offset: int | None = None

    async def read(self) -> Usage:
        """Return the total usage until now."""
        async with self._db.connection() as tx:
            row = await tx.fetchrow(_READ_LOG_AND_COMMITS)
        assert row is not None
        return Usage(
            seconds=time.monotonic(),
            server_us=read_exact_cpu_s(self._server) * 1e6,
            database_us=read_exact_cpu_s(self._postmaster) * 1e6,
            worker_us=read_exact_cpu_s(self._worker) * 1e6,
            log_bytes=float(row[0]),
            commits=float(row[1]),
            statements=float(self._count_statements()),
        )

    def _count_statements(self) -> int:
        if self._log_offset is None:
            return 0
        with self._log.open("rb") as log:
            log.seek(self._log_offset)
            lines = [line for line in log if _STATEMENT.search(line)]
        return len(lines) - sum(b"pg_current_wal_insert_lsn" in line for line in lines)

    @asynccontextmanager
    async def counting_statements(self) -> AsyncIterator[None]:
        """Have PostgreSQL log its statements, without their values, and count them."""
        await self._configure("alter system set log_statement = 'all'")
        self._log_offset = self._log.stat().st_size
        try:
            yield
        finally:
            self._log_offset = None
            await self._configure("alter system reset log_statement")

    async def _configure(self, statement: str) -> None:
        async with self._db.connection() as tx:
            await tx.execute(statement)
            await tx.execute("select pg_reload_conf()")
        await asyncio.sleep(_RELOAD_S)
