"""Batches payments that gateways confirm concurrently into one transaction."""

import asyncio
from collections.abc import Sequence
from typing import Final

from opentill import orders
from opentill.callbacks.applying import apply_event
from opentill.context import App
from opentill.core.errors import Contended, Unavailable
from opentill.db.batcher import Batcher
from opentill.gateways.model import GatewayPaymentEvent
from opentill.orders import Report

# At most this many reports are applied individually at the same time. Half the number of the pool's
# connections is a limit too, so that some remain free if all these reports wait for one merchant.
_APPLIED_AT_ONCE: Final = 4
# While one batch waits for its commit or a merchant's balance, another is prepared.
_BATCHES_AT_ONCE: Final = 2
# A report that is applied individually waits this long for a locked row. After that it fails, and
# the gateway sends it again.
_PATIENCE: Final = "2s"


class Confirmations:
    """The batcher of a server process: confirms all waiting payments in one transaction."""

    def __init__(self, app: App) -> None:
        """Create the batcher; each process needs only one."""
        self._app = app
        self._slots = asyncio.Semaphore(min(_APPLIED_AT_ONCE, app.settings.db_pool_size // 2))
        self._batcher = Batcher(
            self._confirm_batch, most=orders.CONFIRMATION_BATCH, at_once=_BATCHES_AT_ONCE
        )

    async def confirm(self, gateway: str, gateway_event: GatewayPaymentEvent) -> None:
        """Return once the payment is confirmed and committed. ``gateway`` signed the event.

        Raises the exceptions of ``orders.apply_outcome``. Unusual reports, and the reports of a
        failed batch, are applied individually while the next batch runs.
        """
        report = Report(gateway, gateway_event)
        if not await self._batcher.do(report):
            async with self._slots:
                await self._apply_one(report)

    async def _apply_one(self, report: Report) -> None:
        now = self._app.clock()
        await apply_event(self._app, report.gateway, report.gateway_event, now, patience=_PATIENCE)

    async def _confirm_batch(self, batch: Sequence[Report]) -> list[bool]:
        """Confirm a batch; return for each report whether it was applied. Raises Unavailable."""
        now = self._app.clock()
        try:
            confirmed = await self._app.db.run(lambda tx: orders.confirm_many(tx, batch, now))
        except Contended:
            return [False] * len(batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - raised to the right caller when applied individually
            return [False] * len(batch)
        return [report.key in confirmed for report in batch]
