"""The second payment of an order is sent back to its customer once, despite retries."""

from typing import Any

import pytest

from opentill.db.database import Db
from opentill.gateways.model import RefundOutcome, RefundRequest
from opentill.orders import PaymentAttempt, queries
from opentill.orders.payments import duplicates
from opentill.orders.payments import queries as attempt_queries
from opentill.orders.payments import service as payments
from support import world


class Provider:
    """A provider with a fixed outcome, which stores the requests that it gets."""

    name = "sandbox"

    def __init__(self) -> None:
        self.requests: list[RefundRequest] = []
        self.status = "UNREACHABLE"

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        self.requests.append(request)
        return RefundOutcome(status=self.status)  # type: ignore[arg-type]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def duplicates_of_two_orders(db: Db) -> tuple[PaymentAttempt, PaymentAttempt]:
    """The second payments of two orders."""
    return await _create_duplicate(db), await _create_duplicate(db)


async def _create_duplicate(db: Db) -> PaymentAttempt:
    order = await db.run(world.create_order)
    declined_attempt = await db.run(lambda tx: world.submit_attempt(tx, order))
    await db.run(lambda tx: world.report_payment(tx, declined_attempt, "DECLINED"))
    paying_attempt = await db.run(lambda tx: world.submit_attempt(tx, order, world.NOW + 1))
    amount = world.Money(order.amount_minor, order.currency)
    for attempt in (paying_attempt, declined_attempt):
        await db.run(
            lambda tx, attempt=attempt: world.report_payment(
                tx, attempt, "SUCCEEDED", amount=amount
            )
        )
    return await _reread(db, declined_attempt)


async def _reread(db: Db, attempt: PaymentAttempt) -> PaymentAttempt:
    async with db.connection() as tx:
        return await queries.ATTEMPT.one(tx, merchant_id=attempt.merchant_id, id=attempt.id)


async def _return(db: Db, provider: Provider, attempt: PaymentAttempt) -> PaymentAttempt:
    gateways: Any = {"sandbox": provider}
    await duplicates.return_duplicate(db, gateways, attempt, "http://127.0.0.1", world.NOW)
    return await _reread(db, attempt)


async def test_only_a_return_that_may_have_arrived_is_sent_again_as_a_repetition(
    db: Db, provider: Provider, duplicates_of_two_orders: tuple[PaymentAttempt, PaymentAttempt]
) -> None:
    attempt, other_duplicate = duplicates_of_two_orders
    assert attempt.status == other_duplicate.status == "DUPLICATE"
    before = await _reread(db, other_duplicate)
    assert (await _return(db, provider, attempt)).reason == ""
    provider.status = "UNKNOWN"  # the provider may have received the request
    assert (await _return(db, provider, attempt)).reason == "giving_back"
    provider.status = "UNREACHABLE"
    assert (await _return(db, provider, attempt)).reason == "giving_back"
    provider.status = "SUCCEEDED"
    assert (await _return(db, provider, attempt)).status == "GIVEN_BACK"
    assert [request.repeated for request in provider.requests] == [False, False, True, True]
    assert {request.refund_id for request in provider.requests} == {attempt.id}
    assert await _reread(db, other_duplicate) == before


async def test_a_payment_that_was_returned_meanwhile_stays_returned(
    db: Db, provider: Provider, duplicates_of_two_orders: tuple[PaymentAttempt, PaymentAttempt]
) -> None:
    attempt, _ = duplicates_of_two_orders
    provider.status = "SUCCEEDED"
    returned = await _return(db, provider, attempt)
    assert returned.status == "GIVEN_BACK"
    # The request of another worker, which had claimed the attempt earlier, fails.
    provider.status = "UNREACHABLE"
    assert await _return(db, provider, attempt) == returned
    assert [request.repeated for request in provider.requests] == [False, True]
    async with db.connection() as tx:
        key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
        assert await attempt_queries.MARK_RETURN_SENT.run(tx, **key) == 0
        assert await attempt_queries.UNMARK_RETURN_SENT.run(tx, **key) == 0
    assert await _reread(db, attempt) == returned


async def test_an_attempt_that_waits_for_the_operator_is_never_queried(db: Db) -> None:
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order, gateway="manual"))
    shown_attempt = await db.run(lambda tx: world.report_payment(tx, attempt, "ACTION_REQUIRED"))
    assert payments.next_check(shown_attempt, world.NOW) is None
    order = await db.run(world.create_order)
    gateway_attempt = await db.run(lambda tx: world.submit_attempt(tx, order))
    shown_attempt = await db.run(
        lambda tx: world.report_payment(tx, gateway_attempt, "ACTION_REQUIRED")
    )
    assert payments.next_check(shown_attempt, world.NOW) == world.NOW + 60_000
