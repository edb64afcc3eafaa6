"""Sessions that wait for a lock of another transaction."""

from typing import Final

from opentill.db.database import Tx

# pg_stat_activity does not change within a transaction, so it cannot be used. The awaited lock of a
# row names no database, but other locks of the waiting session do.
_WAITING: Final = """
    select pid from pg_locks where not granted and pid in (
        select pid from pg_locks where database = (
            select oid from pg_database where datname = current_database()))
    limit 1
"""


async def find_waiting_session(tx: Tx) -> int | None:
    """Return the process id of a waiting session of this database, None if none waits."""
    pid: int | None = await tx.fetchval(_WAITING)
    return pid
