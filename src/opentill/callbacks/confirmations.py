"""Payments that gateways confirm at the same time are confirmed together."""

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
# Fewer than there are connections: those that wait for one merchant leave some for the others.
_APPLIED_AT_ONCE: Final = 4
# While one batch waits for its commit or for a merchant's balance, another one is prepared.
_BATCHES_AT_ONCE: Final = 2


class Confirmations:
    """The batcher of one server process: confirms all payments that wait in one transaction."""

    def __init__(self, db: Db, clock: Callable[[], int], apply_one: ApplyOne) -> None:
        """``apply_one`` applies one gateway event in a transaction of its own."""
        self._db = db
        self._clock = clock
        self._apply_one = apply_one
        self._slots = asyncio.Semaphore(_APPLIED_AT_ONCE)
        self._batcher = Batcher(
            self._batch, most=orders.CONFIRMED_TOGETHER, at_once=_BATCHES_AT_ONCE
        )

    async def take_in(self, gateway: str, gateway_event: GatewayPaymentEvent) -> None:
        """Return once the payment is confirmed and committed.

        ``gateway`` is the one that signed the event. Raises what ``orders.apply_outcome`` raises.
        An unusual report is applied in a transaction of its own, and so is each of a batch that
        failed; meanwhile the next batch goes on.
        """
        report = Report(gateway, gateway_event)
        if not await self._batcher.do(report):
            async with self._slots:
                await self._apply_one(report)

    async def _batch(self, batch: Sequence[Report]) -> list[bool]:
        """Confirm a batch; return for each whether it is done."""
        now = self._clock()
        done = set[tuple[str, str]]()
        for merchant_id, reports in await orders.by_transaction(self._db, batch):
            done |= await self._together(merchant_id, reports, now)
        return [report.key in done for report in batch]

    async def _together(
        self, merchant_id: str | None, reports: Sequence[Report], now: int
    ) -> set[tuple[str, str]]:
        """Confirm in one transaction; return the keys of those that are done."""
        try:
            return await self._db.run(
                lambda tx: orders.confirm_many(tx, reports, now, merchant_id=merchant_id)
            )
        except Contended:
            return set()
        except Unavailable:  # holds for each of them, and trying each would take as long again
            raise
        except Exception:  # noqa: BLE001 - applied one by one, it is raised to the right caller
            return set()
