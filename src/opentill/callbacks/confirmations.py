"""Payments that gateways confirm at the same time are confirmed together."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from opentill import orders
from opentill.core.errors import Contended, Unavailable
from opentill.db.batcher import Batcher
from opentill.db.database import Db
from opentill.gateways.model import GatewayPaymentEvent
from opentill.orders import Report

ApplyOne = Callable[[Report], Awaitable[None]]
# Whether a report is done, or is to be applied by itself; or that its database is away.
Outcome: TypeAlias = bool | Unavailable
# Fewer than there are connections: those that wait for one merchant leave some for the others.
_APPLIED_AT_ONCE: Final = 4
# While one batch waits for its commit or for a merchant's balance, another one is prepared.
_BATCHES_AT_ONCE: Final = 2
# Transactions of all batches: a batch is one on one machine. On a cluster it is one for each
# merchant: one whose order is locked, or whose node is away, is not to hold up the others.
_PARTS_AT_ONCE: Final = 4


class Confirmations:
    """The batcher of one server process: confirms all payments that wait in one transaction."""

    def __init__(self, db: Db, clock: Callable[[], int], apply_one: ApplyOne) -> None:
        """``apply_one`` applies one gateway event in a transaction of its own."""
        self._db = db
        self._clock = clock
        self._apply_one = apply_one
        self._slots = asyncio.Semaphore(_APPLIED_AT_ONCE)
        self._parts = asyncio.Semaphore(_PARTS_AT_ONCE)
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
        outcome = await self._batcher.do(report)
        if isinstance(outcome, Unavailable):
            raise outcome
        if not outcome:
            async with self._slots:
                await self._apply_one(report)

    async def _batch(self, batch: Sequence[Report]) -> list[Outcome]:
        """Confirm a batch; return for each what came of it."""
        now = self._clock()
        try:
            parts = await orders.by_transaction(self._db, batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - applied one by one, it is raised to the right caller
            return [False] * len(batch)
        found = await asyncio.gather(*(self._together(part, now) for part in parts))
        outcomes = {key: outcome for part in found for key, outcome in part.items()}
        return [outcomes.get(report.key, False) for report in batch]

    async def _together(self, part: orders.Batch, now: int) -> Mapping[tuple[str, str], Outcome]:
        """Confirm in one transaction; return by its key what came of each that is not left over."""
        try:
            async with self._parts:
                done = await self._db.run(
                    lambda tx: orders.confirm_many(
                        tx, part.reports, now, merchant_id=part.merchant_id
                    )
                )
        except Contended:
            return {}
        except Unavailable as error:  # holds for each of these, and for no other merchant's node
            return {report.key: error for report in part.reports}
        except Exception:  # noqa: BLE001 - applied one by one, it is raised to the right caller
            return {}
        return dict.fromkeys(done, True)
