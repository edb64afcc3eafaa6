"""Staff get one mail when a merchant contests or accepts a dispute, and see it until they act."""

import msgspec
import pytest

from opentill import disputes, merchants, people
from opentill.core.errors import Invalid
from opentill.core.languages import Language
from opentill.db.database import Db, Tx
from opentill.disputes import Dispute, Response
from opentill.mail import jobs, outbox
from opentill.mail.model import DisputeResponseContent, Mail
from opentill.people import queries as people_queries
from support import world
from support.mailing import mail_settings

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
DAY_MS = 86_400_000


async def _create_staff(tx: Tx, role: people.StaffRole, language: Language) -> None:
    person = people.Person(
        id=f"per_{role:0>26}", email=f"{role}@example.com", name=role, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        language=language,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    await people_queries.SET_STAFF.run(tx, person_id=person.id, role=role, now=NOW)


@pytest.fixture
async def dispute(db: Db) -> Dispute:
    """An open dispute, after mail was set up; the staff have all roles."""

    async def create_data(tx: Tx) -> Dispute:
        await _create_staff(tx, "admin", "en")
        await _create_staff(tx, "support", "zh-Hans")
        await _create_staff(tx, "finance", "en")
        await _create_staff(tx, "auditor", "en")
        order = await world.create_order_in(tx, "PAID")
        await world.report_dispute(tx, order, "OPENED", respond_by=NOW + 10 * DAY_MS)
        (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
        return dispute

    dispute = await db.run(create_data)
    await jobs.find_start(db, NOW)
    return dispute


async def _respond(db: Db, dispute: Dispute, response: Response, now: int = NOW) -> None:
    """Respond as the page of the dispute does: with an entry in the audit log."""
    actor = merchants.Actor(people.named("ann@example.com", "per_1"), "on the page of a dispute")

    async def work(tx: Tx) -> None:
        ids = dispute.merchant_id, dispute.id
        subject = f"{dispute.id} {response}"
        await merchants.record_audit(tx, actor, "disputes respond", ids[0], subject, now)
        await disputes.respond(tx, *ids, response, who=actor.who, now=now)

    await db.run(work)


async def _response_mails(db: Db) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return sorted(
        (mail for mail in mails if mail.topic == "dispute_response"),
        key=lambda mail: (mail.cause, mail.recipient),
    )


def _content(mail: Mail) -> DisputeResponseContent:
    return msgspec.json.decode(mail.data, type=DisputeResponseContent)


async def test_staff_who_decide_disputes_get_one_mail_for_each_response(
    db: Db, dispute: Dispute
) -> None:
    await _respond(db, dispute, "CONTESTED")
    for _ in range(2):  # the second run finds nothing new
        await jobs.queue_audit_mails(db, SETTINGS, NOW + 1)
    mails = await _response_mails(db)
    assert [(mail.recipient, mail.language) for mail in mails] == [
        ("admin@example.com", "en"),
        ("support@example.com", "zh-Hans"),
    ]
    content = _content(mails[0])
    assert (content.response, content.who, content.files) == ("CONTESTED", "ann@example.com", 0)
    assert (content.dispute_id, content.amount) == (
        dispute.id,
        (dispute.amount_minor, dispute.currency),
    )
    await _respond(db, dispute, "ACCEPTED", NOW + 2)
    await jobs.queue_audit_mails(db, SETTINGS, NOW + 3)
    mails = await _response_mails(db)
    assert [_content(mail).response for mail in mails] == ["CONTESTED"] * 2 + ["ACCEPTED"] * 2


async def test_a_response_that_is_outdated_when_it_is_read_causes_no_mail(
    db: Db, dispute: Dispute
) -> None:
    await _respond(db, dispute, "CONTESTED")
    await _respond(db, dispute, "ACCEPTED", NOW + 1)
    await jobs.queue_audit_mails(db, SETTINGS, NOW + 2)
    assert {_content(mail).response for mail in await _response_mails(db)} == {"ACCEPTED"}


async def test_a_decided_dispute_causes_no_mail(db: Db, dispute: Dispute) -> None:
    await _respond(db, dispute, "CONTESTED")
    ids = dispute.merchant_id, dispute.id
    await db.run(
        lambda tx: disputes.decide(tx, *ids, "won", who="op", reason="the bank", now=NOW + 1)
    )
    await jobs.queue_audit_mails(db, SETTINGS, NOW + 2)
    assert await _response_mails(db) == []


async def test_a_response_waits_until_staff_record_that_they_forwarded_it(
    db: Db, dispute: Dispute
) -> None:
    async def waiting() -> list[str]:
        async with db.connection() as tx:
            return [row.id for row in await disputes.list_unforwarded(tx, 10)]

    ids = dispute.merchant_id, dispute.id
    assert await waiting() == [], "the merchant has not responded"
    await db.run(lambda tx: disputes.add_note(tx, *ids, "Please respond.", "op", NOW - 1))
    await _respond(db, dispute, "CONTESTED")
    assert await waiting() == [dispute.id]
    await db.run(lambda tx: disputes.add_note(tx, *ids, "Which parcel service?", "op", NOW + 1))
    assert await waiting() == [dispute.id], "a note forwards nothing"
    await db.run(lambda tx: disputes.record_forwarding(tx, *ids, "by email", NOW + 1))
    assert await waiting() == []
    with pytest.raises(Invalid):
        await db.run(lambda tx: disputes.record_forwarding(tx, *ids, "again", NOW + 1))
    await db.run(
        lambda tx: disputes.add_note(tx, *ids, "One more.", "ann", NOW + 2, by_merchant=True)
    )
    assert await waiting() == [dispute.id], "the merchant added something after the note"
    await db.run(
        lambda tx: disputes.decide(tx, *ids, "won", who="op", reason="the bank", now=NOW + 3)
    )
    assert await waiting() == []
