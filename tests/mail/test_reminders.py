"""Approvals and dispute deadlines are mailed once to the people who can act, in their language."""

from decimal import Decimal

import msgspec
import pytest

from opentill import adjustments, disputes, payouts, people
from opentill.adjustments import AdjustmentRequest
from opentill.core.languages import Language
from opentill.db.database import Db, Tx
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from opentill.merchants import Actor
from opentill.orders import Order
from opentill.payouts import PayoutRequest
from opentill.people import queries as people_queries
from support import payout_runs, world
from support.mailing import mail_settings

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
DAY_MS = 86_400_000


async def _create_person(tx: Tx, name: str, language: Language | None = None) -> str:
    person = people.Person(
        id=f"per_{name:0>26}", email=f"{name}@example.com", name=name, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        language=language,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    return person.id


async def _create_staff(tx: Tx, role: people.StaffRole, language: Language | None = None) -> str:
    """Create a person with a staff role; return the person's name in the audit log."""
    person_id = await _create_person(tx, role, language)
    await people_queries.SET_STAFF.run(tx, person_id=person_id, role=role, now=NOW)
    return people.named(f"{role}@example.com", person_id)


async def _sorted_mails(db: Db) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return sorted(mails, key=lambda mail: (mail.topic, mail.cause, mail.recipient))


async def test_an_approval_is_mailed_once_to_all_approvers_but_its_requester(db: Db) -> None:
    async def request(tx: Tx, reference: str, requester: str, now: int) -> None:
        adjustment = AdjustmentRequest(
            kind="recharge", amount_minor=5_001, reason="lost", by=requester, reference=reference
        )
        await adjustments.request(tx, shop, adjustment, Decimal(50), now)

    async def prepare(tx: Tx) -> str:
        admin = await _create_staff(tx, "admin")
        await _create_staff(tx, "finance", "zh-Hans")
        await _create_staff(tx, "support")
        return admin

    shop = (await db.run(world.create_merchant)).id
    admin = await db.run(prepare)
    await db.run(lambda tx: request(tx, "before", "root", NOW - 1))
    queued = await jobs.queue_approval_reminders(db, SETTINGS, NOW)
    assert queued == 0, "the request is older than the mail settings"
    await db.run(lambda tx: request(tx, "own", admin, NOW))
    payout = PayoutRequest(
        amount_minor=9_900, fee_minor=0, reference="p", reason="weekly", by="root"
    )
    await db.run(lambda tx: payouts.request(tx, shop, payout, Decimal(50), NOW))
    assert await jobs.queue_approval_reminders(db, SETTINGS, NOW + 1) == 3
    assert await jobs.queue_approval_reminders(db, SETTINGS, NOW + 2) == 0
    mails = await _sorted_mails(db)
    assert [(mail.recipient, mail.language, '"payout"' in mail.data) for mail in mails] == [
        ("finance@example.com", "zh-Hans", False),
        ("admin@example.com", "en", True),
        ("finance@example.com", "zh-Hans", True),
    ]
    assert await jobs.queue_approval_reminders(db, SETTINGS, NOW + 2 * DAY_MS) == 0


async def test_a_run_above_the_limit_is_mailed_to_those_who_may_take_its_file(db: Db) -> None:
    admin = await db.run(lambda tx: _create_staff(tx, "admin"))
    await db.run(lambda tx: _create_staff(tx, "finance"))
    await db.run(lambda tx: _create_staff(tx, "support"))
    settings = msgspec.structs.replace(SETTINGS, approval_above=Decimal(50))
    assert await jobs.queue_approval_reminders(db, settings, NOW - 1) == 0
    await db.run(payout_runs.create_payee)
    view = await payout_runs.complete_run(
        db, payout_runs.new_reference(), actor=Actor(admin, "weekly")
    )
    run = view.run
    for above, mails in ((None, 0), (Decimal(500), 0), (Decimal(50), 1), (Decimal(50), 0)):
        settings = msgspec.structs.replace(SETTINGS, approval_above=above)
        assert await jobs.queue_approval_reminders(db, settings, run.created_at + 1) == mails
    (mail,) = await _sorted_mails(db)
    assert (mail.recipient, run.id in mail.data, run.reference in mail.data) == (
        "finance@example.com",
        True,
        True,
    )


@pytest.fixture
async def disputed_order(db: Db) -> Order:
    """An order whose dispute needs a response in ten days; its shop has a member of support.

    The staff are an administrator and an auditor.
    """

    async def create_data(tx: Tx) -> Order:
        await _create_staff(tx, "admin", "zh-Hant")
        await _create_staff(tx, "auditor")
        order = await world.create_order_in(tx, "PAID")
        await world.report_dispute(tx, order, "OPENED", respond_by=NOW + 10 * DAY_MS)
        member, shop = await _create_person(tx, "s"), order.merchant_id
        await people_queries.SET_MEMBER.run(
            tx, merchant_id=shop, person_id=member, role="support", now=NOW
        )
        return order

    order = await db.run(create_data)
    await jobs.find_start(db, NOW)
    return order


async def _remind(db: Db, days: float) -> int:
    """Queue reminders this many days before the deadline; return the number of mails."""
    return await jobs.queue_deadline_reminders(db, SETTINGS, NOW + int((10 - days) * DAY_MS))


async def test_merchant_and_staff_are_reminded_three_days_and_one_day_before_a_deadline(
    db: Db, disputed_order: Order
) -> None:
    days_before = (3.1, 3, 2.5, 1.1, 1, 0.5, 0, -1)
    assert [await _remind(db, days) for days in days_before] == [0, 2, 0, 0, 2, 0, 0, 0]
    mails = await _sorted_mails(db)
    assert [(mail.topic, mail.recipient, mail.language) for mail in mails] == [
        *(("dispute_deadline", "s@example.com", "en"),) * 2,
        *(("dispute_deadline_staff", "admin@example.com", "zh-Hant"),) * 2,
    ]
    assert {mail.merchant_id for mail in mails} == {"", disputed_order.merchant_id}


async def test_a_side_that_has_responded_gets_no_reminder_and_a_decided_dispute_sends_none(
    db: Db, disputed_order: Order
) -> None:
    (dispute,) = await db.run(
        lambda tx: disputes.list_for_order(tx, disputed_order.merchant_id, disputed_order.id)
    )
    ids = (dispute.merchant_id, dispute.id)
    await db.run(lambda tx: disputes.add_note(tx, *ids, "It was sent.", "s", NOW, by_merchant=True))
    assert await _remind(db, 3) == 1
    (reminder,) = await _sorted_mails(db)
    assert (reminder.topic, '"responded":true' in reminder.data) == ("dispute_deadline_staff", True)
    await db.run(lambda tx: disputes.respond(tx, *ids, "CONTESTED", who="s", now=NOW))
    await db.run(lambda tx: disputes.record_forwarding(tx, *ids, "by email", NOW))
    assert await _remind(db, 1) == 0
    later = NOW + 20 * DAY_MS
    await db.run(lambda tx: disputes.set_deadline(tx, *ids, later, NOW))
    await db.run(
        lambda tx: disputes.add_note(tx, *ids, "And more.", "s", NOW + 1, by_merchant=True)
    )
    assert await _remind(db, -7) == 1, "three days before the new deadline"
    await db.run(lambda tx: world.report_dispute(tx, disputed_order, "WON"))
    assert await _remind(db, -9) == 0, "the dispute is decided"


@pytest.mark.usefixtures("disputed_order")
async def test_a_reminder_that_was_due_before_a_restore_is_not_repeated(db: Db) -> None:
    await db.run(lambda tx: queries.SKIP_UNREAD.run(tx, now=NOW + 8 * DAY_MS))
    assert [await _remind(db, days) for days in (2, 1.5, 1)] == [0, 0, 2]
