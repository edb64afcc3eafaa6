"""Row counts of a database, which backups record and restores compare."""

from opentill.db import queries
from opentill.db.queries import RowCounts as RowCounts  # noqa: PLC0414 - part of this interface
from opentill.db.query import Tx


async def count(tx: Tx) -> RowCounts:
    """Count the rows of tables from which nothing is ever deleted."""
    return await queries.ROW_COUNTS.one(tx)


async def is_empty(tx: Tx) -> bool:
    """Whether the database contains no objects but those of PostgreSQL and its extensions."""
    return not await queries.OBJECTS.get(tx)
