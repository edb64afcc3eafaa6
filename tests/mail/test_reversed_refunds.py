"""A customer who got a mail about a refund gets another if the refund is reversed."""

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


async def _pay_and_refund(db: Db, locale: str = "en") -> tuple[Order, Refund]:
    """Pay an order and refund 1.00 of it."""
    order = await db.run(world.create_order)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    paid = await db.run(lambda tx: _pay(tx, order, locale))
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    return paid, refund


async def _reverse_twice(db: Db, refund: Refund) -> None:
    """Report twice that the refund was reversed."""
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


async def _customers_mails(db: Db) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return [mail for mail in mails if mail.recipient == "ann@example.com"]


async def _end_mails(db: Db, status: Literal["SENT", "FAILED", "UNKNOWN"]) -> None:
    """Give all waiting mails a final status."""

    async def create_data(tx: Tx) -> None:
        await tx.execute(
            "update mails set status = $1, due_at = null where status = 'WAITING'", status
        )

    await db.run(create_data)


@pytest.mark.parametrize("locale", LANGUAGES)
@pytest.mark.parametrize("status", ["SENT", "UNKNOWN"])
async def test_a_reversed_refund_is_mailed_to_a_customer_who_got_a_mail_about_it(
    db: Db, locale: str, status: Literal["SENT", "UNKNOWN"]
) -> None:
    paid, refund = await _pay_and_refund(db, locale)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, status)
    await _reverse_twice(db, refund)
    for _ in range(2):
        await jobs.queue_event_mails(db, SETTINGS, NOW)
    (mail,) = [mail for mail in await _customers_mails(db) if mail.topic == "refund_failed"]
    assert (mail.language, mail.order_id, mail.status) == (locale, paid.id, "WAITING")
    content = msgspec.json.decode(mail.data)
    assert content["amount"] == [100, "USD"]
    assert content["shop"]


@pytest.mark.parametrize("is_queued", [True, False], ids=["queued", "event not read yet"])
async def test_a_refund_that_is_reversed_before_its_mail_is_sent_causes_no_mail(
    db: Db, *, is_queued: bool
) -> None:
    _, refund = await _pay_and_refund(db)
    if is_queued:
        await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _reverse_twice(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    waiting = [mail.topic for mail in await _customers_mails(db) if mail.status == "WAITING"]
    assert waiting == ["receipt"]


async def test_a_reversed_refund_whose_mail_failed_causes_no_mail(db: Db) -> None:
    _, refund = await _pay_and_refund(db)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "FAILED")
    await _reverse_twice(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    assert [mail.topic for mail in await _customers_mails(db)] == ["refund", "receipt"]


async def test_a_merchant_without_refund_mails_sends_none_about_reversed_refunds(db: Db) -> None:
    paid, refund = await _pay_and_refund(db)
    preferences = Preferences(merchant_id=paid.merchant_id, refunds=False)
    await db.run(lambda tx: queries.SET_PREFERENCES.run(tx, preferences))
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "SENT")
    await _reverse_twice(db, refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    assert [mail.topic for mail in await _customers_mails(db)] == ["receipt"]


async def test_only_the_reversed_refund_of_an_order_is_mailed(db: Db) -> None:
    paid, refund = await _pay_and_refund(db)
    reversed_refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, reversed_refund, "SUCCEEDED"))
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    await _end_mails(db, "SENT")
    await _reverse_twice(db, reversed_refund)
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    (mail,) = [mail for mail in await _customers_mails(db) if mail.topic == "refund_failed"]
    assert msgspec.json.decode(mail.data)["refund_id"] == reversed_refund.id != refund.id
