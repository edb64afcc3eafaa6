"""Deletion of old rows: ended callbacks after 30 days, payments after 400 days."""

import asyncio
from typing import Final

from opentill.sandbox.storage import Store, Tx
from opentill.sandbox.timers import now_ms

CALLBACKS_KEPT_S: Final = 30 * 86_400
PAYMENTS_KEPT_S: Final = 400 * 86_400  # a shop can refund a payment while it is kept
_INTERVAL_S: Final = 3600.0
_BATCH: Final = 500  # one transaction deletes at most this many rows, so that no payment waits long

_OLD: Final = "select id from payments where updated_at < :before order by updated_at limit :batch"
_OLD_REFUNDS: Final = f"select id from refunds where payment_id in ({_OLD})"  # noqa: S608 - interpolates constants of this program only
_DELETIONS: Final = (
    f"delete from paypal_refunds where refund_id in ({_OLD_REFUNDS})",  # noqa: S608 - interpolates constants of this program only
    f"delete from refunds where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from alipay_trades where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from wechat_pay_orders where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from paypal_orders where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from epay_v2_orders where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from epusdt_orders where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from disputes where payment_id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
    f"delete from payments where id in ({_OLD})",  # noqa: S608 - interpolates constants of this program only
)
_CALLBACKS: Final = """
    delete from callbacks where id in (
        select id from callbacks where status <> 'pending' and created_at < :before limit :batch)
"""


def purge(tx: Tx, now: int) -> int:
    """Delete a batch of rows that are old at ``now`` (Unix ms); return the number of rows."""
    count = tx.run(_CALLBACKS, before=now - CALLBACKS_KEPT_S * 1000, batch=_BATCH)
    before = now - PAYMENTS_KEPT_S * 1000
    return count + sum(tx.run(deletion, before=before, batch=_BATCH) for deletion in _DELETIONS)


class Purger:
    """Deletes old rows in batches, once an hour."""

    def __init__(self, store: Store) -> None:
        """``store`` is the bank's storage."""
        self._store = store

    async def run(self) -> None:
        """Delete old rows at intervals until the task is cancelled."""
        while True:
            deleted = await self._store.do(lambda tx: purge(tx, now_ms()))
            # The sleep between two batches lets the storage run other calls.
            await asyncio.sleep(0 if deleted else _INTERVAL_S)
