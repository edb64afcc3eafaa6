"""Events and audit entries become mails: each once, and none that is switched off."""

import asyncio

import msgspec
import pytest

from mail.triggered_mails import (
    HOUR_MS,
    NOW,
    SETTINGS,
    add_member,
    create_order,
    pay,
    queue_mails,
    read_mails,
)
from opentill import mail, merchants, payouts, people, refunds, webhooks
from opentill.core.money import Money
from opentill.db import rate_limits
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from support import world
from support.payout_runs import IBAN
from support.people import TESTER


async def test_a_payment_queues_one_receipt_in_the_language_of_its_customer(db: Db) -> None:
    order = await create_order(db)
    assert await queue_mails(db) == 0
    await db.run(lambda tx: pay(tx, order, "zh-Hant"))
    assert sum(await asyncio.gather(*(queue_mails(db) for _ in range(3)))) == 1
    assert await queue_mails(db) == 0
    async with db.connection() as tx:
        (receipt,) = await read_mails(tx)
    assert (receipt.topic, receipt.recipient, receipt.language) == (
        "receipt",
        "ann@example.com",
        "zh-Hant",
    )
    assert (receipt.merchant_id, receipt.order_id, receipt.status) == (
        order.merchant_id,
        order.id,
        "WAITING",
    )
    content = msgspec.json.decode(receipt.data)
    assert content["amount"] == [999, "USD"]
    assert content["session_id"] == order.checkout_id


async def test_an_event_from_before_the_first_run_or_older_than_a_day_is_not_mailed(
    db: Db,
) -> None:
    too_early, too_old, recent = [await create_order(db) for _ in range(3)]
    await db.run(lambda tx: pay(tx, too_early, now=NOW - 1))
    assert await queue_mails(db, NOW) == 0  # events from before the first run are not mailed
    await db.run(lambda tx: pay(tx, too_old, now=NOW + 1))
    await db.run(lambda tx: pay(tx, recent, now=NOW + 25 * HOUR_MS))
    assert await queue_mails(db, NOW + 26 * HOUR_MS) == 1


async def test_a_merchant_switches_off_mails_to_its_customers(db: Db) -> None:
    order, other_order = await create_order(db), await create_order(db)
    await queue_mails(db)
    switches = {"receipts": False, "refunds": True, "digest": False}
    await db.run(
        lambda tx: mail.change_preferences(tx, order.merchant_id, switches, "en", NOW, actor=TESTER)
    )
    for each_order in (order, other_order):
        paid = await db.run(lambda tx, each_order=each_order: pay(tx, each_order))
        refund = await db.run(lambda tx, paid=paid: world.create_refund(tx, paid, "1.00"))
        await db.run(lambda tx, refund=refund: world.report_refund(tx, refund, "SUCCEEDED"))
    await queue_mails(db)
    async with db.connection() as tx:
        mails = await read_mails(tx)
    assert sorted((mail.merchant_id == order.merchant_id, mail.topic) for mail in mails) == [
        (False, "receipt"), (False, "refund"), (True, "refund"),
    ]  # fmt: skip
    assert msgspec.json.decode(mails[0].data)["refunded"] == [100, "USD"]


async def test_the_role_of_a_member_decides_which_mails_it_gets(db: Db) -> None:
    order = await create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await queue_mails(db)
    paid = await db.run(lambda tx: pay(tx, order))
    await db.run(lambda tx: world.report_dispute(tx, paid, "OPENED", respond_by=NOW + HOUR_MS))
    await db.run(lambda tx: merchants.create_key(tx, shop, "production", NOW, actor=TESTER))
    await _change_endpoint(db, shop)
    rule = payouts.HoldRule(SETTINGS.secret_key, 3)
    await db.run(lambda tx: payouts.change_account(tx, shop, IBAN, TESTER, rule, NOW))
    for owner in (shop, ""):  # the operator's own accounts are no matter of merchants
        await db.run(
            lambda tx, owner=owner: merchants.record_audit(
                tx, TESTER, "gateways pause", owner, "ga_1: Own (stripe)", NOW
            )
        )
    for _ in range(2):
        await queue_mails(db)
        await jobs.queue_audit_mails(db, SETTINGS, NOW)
    async with db.connection() as tx:
        mails = await read_mails(tx)
    assert sorted((mail.topic, mail.recipient) for mail in mails) == [
        ("account_changed", "finance@example.com"),
        ("account_changed", "owner@example.com"),
        ("dispute_opened", "owner@example.com"),
        ("dispute_opened", "support@example.com"),
        *(
            ("endpoint_changed", f"{role}@example.com")
            for role in ("developer", "developer", "owner", "owner")
        ),
        ("gateway_changed", "finance@example.com"),
        ("gateway_changed", "owner@example.com"),
        ("key_changed", "developer@example.com"),
        ("key_changed", "owner@example.com"),
        ("receipt", "ann@example.com"),
    ]


async def test_members_get_a_mail_when_a_dispute_is_decided(db: Db) -> None:
    order = await create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await queue_mails(db)
    paid = await db.run(lambda tx: pay(tx, order))
    await db.run(lambda tx: world.report_dispute(tx, paid, "OPENED"))
    await queue_mails(db)
    await db.run(lambda tx: world.report_dispute(tx, paid, "LOST"))
    for _ in range(2):
        await queue_mails(db)
    async with db.connection() as tx:
        mails = [mail for mail in await read_mails(tx) if mail.topic == "dispute_closed"]
    assert sorted(mail.recipient for mail in mails) == [
        "finance@example.com",
        "owner@example.com",
        "support@example.com",
    ]
    content = msgspec.json.decode(mails[0].data)
    assert (content["status"], content["order_id"]) == ("LOST", order.id)
    assert content["amount"] == content["debit"] == [999, "USD"]


async def test_members_get_a_mail_when_their_account_is_suspended_or_restored(db: Db) -> None:
    order = await create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in ("owner", "viewer"):
            await add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await jobs.queue_audit_mails(db, SETTINGS, NOW)
    for event in ("suspended", "resumed"):
        await db.run(
            lambda tx, event=event: merchants.change_status(
                tx, shop, event, TESTER, NOW, notes="only staff read this"
            )
        )
    for _ in range(2):
        await jobs.queue_audit_mails(db, SETTINGS, NOW)
    async with db.connection() as tx:
        mails = [mail for mail in await read_mails(tx) if mail.topic == "standing_changed"]
    assert {mail.recipient for mail in mails} == {"owner@example.com"}
    contents = [msgspec.json.decode(mail.data) for mail in mails]
    assert sorted(content["suspended"] for content in contents) == [False, True]
    assert {content["reason"] for content in contents} == {TESTER.reason}
    assert "only staff" not in "".join(mail.data for mail in mails)


async def test_members_get_mails_about_refunds_reversed_or_made_at_the_provider(db: Db) -> None:
    order = await create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await queue_mails(db)
    paid = await db.run(lambda tx: pay(tx, order))
    for status in ("SUCCEEDED", "REFUSED"):
        outcome = RefundOutcome(status=status, provider_ref="rf_1", reason="account closed")
        report = GatewayRefundEvent(
            attempt_id=paid.paid_attempt_id or "",
            refund_id="",
            outcome=outcome,
            amount=Money(200, "USD"),
        )
        await db.run(
            lambda tx, report=report: refunds.apply_report(tx, shop, report, NOW, gateway="sandbox")
        )
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "REFUSED"))
    for _ in range(2):
        await queue_mails(db)
    async with db.connection() as tx:
        mails = await read_mails(tx)
    assert sorted((mail.topic, mail.recipient) for mail in mails) == [
        ("receipt", "ann@example.com"),
        ("refund_at_gateway", "finance@example.com"),
        ("refund_at_gateway", "owner@example.com"),
        ("refund_refused", "finance@example.com"),
        ("refund_refused", "owner@example.com"),
        ("refund_refused", "support@example.com"),
        ("refund_reversed", "finance@example.com"),
        ("refund_reversed", "owner@example.com"),
        ("refund_reversed", "support@example.com"),
    ]


async def _change_endpoint(db: Db, shop: str) -> None:
    """Add an endpoint; change its address, its description and its status."""
    check = webhooks.UrlCheck(lambda _url: None)
    key = SETTINGS.secret_key

    async def create_data(tx: Tx) -> None:
        fields = webhooks.EndpointFields(url="https://hooks.example.com/a")
        endpoint, _ = await webhooks.create(tx, shop, fields, check, key, NOW, actor=TESTER)
        for change in (
            webhooks.EndpointFields(url="https://other.example.com/a"),
            webhooks.EndpointFields(description="Warehouse"),
            webhooks.EndpointFields(status="DISABLED"),
        ):
            await webhooks.update(tx, shop, endpoint.id, change, check, NOW, actor=TESTER)

    await db.run(create_data)


async def test_members_of_a_closed_merchant_get_mails_only_about_their_accounts(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        shop = (await world.create_merchant(tx)).id
        await add_member(tx, shop, "owner", "owner@example.com")
        switches = {"receipts": True, "refunds": True, "digest": True}
        await mail.change_preferences(tx, shop, switches, "en", NOW, actor=TESTER)
        for event in ("suspended", "closed"):
            await merchants.change_status(tx, shop, event, TESTER, NOW)
        return shop

    await jobs.find_start(db, NOW)
    shop = await db.run(prepare)
    morning = NOW - NOW % (24 * HOUR_MS) + 32 * HOUR_MS
    assert await jobs.queue_digests(db, SETTINGS, morning) == 0
    await db.run(lambda tx: merchants.create_key(tx, shop, "production", NOW, actor=TESTER))
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) > 0
    async with db.connection() as tx:
        assert {row.topic for row in await read_mails(tx)} == {"account_change"}
        assert await queries.DIGEST_MERCHANTS.all(tx) == []


async def test_a_receipt_that_a_form_requests_twice_is_sent_once(db: Db) -> None:
    order = await create_order(db)
    paid = await db.run(lambda tx: pay(tx, order))

    async def send_receipt(form: str) -> str:
        ids = (paid.merchant_id, paid.id)
        return (await db.run(lambda tx: mail.send_receipt(tx, SETTINGS, *ids, form, NOW))).id

    mail_id = await send_receipt("form 1")
    assert await send_receipt("form 1") == mail_id != await send_receipt("form 2")
    async with db.connection() as tx:
        assert len(await mail.list_of_order(tx, paid.merchant_id, paid.id)) == 2


async def test_at_most_ten_mails_per_hour_can_be_requested_for_an_address(db: Db) -> None:
    order = await create_order(db)
    paid = await db.run(lambda tx: pay(tx, order))

    async def send(number: int, now: int = NOW) -> Mail:
        return await db.run(
            lambda tx: mail.send_receipt(
                tx, SETTINGS, paid.merchant_id, paid.id, f"form {number}", now
            )
        )

    results = await asyncio.gather(*(send(number) for number in range(14)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, mail.TooManyMails)]
    assert len(refused) == 4
    assert (
        "at most 10 messages per hour can be requested for an address; try again in 60 min"
        in str(refused[0].reason)
    )
    sent_mail = next(result for result in results if isinstance(result, Mail))
    async with db.connection() as tx:
        assert len(await mail.list_of_order(tx, paid.merchant_id, paid.id)) == 10
        await rate_limits.prune(tx, NOW + HOUR_MS // 2)
        await tx.execute("update mails set status = 'SENT', due_at = null")
    with pytest.raises(mail.TooManyMails):
        await db.run(
            lambda tx: mail.resend(
                tx, SETTINGS, paid.merchant_id, sent_mail.id, "x", NOW + HOUR_MS - 1
            )
        )
    assert (await send(20, NOW + HOUR_MS)).status == "WAITING"


async def test_mails_that_ended_90_days_ago_are_pruned(db: Db) -> None:
    order = await create_order(db)
    paid = await db.run(lambda tx: pay(tx, order))
    receipt = await db.run(
        lambda tx: mail.send_receipt(tx, SETTINGS, paid.merchant_id, paid.id, "one", NOW)
    )
    async with db.connection() as tx:
        assert await jobs.prune(tx, NOW + 91 * 24 * HOUR_MS) == 0  # the mail has not been sent
        await queries.CLAIM.all(tx, now=NOW, lease_until=NOW, limit=1)
        await queries.EXPIRE_LEASES.run(tx, now=NOW, result="unknown", limit=1)
        assert (await outbox.find(tx, paid.merchant_id, receipt.id)).status == "UNKNOWN"
        assert await jobs.prune(tx, NOW + 91 * 24 * HOUR_MS) == 1


@pytest.mark.parametrize("topic", mail.TOPICS, ids=lambda topic: topic.name)
def test_the_mail_page_has_a_row_for_every_topic_of_merchants(topic: mail.Topic) -> None:
    from opentill.console.labels import STAFF_MAIL_TOPIC
    from opentill.portal.labels import MAIL_TOPIC

    of_people = {"test", "factors_waiting", "application"}
    without_row = of_people | {row.name for row in mail.TOPICS if row.staff}
    assert (topic.name in MAIL_TOPIC) == (topic.name not in without_row)
    assert (topic.name in STAFF_MAIL_TOPIC) == (topic.name in without_row)
