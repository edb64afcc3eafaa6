"""Removing files of evidence: until the merchant has responded to the dispute."""

import asyncpg
import pytest

from disputes.test_evidence import ANN, PDF, add_file, open_dispute, read_audit_subjects
from opentill import disputes
from opentill.core.errors import NotFound
from opentill.db.database import Db
from opentill.disputes import EvidenceRefused
from support import world


async def _remove(db: Db, dispute: disputes.Dispute, file: disputes.Evidence) -> None:
    await db.run(
        lambda tx: disputes.remove_evidence(
            tx, dispute.merchant_id, dispute.id, file.id, actor=ANN, now=world.NOW + 9
        )
    )


async def _respond(db: Db, dispute: disputes.Dispute, response: disputes.Response) -> None:
    await db.run(
        lambda tx: disputes.respond(
            tx, dispute.merchant_id, dispute.id, response, who=ANN.who, now=world.NOW + 7
        )
    )


async def _file_names(db: Db, dispute: disputes.Dispute) -> list[tuple[int, str]]:
    async with db.connection() as tx:
        return [(file.number, file.id) for file in await disputes.list_evidence(tx, dispute)]


async def test_a_file_is_removed_once_and_audited_and_its_number_used_again(db: Db) -> None:
    dispute = await open_dispute(db)
    first, second = await add_file(db, dispute, PDF), await add_file(db, dispute, PDF + b"2")
    await _remove(db, dispute, first)
    with pytest.raises(NotFound):
        await _remove(db, dispute, first)
    assert await _file_names(db, dispute) == [(2, second.id)]
    again = await add_file(db, dispute, PDF)
    assert sorted(await _file_names(db, dispute)) == [(1, again.id), (2, second.id)]
    subjects = [
        f"{dispute.id} {file.name} SHA-256 {file.sha256.hex()}"
        for file in (first, second, first, again)
    ]
    assert await read_audit_subjects(db, dispute) == subjects


@pytest.mark.parametrize("response", ["ACCEPTED", "CONTESTED"])
async def test_after_a_response_no_file_is_removed(db: Db, response: disputes.Response) -> None:
    dispute = await open_dispute(db)
    file = await add_file(db, dispute, PDF)
    await _respond(db, dispute, response)
    with pytest.raises(EvidenceRefused) as refusal:
        await _remove(db, dispute, file)
    assert refusal.value.why == "responded"
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="before a response"):
        await db.run(lambda tx: tx.execute("delete from dispute_evidence"))
    assert await _file_names(db, dispute) == [(1, file.id)]
    assert len(await read_audit_subjects(db, dispute)) == 1


async def test_an_accepted_dispute_takes_no_files_but_a_contested_one_does(db: Db) -> None:
    contested, accepted = await open_dispute(db), await open_dispute(db)
    await _respond(db, contested, "CONTESTED")
    await _respond(db, accepted, "ACCEPTED")
    assert (await add_file(db, contested, PDF)).number == 1
    with pytest.raises(EvidenceRefused) as refusal:
        await add_file(db, accepted, PDF)
    assert refusal.value.why == "accepted"


async def test_a_decided_dispute_keeps_its_files(db: Db) -> None:
    dispute = await open_dispute(db)
    file = await add_file(db, dispute, PDF)
    key = (dispute.merchant_id, dispute.id)
    await db.run(
        lambda tx: disputes.decide(tx, *key, "lost", who="op", reason="bank", now=world.NOW)
    )
    with pytest.raises(EvidenceRefused):
        await _remove(db, dispute, file)
    assert await _file_names(db, dispute) == [(1, file.id)]
