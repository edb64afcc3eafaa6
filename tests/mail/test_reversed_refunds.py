"""A customer who was told of a refund is told when its money came back to the shop."""

from typing import Literal

import msgspec
import pytest

from opentill import orders, refunds
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail, Preferences
from opentill.orders import Order, Payer
from opentill.refunds import Refund
from support import world
from support.mailing import mail_settings

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
LANGUAGES = ("en", "zh-Hans", "zh-Hant")


async def _pay(tx: Tx, order: Order, locale: str) -> Order:
    locked = await orders.lock(tx, order.merchant_id, order.id)
    payer = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale=locale)
    attempt = await orders.start_attempt(tx, locked, "sandbox", "CREDIT_CARD", payer, NOW)
    await world.report_payment(
        tx, attempt, "SUCCEEDED", NOW, amount=Money(order.amount_minor, order.currency)
    )
    return await orders.find(tx, order.merchant_id, order.id)


async def _refund(db: Db, locale: str = "en") -> tuple[Order, Refund]:
    """Pay an order and refund 1.00 of it, and read the events for mail."""
    order = await db.run(world.create_order)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    paid = await db.run(lambda tx: _pay(tx, order, locale))
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    return paid, refund


async def _reverse(db: Db, refund: Refund) -> None:
    """Report twice that the refund's money came back."""
    for _ in range(2):
        outcome = RefundOutcome(status="REFUSED", reason="account closed")
        await db.run(
            lambda tx, outcome=outcome: refunds.apply_outcome(
                tx,
                refund.merchant_id,
                refund.id,
                outcome,
                NOW,
                gateway="sandbox",
                attempt_id=refund.attempt_id,
            )
        )


async def _to_customer(db: Db) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return [mail for mail in mails if mail.recipient == "ann@example.com"]


async def _end_mails(db: Db, status: Literal["SENT", "FAILED", "UNKNOWN"]) -> None:
    """Let the mails that wait have been sent, or not."""

    async def work(tx: Tx) -> None:
        await tx.execute(
            "update mails set status = $1, due_at = null where status = 'WAITING'", status
        )

    await db.run(work)


@pytest.mark.parametrize("locale", LANGUAGES)
@pytest.mark.parametrize("status", ["SENT", "UNKNOWN"])
async def test_a_customer_who_was_told_of_a_refund_is_told_that_it_came_back(
    db: Db, locale: str, status: Literal["SENT", "UNKNOWN"]
) -> None:
    paid, refund = await _refund(db, locale)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, status)
    await _reverse(db, refund)
    for _ in range(2):
        await jobs.queue_event_mails(db, SETTINGS, NOW)
    (mail,) = [mail for mail in await _to_customer(db) if mail.topic == "refund_failed"]
    assert (mail.language, mail.order_id, mail.status) == (locale, paid.id, "WAITING")
    content = msgspec.json.decode(mail.data)
    assert content["amount"] == [100, "USD"]
    assert content["shop"]


@pytest.mark.parametrize("is_read", [True, False], ids=["waits", "not read yet"])
async def test_a_customer_who_was_not_told_yet_is_told_neither(db: Db, *, is_read: bool) -> None:
    _, refund = await _refund(db)
    if is_read:
        await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _reverse(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    waiting = [mail.topic for mail in await _to_customer(db) if mail.status == "WAITING"]
    assert waiting == ["receipt"]


async def test_a_customer_whose_mail_of_the_refund_failed_is_not_written_to(db: Db) -> None:
    _, refund = await _refund(db)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "FAILED")
    await _reverse(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    assert [mail.topic for mail in await _to_customer(db)] == ["refund", "receipt"]


async def test_a_merchant_that_sends_no_mails_of_refunds_sends_none_of_their_failure(
    db: Db,
) -> None:
    paid, refund = await _refund(db)
    preferences = Preferences(merchant_id=paid.merchant_id, refunds=False)
    await db.run(lambda tx: queries.SET_PREFERENCES.run(tx, preferences))
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "SENT")
    await _reverse(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    assert [mail.topic for mail in await _to_customer(db)] == ["receipt"]


async def test_only_the_refund_that_came_back_is_told(db: Db) -> None:
    paid, refund = await _refund(db)
    other = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, other, "SUCCEEDED"))
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "SENT")
    await _reverse(db, other)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    (mail,) = [mail for mail in await _to_customer(db) if mail.topic == "refund_failed"]
    assert msgspec.json.decode(mail.data)["refund_id"] == other.id != refund.id
