"""The worker sends each refund once, also to a gateway without idempotency keys."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from opentill import refunds
from opentill.db.database import Db, Tx
from opentill.db.jobs import AT_ONCE
from opentill.gateways import RefundOutcome, RefundRequest
from opentill.refunds import Refund, jobs, queries
from support.world import DAY, NOW, create_order, create_refund, pay_order

URL = "http://127.0.0.1:9"
Responder = Callable[[RefundRequest], Awaitable[RefundOutcome]]


class Provider:
    """A gateway that records requests, and whose outcomes ``respond`` returns."""

    name = "sandbox"

    def __init__(self, respond: Responder | None = None) -> None:
        self.respond = respond
        self.requests: list[RefundRequest] = []

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        self.requests.append(request)
        return await self.respond(request) if self.respond else RefundOutcome(status="SUCCEEDED")


async def create_refunds(db: Db, count: int) -> list[Refund]:
    """Create refunds of one order."""

    async def create_data(tx: Tx) -> list[Refund]:
        order = await pay_order(tx, await create_order(tx, overdraft_minor=10**6))
        return [await create_refund(tx, order, "0.01") for _ in range(count)]

    return await db.run(create_data)


async def send(db: Db, gateways: dict[str, Any], hours: float) -> None:
    await jobs.send_due(db, gateways, URL, NOW + int(hours * DAY / 24))


async def read_refund(db: Db, refund: Refund) -> Refund:
    async with db.connection() as tx:
        return await refunds.find(tx, refund.merchant_id, refund.id)


async def test_a_refund_that_was_claimed_but_not_sent_is_not_marked_as_repeated(db: Db) -> None:
    """The gateway was switched off, or the worker was killed between claim and call."""
    (refund,) = await create_refunds(db, 1)
    await send(db, {}, 1)
    async with db.connection() as tx:
        at = NOW + DAY // 4
        claimed = await queries.CLAIM.all(
            tx, now=at, lease_until=at + 1, limit=50, gateways=None, included=True
        )
    assert len(claimed) == 1
    provider = Provider()
    await send(db, {"sandbox": provider}, 12)
    (request,) = provider.requests
    assert (request.refund_id, request.repeated) == (refund.id, False)
    assert (await read_refund(db, refund)).status == "SUCCEEDED"


async def test_a_request_that_may_have_arrived_is_sent_again_as_repeated(db: Db) -> None:
    (refund,) = await create_refunds(db, 1)
    statuses = iter(["UNREACHABLE", "UNKNOWN", "UNREACHABLE", "UNKNOWN", "SUCCEEDED"])

    async def respond(_request: RefundRequest) -> RefundOutcome:
        return RefundOutcome(status=next(statuses))  # type: ignore[arg-type]

    provider = Provider(respond)
    for hours in range(1, 6):
        await send(db, {"sandbox": provider}, hours * 2)
    assert [request.repeated for request in provider.requests] == [False, False, True, True, True]
    assert (await read_refund(db, refund)).status == "SUCCEEDED"


async def test_a_claimed_refund_that_has_ended_meanwhile_is_not_sent(db: Db) -> None:
    """Its money was returned to the merchant's balance and must not be paid out as well."""
    by_id = {refund.id: refund for refund in await create_refunds(db, AT_ONCE + 1)}
    ended = asyncio.Event()

    async def respond(_request: RefundRequest) -> RefundOutcome:
        if len(provider.requests) == AT_ONCE:
            (unsent_id,) = by_id.keys() - {request.refund_id for request in provider.requests}
            merchant_id = by_id[unsent_id].merchant_id
            outcome = RefundOutcome(status="REFUSED", reason="ended by the operator")
            await db.run(
                lambda tx: refunds.apply_outcome(
                    tx, merchant_id, unsent_id, outcome, NOW + 1, gateway="sandbox"
                )
            )
            ended.set()
        await ended.wait()
        return RefundOutcome(status="SUCCEEDED")

    provider = Provider(respond)
    await send(db, {"sandbox": provider}, 1)
    assert len(provider.requests) == AT_ONCE
    statuses = [(await read_refund(db, refund)).status for refund in by_id.values()]
    assert sorted(statuses) == ["FAILED"] + ["SUCCEEDED"] * AT_ONCE
