"""What the worker sends to a gateway that has no idempotency keys: each refund once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from opentill import refunds
from opentill.db.database import Db, Tx
from opentill.db.jobs import AT_ONCE
from opentill.gateways import RefundOutcome, RefundRequest
from opentill.refunds import Refund, jobs, queries
from support.world import DAY, NOW, opened, paid, refunded

URL = "http://127.0.0.1:9"
Answer = Callable[[RefundRequest], Awaitable[RefundOutcome]]


class Provider:
    """A gateway that remembers what it was sent, and answers as it is told to."""

    name = "sandbox"

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        self.sent: list[RefundRequest] = []

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        self.sent.append(request)
        return await self.answer(request) if self.answer else RefundOutcome(status="SUCCEEDED")


async def asked_for(db: Db, count: int) -> list[Refund]:
    """Ask for refunds of one order."""

    async def work(tx: Tx) -> list[Refund]:
        order = await paid(tx, await opened(tx, overdraft_minor=10**6))
        return [await refunded(tx, order, "0.01") for _ in range(count)]

    return await db.run(work)


async def send(db: Db, gateways: dict[str, Any], hours: float) -> None:
    await jobs.send_due(db, gateways, URL, NOW + int(hours * DAY / 24))


async def look(db: Db, refund: Refund) -> Refund:
    async with db.connection() as tx:
        return await refunds.find(tx, refund.merchant_id, refund.id)


async def test_what_was_never_sent_is_sent_as_the_first_once_its_gateway_is_back(db: Db) -> None:
    """The gateway was switched off, or the worker was killed between its claim and the call."""
    (refund,) = await asked_for(db, 1)
    await send(db, {}, 1)
    async with db.connection() as tx:
        then = NOW + DAY // 4
        assert (
            len(
                await queries.CLAIM.all(
                    tx, now=then, lease_until=then + 1, limit=50, gateways=None, included=True
                )
            )
            == 1
        )
    provider = Provider()
    await send(db, {"sandbox": provider}, 12)
    assert [(one.refund_id, one.repeated) for one in provider.sent] == [(refund.id, False)]
    assert (await look(db, refund)).status == "SUCCEEDED"


async def test_what_may_have_arrived_is_said_to_be_sent_again(db: Db) -> None:
    (refund,) = await asked_for(db, 1)
    words = iter(["UNREACHABLE", "UNKNOWN", "UNREACHABLE", "UNKNOWN", "SUCCEEDED"])

    async def answer(_request: RefundRequest) -> RefundOutcome:
        return RefundOutcome(status=next(words))  # type: ignore[arg-type]

    provider = Provider(answer)
    for hours in range(1, 6):
        await send(db, {"sandbox": provider}, hours * 2)
    assert [one.repeated for one in provider.sent] == [False, False, True, True, True]
    assert (await look(db, refund)).status == "SUCCEEDED"


async def test_a_refund_that_ended_while_it_waited_for_its_turn_is_not_sent(db: Db) -> None:
    """Its money is back on the merchant's balance: it must not leave all the same."""
    made = {refund.id: refund for refund in await asked_for(db, AT_ONCE + 1)}
    ended = asyncio.Event()

    async def answer(_request: RefundRequest) -> RefundOutcome:
        if len(provider.sent) == AT_ONCE:
            (left,) = made.keys() - {one.refund_id for one in provider.sent}
            sum_frozen_manually = RefundOutcome(status="REFUSED", reason="by hand")
            refund = made[left]
            ids = (refund.merchant_id, refund.id)
            await db.run(
                lambda tx: refunds.apply_outcome(
                    tx, *ids, sum_frozen_manually, NOW + 1, gateway="sandbox"
                )
            )
            ended.set()
        await ended.wait()
        return RefundOutcome(status="SUCCEEDED")

    provider = Provider(answer)
    await send(db, {"sandbox": provider}, 1)
    assert len(provider.sent) == AT_ONCE
    counted = [(await look(db, refund)).status for refund in made.values()]
    assert sorted(counted) == ["FAILED"] + ["SUCCEEDED"] * AT_ONCE
