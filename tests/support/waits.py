"""Who waits for a lock that another transaction holds."""

from typing import Final

from opentill.db.database import Tx
from support.citus import CITUS

# On a cluster the locks are on its nodes, and the coordinator knows whose statement waits there.
# Neither looks at pg_stat_activity, which says the same all along a transaction. The lock of a row
# that is waited for names no database, but who waits has others there.
_WAITING: Final = (
    """
    select citus_pid_for_gpid(waiting_global_pid)
    from citus_internal_global_blocked_processes() limit 1
    """
    if CITUS
    else """
    select pid from pg_locks where not granted and pid in (
        select pid from pg_locks where database = (
            select oid from pg_database where datname = current_database()))
    limit 1
    """
)


async def waits(tx: Tx) -> int | None:
    """Return the process of a session of this database that waits, None if none does."""
    count: int | None = await tx.fetchval(_WAITING)
    return count
