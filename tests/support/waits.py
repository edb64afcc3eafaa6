"""Who waits for a lock that another transaction holds."""

from typing import Final

from opentill.db.database import Tx

# Not from pg_stat_activity, which does not change within a transaction. The awaited lock of a row
# names no database, but the waiting session holds other locks, which do.
_WAITING: Final = """
    select pid from pg_locks where not granted and pid in (
        select pid from pg_locks where database = (
            select oid from pg_database where datname = current_database()))
    limit 1
"""


async def waits(tx: Tx) -> int | None:
    """Return the process of a session of this database that waits, None if none does."""
    count: int | None = await tx.fetchval(_WAITING)
    return count
