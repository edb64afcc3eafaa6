"""The merchant's decision about a dispute: people who respond at once, and after its deadline."""

import asyncio
from functools import partial

import pytest

from opentill import disputes
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.disputes import Dispute, Response
from support import world


@pytest.fixture
async def dispute(db: Db) -> Dispute:
    """An open dispute whose deadline has passed."""

    async def work(tx: Tx) -> Dispute:
        order = await world.create_order_in(tx, "PAID")
        opened = await world.report_dispute(tx, order, "OPENED", respond_by=world.NOW)
        assert opened is not None
        return opened

    return await db.run(work)


async def respond(db: Db, dispute: Dispute, response: Response, who: str = "ann") -> Dispute:
    ids = (dispute.merchant_id, dispute.id)
    work = partial(disputes.respond, who=who, now=world.NOW + 1)
    return await db.run(lambda tx: work(tx, *ids, response))


async def read_dispute(db: Db, dispute: Dispute) -> Dispute:
    return await db.run(
        partial(disputes.find, merchant_id=dispute.merchant_id, dispute_id=dispute.id)
    )


async def test_only_the_first_of_people_who_contest_at_once_responds(
    db: Db, dispute: Dispute
) -> None:
    people = ("ann", "bob", "eve")
    results = await asyncio.gather(
        *(respond(db, dispute, "CONTESTED", who) for who in people), return_exceptions=True
    )
    (stored,) = [result for result in results if isinstance(result, Dispute)]
    assert sum(isinstance(result, Invalid) for result in results) == len(people) - 1
    assert await read_dispute(db, dispute) == stored


async def test_a_dispute_that_is_accepted_and_contested_at_once_is_accepted(
    db: Db, dispute: Dispute
) -> None:
    accepted, contested = await asyncio.gather(
        respond(db, dispute, "ACCEPTED"),
        respond(db, dispute, "CONTESTED", "bob"),
        return_exceptions=True,
    )
    assert isinstance(accepted, Dispute)
    assert isinstance(contested, Dispute | Invalid)
    stored = await read_dispute(db, dispute)
    assert (stored.response, stored.responded_by) == ("ACCEPTED", "ann")


async def test_a_response_and_the_banks_decision_at_once_lose_neither(
    db: Db, dispute: Dispute
) -> None:
    ids = (dispute.merchant_id, dispute.id)
    decide = partial(disputes.decide, who="op", reason="bank", now=world.NOW + 2)
    response, _ = await asyncio.gather(
        respond(db, dispute, "CONTESTED"),
        db.run(lambda tx: decide(tx, *ids, "lost")),
        return_exceptions=True,
    )
    stored = await read_dispute(db, dispute)
    assert stored.status == "LOST"
    assert stored.response == (None if isinstance(response, Invalid) else "CONTESTED")


async def test_of_two_people_who_forward_a_response_at_once_one_is_recorded(
    db: Db, dispute: Dispute
) -> None:
    await respond(db, dispute, "CONTESTED")
    ids = (dispute.merchant_id, dispute.id)
    results = await asyncio.gather(
        *(
            db.run(partial(_forward, ids=ids, how=how))
            for how in ("by post", "in the provider's dashboard", "by fax")
        ),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, Invalid)]
    assert (len(results) - len(refused), len(refused)) == (1, 2)
    async with db.connection() as tx:
        history = await world.orders.history(tx, dispute.merchant_id, dispute.order_id)
    assert [row.event for row in history].count("dispute_forwarded") == 1


async def _forward(tx: Tx, ids: tuple[str, str], how: str) -> None:
    await disputes.record_forwarding(tx, *ids, how, world.NOW + 3)
