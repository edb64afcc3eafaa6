"""A dispute is decided while its merchant responds and removes evidence, in whatever order."""

import asyncio
from typing import Any

import pytest

from disputes.test_evidence import ANN, PDF, add_file, open_dispute, read_audit_subjects
from opentill import disputes
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db
from opentill.disputes import EvidenceRefused
from opentill.integrity.rules import check_all
from support import world

ROUNDS = 6
REFUSALS = (Invalid, NotFound, EvidenceRefused)


class Race:
    """A dispute with a file, and the acts of people and of its gateway that race."""

    def __init__(self, db: Db, dispute: disputes.Dispute, file: disputes.Evidence) -> None:
        """Use ``begin`` instead."""
        self.db, self.dispute, self.file = db, dispute, file
        self.key = (dispute.merchant_id, dispute.id)

    async def remove(self) -> None:
        """Remove the file."""
        await self.db.run(
            lambda tx: disputes.remove_evidence(
                tx, *self.key, self.file.id, actor=ANN, now=world.NOW + 9
            )
        )

    async def add(self) -> None:
        """Add another file."""
        await add_file(self.db, self.dispute, PDF + b"another")

    async def respond(self, response: disputes.Response = "CONTESTED") -> None:
        """Accept or contest the dispute."""
        await self.db.run(
            lambda tx: disputes.respond(tx, *self.key, response, who=ANN.who, now=world.NOW + 9)
        )

    async def decide(self, event: str) -> None:
        """Report the decision, as the gateway does."""

        async def report(tx: world.Tx) -> None:
            order = await world.orders.find(tx, self.dispute.merchant_id, self.dispute.order_id)
            ref = self.dispute.gateway_ref or ""
            assert await world.report_dispute(tx, order, event, world.NOW + 9, ref=ref)

        await self.db.run(report)

    async def is_stored(self) -> bool:
        """Whether the dispute still has the file."""
        async with self.db.connection() as tx:
            files = await disputes.list_evidence(tx, self.dispute)
        return self.file.id in {file.id for file in files}

    async def read(self) -> disputes.Dispute:
        """Return the dispute as it is now."""
        return await self.db.read(lambda tx: disputes.find(tx, *self.key))


async def begin(db: Db) -> Race:
    """Open a dispute and add a file."""
    dispute = await open_dispute(db)
    return Race(db, dispute, await add_file(db, dispute, PDF))


def assert_only_refusals(results: list[object]) -> None:
    """Raise the first exception that is no refusal, such as one of the database."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, REFUSALS):
            raise result


@pytest.mark.parametrize("decision", ["WON", "LOST"])
async def test_a_decision_during_a_response_and_a_removal_loses_nothing(
    db: Db, decision: str
) -> None:
    races = [await begin(db) for _ in range(ROUNDS)]
    works = [
        work
        for number, race in enumerate(races)
        for work in _rotate([race.decide(decision), race.respond(), race.remove()], number)
    ]
    assert_only_refusals(list(await asyncio.gather(*works, return_exceptions=True)))
    for race in races:
        after = await race.read()
        assert after.status == decision
        subjects = await read_audit_subjects(db, race.dispute)
        # The audit log has the removal only if the file is gone, and the file is gone only if
        # nobody had relied on it.
        assert len(subjects) == (1 if await race.is_stored() else 2)
        order = await db.read(
            lambda tx, d=race.dispute: world.orders.find(tx, d.merchant_id, d.order_id)
        )
        assert order.status == ("CHARGEBACK" if decision == "LOST" else "PAID")
    _, violations = await check_all(db)
    assert violations == []


@pytest.mark.parametrize("response", ["ACCEPTED", "CONTESTED"])
async def test_a_file_is_kept_once_a_response_has_relied_on_it(
    db: Db, response: disputes.Response
) -> None:
    """The removal waits for a response that is not committed yet, and is refused after it."""
    race = await begin(db)
    async with db.transaction() as tx:
        await disputes.respond(tx, *race.key, response, who=ANN.who, now=world.NOW + 8)
        removing = asyncio.create_task(race.remove())
        await asyncio.wait([removing], timeout=0.5)
        assert not removing.done()
    with pytest.raises(EvidenceRefused):
        await removing
    assert await race.is_stored()


async def test_a_file_is_kept_once_the_dispute_is_decided(db: Db) -> None:
    race = await begin(db)
    async with db.transaction() as tx:
        order = await world.orders.find(tx, race.dispute.merchant_id, race.dispute.order_id)
        await world.report_dispute(
            tx, order, "WON", world.NOW + 8, ref=race.dispute.gateway_ref or ""
        )
        works = [asyncio.create_task(work) for work in (race.remove(), race.respond(), race.add())]
        await asyncio.wait(works, timeout=0.5)
        assert not any(work.done() for work in works)
    results = await asyncio.gather(*works, return_exceptions=True)
    assert [type(result) for result in results] == [EvidenceRefused, Invalid, EvidenceRefused]
    assert await race.is_stored()
    assert (await race.read()).response is None


def _rotate(items: list[Any], by: int) -> list[Any]:
    start = by % len(items)
    return items[start:] + items[:start]
