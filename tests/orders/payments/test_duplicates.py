"""A second payment of one order goes back to who paid it, once, however often that is tried."""

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
    """A provider that says what it is told to, and remembers what it was asked."""

    name = "sandbox"

    def __init__(self) -> None:
        self.asked: list[RefundRequest] = []
        self.says = "UNREACHABLE"

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        self.asked.append(request)
        return RefundOutcome(status=self.says)  # type: ignore[arg-type]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def twice(db: Db) -> tuple[PaymentAttempt, PaymentAttempt]:
    """The second payments of two orders of one merchant."""
    return await _duplicate(db), await _duplicate(db)


async def _duplicate(db: Db) -> PaymentAttempt:
    order = await db.run(world.opened)
    first = await db.run(lambda tx: world.submitted(tx, order))
    await db.run(lambda tx: world.said(tx, first, "DECLINED"))
    second = await db.run(lambda tx: world.submitted(tx, order, world.NOW + 1))
    whole = world.Money(order.amount_minor, order.currency)
    for attempt in (second, first):
        await db.run(lambda tx, one=attempt: world.said(tx, one, "SUCCEEDED", amount=whole))
    return await _now(db, first)


async def _now(db: Db, attempt: PaymentAttempt) -> PaymentAttempt:
    async with db.connection() as tx:
        found = await queries.ATTEMPT.first(tx, merchant_id=attempt.merchant_id, id=attempt.id)
    assert found is not None
    return found


async def _give_back(db: Db, provider: Provider, attempt: PaymentAttempt) -> PaymentAttempt:
    gateways: Any = {"sandbox": provider}
    await duplicates.give_back(db, gateways, attempt, "http://127.0.0.1", world.NOW)
    return await _now(db, attempt)


async def test_what_surely_did_not_arrive_is_sent_as_the_first_time_again(
    db: Db, provider: Provider, twice: tuple[PaymentAttempt, PaymentAttempt]
) -> None:
    attempt, other = twice
    assert attempt.status == other.status == "DUPLICATE"
    before = await _now(db, other)
    assert (await _give_back(db, provider, attempt)).reason == ""
    provider.says = "UNKNOWN"  # it may have arrived
    assert (await _give_back(db, provider, attempt)).reason == "giving_back"
    provider.says = "UNREACHABLE"
    assert (await _give_back(db, provider, attempt)).reason == "giving_back"
    provider.says = "SUCCEEDED"
    assert (await _give_back(db, provider, attempt)).status == "GIVEN_BACK"
    assert [request.repeated for request in provider.asked] == [False, False, True, True]
    assert {request.refund_id for request in provider.asked} == {attempt.id}
    assert await _now(db, other) == before


async def test_what_was_given_back_meanwhile_stays_as_it_is(
    db: Db, provider: Provider, twice: tuple[PaymentAttempt, PaymentAttempt]
) -> None:
    attempt, _ = twice
    provider.says = "SUCCEEDED"
    done = await _give_back(db, provider, attempt)
    assert done.status == "GIVEN_BACK"
    provider.says = "UNREACHABLE"  # another worker, with what it claimed before that
    assert await _give_back(db, provider, attempt) == done
    assert [request.repeated for request in provider.asked] == [False, True]
    async with db.connection() as tx:
        key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
        assert await attempt_queries.GIVING_BACK.run(tx, **key) == 0
        assert await attempt_queries.NOT_GIVEN_BACK.run(tx, **key) == 0
    assert await _now(db, attempt) == done


async def test_what_waits_for_the_operator_is_never_asked_for(db: Db) -> None:
    order = await db.run(world.opened)
    attempt = await db.run(lambda tx: world.submitted(tx, order, gateway="manual"))
    shown = await db.run(lambda tx: world.said(tx, attempt, "ACTION_REQUIRED"))
    assert payments.next_check(shown, world.NOW) is None
    order = await db.run(world.opened)
    other = await db.run(lambda tx: world.submitted(tx, order))
    shown = await db.run(lambda tx: world.said(tx, other, "ACTION_REQUIRED"))
    assert payments.next_check(shown, world.NOW) == world.NOW + 60_000
