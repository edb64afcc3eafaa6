"""Acceptances of the agreement: one per version and merchant, stored permanently."""

from opentill import merchants
from opentill.agreement import queries
from opentill.agreement.model import Acceptance, AcceptedBy, Agreement, AgreementStatus
from opentill.core.errors import Invalid, NotPermitted
from opentill.db.database import Tx
from opentill.merchants import Actor

_LONGEST_DEVICE = 300
_DIGEST = "renderedDocumentSha256"


async def accept(
    tx: Tx, merchant_id: str, document: Agreement, digest: str, by: AcceptedBy, now: int
) -> Acceptance:
    """Accept a version for a merchant. Idempotent: the first acceptance is kept.

    ``digest`` is the ``renderedDocumentSha256`` of the text that the person read. Raises Invalid if
    the agreement in force is another one, and NotFound.
    """
    if digest != document.rendered_document_sha256:
        reason = f"{_DIGEST} must be of the agreement in force: read it again"
        raise Invalid(_DIGEST, reason)
    await merchants.lock(tx, merchant_id)
    new = Acceptance(
        merchant_id=merchant_id,
        agreement_version=document.agreement_version,
        template_sha256=document.template_sha256,
        document_sha256=document.rendered_document_sha256,
        person_id=by.person_id,
        person=f"{by.name} <{by.email}>",
        accepted_at=now,
        address=by.address,
        device=by.device[:_LONGEST_DEVICE],
    )
    if await queries.INSERT.run(tx, new):
        actor = Actor(f"{by.email} ({by.person_id})", "as an owner")
        subject = f"version {new.agreement_version} {new.document_sha256}"
        await merchants.record_audit(tx, actor, "agreement accept", merchant_id, subject, now)
    return await queries.ACCEPTED.one(
        tx, merchant_id=merchant_id, agreement_version=new.agreement_version
    )


async def require(tx: Tx, merchant_id: str) -> None:
    """Raise NotPermitted unless a merchant has accepted any version (decision 0075)."""
    if not await queries.ANY.get(tx, merchant_id=merchant_id):
        reason = (
            "agreement must be accepted before payments can be taken: an owner of the merchant "
            "does that in the dashboard"
        )
        raise NotPermitted("agreement", reason)


async def acceptances(tx: Tx, merchant_id: str) -> list[Acceptance]:
    """Return a merchant's acceptances, newest first."""
    return await queries.ALL.all(tx, merchant_id=merchant_id)


def status(document: Agreement, accepted: list[Acceptance]) -> AgreementStatus:
    """Return whether the version in force, an earlier version or no version is accepted."""
    if not accepted:
        return "NONE"
    versions = {acceptance.agreement_version for acceptance in accepted}
    return "ACCEPTED" if document.agreement_version in versions else "OUTDATED"
