"""What waits for somebody is mailed to whom it waits for, once, in the language that they read."""

from decimal import Decimal

import pytest

from opentill import adjustments, disputes, payouts, people
from opentill.adjustments import AdjustmentRequest
from opentill.db.database import Db, Tx
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from opentill.orders import Order
from opentill.payouts import PayoutRequest
from opentill.people import queries as people_queries
from support import world
from support.mailing import mail_settings

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
DAY_MS = 86_400_000


async def _person(tx: Tx, name: str, language: people.model.Language | None = None) -> str:
    person = people.Person(
        id=f"per_{name:0>26}", email=f"{name}@example.com", name=name, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        language=language,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    return person.id


async def _staff(
    tx: Tx, role: people.StaffRole, language: people.model.Language | None = None
) -> str:
    """Make somebody of the staff; return what the audit log calls them."""
    person_id = await _person(tx, role, language)
    await people_queries.SET_STAFF.run(tx, person_id=person_id, role=role, now=NOW)
    return people.named(f"{role}@example.com", person_id)


async def _mails(db: Db) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return sorted(mails, key=lambda one: (one.topic, one.cause, one.recipient))


async def test_what_needs_a_second_person_is_mailed_once_and_not_to_who_asked(db: Db) -> None:
    async def ask(tx: Tx, reference: str, who: str, now: int) -> None:
        adjustment = AdjustmentRequest(
            kind="recharge", amount_minor=5_001, reason="lost", by=who, reference=reference
        )
        await adjustments.request(tx, shop, adjustment, Decimal(50), now)

    async def prepare(tx: Tx) -> str:
        admin = await _staff(tx, "admin")
        await _staff(tx, "finance", "zh-Hans")
        await _staff(tx, "support")
        return admin

    shop = (await db.run(world.create_merchant)).id
    admin = await db.run(prepare)
    await db.run(lambda tx: ask(tx, "before", "root", NOW - 1))
    assert (
        await jobs.queue_approval_reminders(db, SETTINGS, NOW) == 0
    )  # it waited before there was mail
    await db.run(lambda tx: ask(tx, "own", admin, NOW))
    big = PayoutRequest(amount_minor=9_900, fee_minor=0, reference="p", reason="weekly", by="root")
    await db.run(lambda tx: payouts.request(tx, shop, big, Decimal(50), NOW))
    queued = [await jobs.queue_approval_reminders(db, SETTINGS, NOW + wait) for wait in (1, 2)]
    assert queued == [3, 0]
    assert [(one.recipient, one.language, '"payout"' in one.data) for one in await _mails(db)] == [
        ("finance@example.com", "zh-Hans", False),
        ("admin@example.com", "en", True),
        ("finance@example.com", "zh-Hans", True),
    ]
    assert await jobs.queue_approval_reminders(db, SETTINGS, NOW + 2 * DAY_MS) == 0


@pytest.fixture
async def disputed(db: Db) -> Order:
    """A paid order with a dispute that ends in ten days, a member who responds, and staff."""

    async def work(tx: Tx) -> Order:
        await _staff(tx, "admin", "zh-Hant")
        await _staff(tx, "auditor")
        order = await world.create_order_in(tx, "PAID")
        await world.report_dispute(tx, order, "OPENED", respond_by=NOW + 10 * DAY_MS)
        member, shop = await _person(tx, "s"), order.merchant_id
        await people_queries.SET_MEMBER.run(
            tx, merchant_id=shop, person_id=member, role="support", now=NOW
        )
        return order

    order = await db.run(work)
    await jobs.find_start(db, NOW)
    return order


async def _at(db: Db, days: float) -> int:
    """Look so many days before the deadline, and return how many were reminded."""
    return await jobs.queue_deadline_reminders(db, SETTINGS, NOW + int((10 - days) * DAY_MS))


async def test_three_days_and_one_day_before_a_deadline_both_sides_are_reminded(
    db: Db, disputed: Order
) -> None:
    looks = (3.1, 3, 2.5, 1.1, 1, 0.5, 0, -1)
    assert [await _at(db, days) for days in looks] == [0, 2, 0, 0, 2, 0, 0, 0]
    assert [(one.topic, one.recipient, one.language) for one in await _mails(db)] == [
        *(("dispute_deadline", "s@example.com", "en"),) * 2,
        *(("dispute_deadline_staff", "admin@example.com", "zh-Hant"),) * 2,
    ]
    assert {one.merchant_id for one in await _mails(db)} == {"", disputed.merchant_id}


async def test_who_has_responded_is_not_reminded_nor_anybody_of_what_is_decided(
    db: Db, disputed: Order
) -> None:
    (dispute,) = await db.run(
        lambda tx: disputes.list_for_order(tx, disputed.merchant_id, disputed.id)
    )
    ids = (dispute.merchant_id, dispute.id)
    await db.run(lambda tx: disputes.add_note(tx, *ids, "It was sent.", "s", NOW, by_merchant=True))
    assert await _at(db, 3) == 1
    (sent_on,) = await _mails(db)
    assert (sent_on.topic, '"responded":true' in sent_on.data) == ("dispute_deadline_staff", True)
    await db.run(lambda tx: disputes.add_note(tx, *ids, "Sent to the bank.", "admin", NOW))
    assert await _at(db, 1) == 0
    # A new deadline is one to remind of; a dispute that is decided has none.
    later = NOW + 20 * DAY_MS
    await db.run(lambda tx: disputes.set_deadline(tx, *ids, later, NOW))
    await db.run(
        lambda tx: disputes.add_note(tx, *ids, "And more.", "s", NOW + 1, by_merchant=True)
    )
    assert await _at(db, -7) == 1
    await db.run(lambda tx: world.report_dispute(tx, disputed, "WON"))
    assert await _at(db, -9) == 0


async def test_what_was_due_before_a_restore_is_not_mailed_again(db: Db, disputed: Order) -> None:
    del disputed
    await db.run(lambda tx: queries.SKIP_UNREAD.run(tx, now=NOW + 8 * DAY_MS))
    assert [await _at(db, days) for days in (2, 1.5, 1)] == [0, 0, 2]
