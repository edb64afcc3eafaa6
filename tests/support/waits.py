"""Finds a session that waits for another transaction's lock."""

from typing import Final

from opentill.db.database import Tx

# pg_stat_activity cannot be used, because it does not change within a transaction. A lock on a row
# that a session waits for has no database, but other locks of the same session have one.
_WAITING: Final = """
    select pid from pg_locks where not granted and pid in (
        select pid from pg_locks where database = (
            select oid from pg_database where datname = current_database()))
    limit 1
"""


async def find_waiting_session(tx: Tx) -> int | None:
    """Return the process id of a waiting session of this database, or None."""
    pid: int | None = await tx.fetchval(_WAITING)
    return pid
