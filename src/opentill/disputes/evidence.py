"""Files of evidence: merchants upload them, the operator downloads them, and nobody changes them.

Until the merchant has accepted or contested the dispute, they may be removed. They are
not sent to gateways: the operator submits them.
"""

import hashlib

import msgspec

from opentill import merchants
from opentill.core.errors import NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.disputes import queries
from opentill.disputes.evidence_model import (
    MAX_FILES,
    Evidence,
    EvidenceRefused,
    kind_of,
    name_of,
)
from opentill.disputes.model import Dispute
from opentill.merchants import Actor


class _UploadedMeanwhile(Exception):
    """A concurrent request has added the same file."""


async def list_evidence(tx: Tx, dispute: Dispute) -> list[Evidence]:
    """Return the files of a dispute, oldest first."""
    return await queries.EVIDENCE.all(tx, merchant_id=dispute.merchant_id, dispute_id=dispute.id)


async def read_evidence(tx: Tx, merchant_id: str, evidence_id: str) -> bytes:
    """Return the content of a file. Raises NotFound."""
    return or_not_found(
        await queries.EVIDENCE_CONTENT.get(tx, merchant_id=merchant_id, id=evidence_id)
    )


async def add_evidence(
    db: Db, merchant_id: str, dispute_id: str, name: str, content: bytes, *, actor: Actor, now: int
) -> Evidence:
    """Add a file to an open dispute, and record it in the audit log. Idempotent by its content.

    ``name`` is the file's name on the merchant's computer. Raises NotFound and EvidenceRefused.
    """
    kind = kind_of(content)
    digest = hashlib.sha256(content).digest()
    file = Evidence(
        merchant_id=merchant_id,
        id=new_id("ev"),
        dispute_id=dispute_id,
        number=0,
        name=name_of(name, kind),
        kind=kind,
        size=len(content),
        sha256=digest,
        who=actor.who,
        at=now,
    )

    async def work(tx: Tx) -> Evidence:
        return await _find_same(tx, file) or await _add(tx, file, content, actor)

    try:
        return await db.run(work)
    except _UploadedMeanwhile:
        # The first try was rolled back together with its audit entry. The second one finds the
        # file.
        return await db.run(work)


async def _find_same(tx: Tx, file: Evidence) -> Evidence | None:
    """Return the dispute's file with the same content, None if none has it. Raises NotFound."""
    dispute = or_not_found(
        await queries.BY_ID.first(tx, merchant_id=file.merchant_id, id=file.dispute_id)
    )
    files = await list_evidence(tx, dispute)
    return next((stored for stored in files if stored.sha256 == file.sha256), None)


async def _add(tx: Tx, file: Evidence, content: bytes, actor: Actor) -> Evidence:
    subject = f"{file.dispute_id} {file.name} SHA-256 {file.sha256.hex()}"
    # The audit log is locked before the dispute, as in every command of the operator.
    await merchants.record_audit(tx, actor, "disputes evidence", file.merchant_id, subject, file.at)
    key = {"merchant_id": file.merchant_id, "id": file.dispute_id}
    dispute = or_not_found(await queries.LOCKED.first(tx, **key))
    files = await list_evidence(tx, dispute)
    if any(stored.sha256 == file.sha256 for stored in files):
        raise _UploadedMeanwhile
    if not dispute.takes_evidence:
        raise EvidenceRefused("accepted" if dispute.status == "OPEN" else "closed")
    if len(files) >= MAX_FILES:
        raise EvidenceRefused("many")
    await queries.TOUCH.run(tx, **key, now=file.at)
    used = {stored.number for stored in files}
    number = next(number for number in range(1, MAX_FILES + 1) if number not in used)
    numbered = msgspec.structs.replace(file, number=number)
    return await queries.ADD_EVIDENCE.one(tx, numbered, content=content)


async def remove_evidence(
    tx: Tx, merchant_id: str, dispute_id: str, evidence_id: str, *, actor: Actor, now: int
) -> None:
    """Remove a file of a dispute without a response, and record it in the audit log.

    Raises EvidenceRefused, and NotFound for a file that is not there or no longer.
    """
    key = {"merchant_id": merchant_id, "id": dispute_id}
    dispute = or_not_found(await queries.BY_ID.first(tx, **key))
    files = await list_evidence(tx, dispute)
    file = or_not_found(next((file for file in files if file.id == evidence_id), None))
    subject = f"{dispute_id} {file.name} SHA-256 {file.sha256.hex()}"
    # The audit log is locked before the dispute, as in every command of the operator.
    await merchants.record_audit(tx, actor, "disputes evidence removed", merchant_id, subject, now)
    dispute = or_not_found(await queries.LOCKED.first(tx, **key))
    if file not in await list_evidence(tx, dispute):
        raise NotFound
    if not dispute.may_remove_evidence:
        raise EvidenceRefused("responded")
    await queries.REMOVE_EVIDENCE.run(tx, merchant_id=merchant_id, id=evidence_id)
    await queries.TOUCH.run(tx, **key, now=now)
