"""Batches payments that gateways confirm concurrently into one transaction."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from opentill import orders
from opentill.core.errors import Contended, Unavailable
from opentill.db.batcher import Batcher
from opentill.db.database import Db
from opentill.gateways.model import GatewayPaymentEvent
from opentill.orders import Report

ApplyOne = Callable[[Report], Awaitable[None]]
# Fewer than the connections, so that reports that wait for one merchant leave some for others.
_APPLIED_AT_ONCE: Final = 4
# While one batch waits for its commit or a merchant's balance, another is prepared.
_BATCHES_AT_ONCE: Final = 2


class Confirmations:
    """The batcher of a server process: confirms all waiting payments in one transaction."""

    def __init__(self, db: Db, clock: Callable[[], int], apply_one: ApplyOne) -> None:
        """``apply_one`` applies a gateway event in a separate transaction."""
        self._db = db
        self._clock = clock
        self._apply_one = apply_one
        self._slots = asyncio.Semaphore(_APPLIED_AT_ONCE)
        self._batcher = Batcher(
            self._batch, most=orders.CONFIRMED_TOGETHER, at_once=_BATCHES_AT_ONCE
        )

    async def take_in(self, gateway: str, gateway_event: GatewayPaymentEvent) -> None:
        """Return once the payment is confirmed and committed.

        ``gateway`` signed the event. Raises the exceptions of ``orders.apply_outcome``. Unusual
        reports, and those of a failed batch, are applied individually while the next batch runs.
        """
        report = Report(gateway, gateway_event)
        if not await self._batcher.do(report):
            async with self._slots:
                await self._apply_one(report)

    async def _batch(self, batch: Sequence[Report]) -> list[bool]:
        """Confirm a batch; return for each report whether it was applied. Raises Unavailable."""
        now = self._clock()
        try:
            confirmed = await self._db.run(lambda tx: orders.confirm_many(tx, batch, now))
        except Contended:
            return [False] * len(batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - raised to the right caller when applied individually
            return [False] * len(batch)
        return [report.key in confirmed for report in batch]
