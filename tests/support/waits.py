"""Who waits for a lock that another transaction holds."""

from typing import Final

from opentill.db.database import Tx
from support.citus import CITUS

# On a cluster the locks are on its nodes, and the coordinator knows whose statement waits there.
_WAITING: Final = (
    "select citus_pid_for_gpid(waiting_gpid) from citus_lock_waits limit 1"
    if CITUS
    else """
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' limit 1
    """
)


async def waits(tx: Tx) -> int | None:
    """Return the process of a session of this database that waits, None if none does."""
    found: int | None = await tx.fetchval(_WAITING)
    return found
