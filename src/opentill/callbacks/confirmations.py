"""Batches payments that gateways confirm concurrently into one transaction."""

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
# True: applied. False: to be applied individually. Unavailable: the database is unavailable.
Outcome: TypeAlias = bool | Unavailable
# Fewer than the connections, so that reports that wait for one merchant leave some for others.
_APPLIED_AT_ONCE: Final = 4
# While one batch waits for its commit or a merchant's balance, another is prepared.
_BATCHES_AT_ONCE: Final = 2
# Concurrent transactions of all batches. On a single machine a batch is one transaction. On a
# cluster it is one per merchant, so that a locked order or a lost node does not block others.
_PARTS_AT_ONCE: Final = 4


class Confirmations:
    """The batcher of a server process: confirms all waiting payments in one transaction."""

    def __init__(self, db: Db, clock: Callable[[], int], apply_one: ApplyOne) -> None:
        """``apply_one`` applies a gateway event in a separate transaction."""
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

        ``gateway`` signed the event. Raises the exceptions of ``orders.apply_outcome``. Unusual
        reports, and those of a failed batch, are applied individually while the next batch runs.
        """
        report = Report(gateway, gateway_event)
        outcome = await self._batcher.do(report)
        if isinstance(outcome, Unavailable):
            raise outcome
        if not outcome:
            async with self._slots:
                await self._apply_one(report)

    async def _batch(self, batch: Sequence[Report]) -> list[Outcome]:
        """Confirm a batch; return an outcome for each report."""
        now = self._clock()
        try:
            parts = await orders.by_transaction(self._db, batch)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - raised to the right caller when applied individually
            return [False] * len(batch)
        results = await asyncio.gather(
            *(self._confirm_in_one_transaction(part, now) for part in parts)
        )
        outcomes = {key: outcome for result in results for key, outcome in result.items()}
        return [outcomes.get(report.key, False) for report in batch]

    async def _confirm_in_one_transaction(
        self, part: orders.Batch, now: int
    ) -> Mapping[tuple[str, str], Outcome]:
        """Confirm reports in one transaction; return the outcomes of those confirmed, by key."""
        try:
            async with self._parts:
                confirmed = await self._db.run(
                    lambda tx: orders.confirm_many(
                        tx, part.reports, now, merchant_id=part.merchant_id
                    )
                )
        except Contended:
            return {}
        except Unavailable as error:  # applies to these reports only, not to other nodes
            return {report.key: error for report in part.reports}
        except Exception:  # noqa: BLE001 - raised to the right caller when applied individually
            return {}
        return dict.fromkeys(confirmed, True)
