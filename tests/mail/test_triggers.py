"""Events, audit entries and logins become mails: each once, and none that is switched off."""

import asyncio
from types import SimpleNamespace
from typing import Any

import asyncpg
import msgspec
import pytest

from opentill import figures, mail, merchants, orders, payouts, people, refunds, webhooks
from opentill.core.money import Money
from opentill.db import rate_limits
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.mail import jobs, outbox, queries
from opentill.mail.model import Mail
from opentill.orders import Order, Payer
from opentill.people import Browser, logins
from opentill.people import queries as people_queries
from opentill.people.model import digest
from support import world
from support.mailing import mail_settings
from support.payout_runs import IBAN
from support.people import TESTER

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
HOUR_MS = 3_600_000


async def _mails(tx: Tx) -> list[Mail]:
    return await outbox.list_newest(tx, None, None, 100)


async def _queue_mails(db: Db, now: int = NOW) -> int:
    return await jobs.queue_event_mails(db, SETTINGS, now)


async def _create_order(db: Db) -> Order:
    return await db.run(world.create_order)


async def _pay(tx: Tx, order: Order, locale: str = "en", now: int = NOW) -> Order:
    locked = await orders.lock(tx, order.merchant_id, order.id)
    payer = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale=locale)
    attempt = await orders.start_attempt(tx, locked, "sandbox", "CREDIT_CARD", payer, now)
    await world.report_payment(
        tx, attempt, "SUCCEEDED", now, amount=Money(order.amount_minor, order.currency)
    )
    return await orders.find(tx, order.merchant_id, order.id)


async def _add_member(tx: Tx, merchant_id: str, role: people.MerchantRole, email: str) -> None:
    invitation = await people.invite(
        tx, email, NOW, merchant_id=merchant_id, role=role, actor=TESTER
    )
    person = people.Person(
        id=f"per_{email.partition('@')[0]:0>26}", email=email, name=role, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        confirmed=True,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    login = await people.begin(tx, person, Browser("192.0.2.1", "Testfox/1.0"), NOW)
    login_row = await people_queries.LOGIN.first(tx, token_sha256=digest(login.token))
    assert login_row is not None
    await people.accept(tx, invitation.token, login_row, NOW)


async def test_a_payment_queues_one_receipt_in_the_language_of_its_customer(db: Db) -> None:
    order = await _create_order(db)
    assert await _queue_mails(db) == 0
    await db.run(lambda tx: _pay(tx, order, "zh-Hant"))
    assert sum(await asyncio.gather(*(_queue_mails(db) for _ in range(3)))) == 1
    assert await _queue_mails(db) == 0
    async with db.connection() as tx:
        (receipt,) = await _mails(tx)
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
    too_early, too_old, recent = [await _create_order(db) for _ in range(3)]
    await db.run(lambda tx: _pay(tx, too_early, now=NOW - 1))
    assert await _queue_mails(db, NOW) == 0  # events from before the first run are not mailed
    await db.run(lambda tx: _pay(tx, too_old, now=NOW + 1))
    await db.run(lambda tx: _pay(tx, recent, now=NOW + 25 * HOUR_MS))
    assert await _queue_mails(db, NOW + 26 * HOUR_MS) == 1


async def test_a_merchant_switches_off_mails_to_its_customers(db: Db) -> None:
    order, other_order = await _create_order(db), await _create_order(db)
    await _queue_mails(db)
    switches = {"receipts": False, "refunds": True, "digest": False}
    await db.run(
        lambda tx: mail.change_preferences(tx, order.merchant_id, switches, "en", NOW, actor=TESTER)
    )
    for each_order in (order, other_order):
        paid = await db.run(lambda tx, each_order=each_order: _pay(tx, each_order))
        refund = await db.run(lambda tx, paid=paid: world.create_refund(tx, paid, "1.00"))
        await db.run(lambda tx, refund=refund: world.report_refund(tx, refund, "SUCCEEDED"))
    await _queue_mails(db)
    async with db.connection() as tx:
        mails = await _mails(tx)
    assert sorted((mail.merchant_id == order.merchant_id, mail.topic) for mail in mails) == [
        (False, "receipt"), (False, "refund"), (True, "refund"),
    ]  # fmt: skip
    assert msgspec.json.decode(mails[0].data)["refunded"] == [100, "USD"]


async def test_the_role_of_a_member_decides_which_mails_it_gets(db: Db) -> None:
    order = await _create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await _add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await _queue_mails(db)
    paid = await db.run(lambda tx: _pay(tx, order))
    await db.run(lambda tx: world.report_dispute(tx, paid, "OPENED", respond_by=NOW + HOUR_MS))
    await db.run(lambda tx: merchants.create_key(tx, shop, "production", NOW, actor=TESTER))
    await _change_endpoint(db, shop)
    rule = payouts.HoldRule(SETTINGS.secret_key, 3)
    await db.run(lambda tx: payouts.change_account(tx, shop, IBAN, TESTER, rule, NOW))
    for _ in range(2):
        await _queue_mails(db)
        await jobs.queue_audit_mails(db, SETTINGS, NOW)
    async with db.connection() as tx:
        mails = await _mails(tx)
    assert sorted((mail.topic, mail.recipient) for mail in mails) == [
        ("account_changed", "finance@example.com"),
        ("account_changed", "owner@example.com"),
        ("dispute_opened", "owner@example.com"),
        ("dispute_opened", "support@example.com"),
        *(
            ("endpoint_changed", f"{role}@example.com")
            for role in ("developer", "developer", "owner", "owner")
        ),
        ("key_changed", "developer@example.com"),
        ("key_changed", "owner@example.com"),
        ("receipt", "ann@example.com"),
    ]


async def test_members_get_a_mail_when_a_dispute_is_decided(db: Db) -> None:
    order = await _create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await _add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await _queue_mails(db)
    paid = await db.run(lambda tx: _pay(tx, order))
    await db.run(lambda tx: world.report_dispute(tx, paid, "OPENED"))
    await _queue_mails(db)
    await db.run(lambda tx: world.report_dispute(tx, paid, "LOST"))
    for _ in range(2):
        await _queue_mails(db)
    async with db.connection() as tx:
        mails = [mail for mail in await _mails(tx) if mail.topic == "dispute_closed"]
    assert sorted(mail.recipient for mail in mails) == [
        "finance@example.com",
        "owner@example.com",
        "support@example.com",
    ]
    content = msgspec.json.decode(mails[0].data)
    assert (content["status"], content["order_id"]) == ("LOST", order.id)
    assert content["amount"] == content["debit"] == [999, "USD"]


async def test_members_get_a_mail_when_their_account_is_suspended_or_restored(db: Db) -> None:
    order = await _create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in ("owner", "viewer"):
            await _add_member(tx, shop, role, f"{role}@example.com")

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
        mails = [mail for mail in await _mails(tx) if mail.topic == "standing_changed"]
    assert {mail.recipient for mail in mails} == {"owner@example.com"}
    contents = [msgspec.json.decode(mail.data) for mail in mails]
    assert sorted(content["suspended"] for content in contents) == [False, True]
    assert {content["reason"] for content in contents} == {TESTER.reason}
    assert "only staff" not in "".join(mail.data for mail in mails)


async def test_members_get_mails_about_refunds_reversed_or_made_at_the_provider(db: Db) -> None:
    order = await _create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await _add_member(tx, shop, role, f"{role}@example.com")

    await db.run(prepare)
    await _queue_mails(db)
    paid = await db.run(lambda tx: _pay(tx, order))
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
        await _queue_mails(db)
    async with db.connection() as tx:
        mails = await _mails(tx)
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


async def test_a_login_from_a_new_device_or_network_is_mailed_once(db: Db) -> None:
    order = await _create_order(db)
    await db.run(lambda tx: _add_member(tx, order.merchant_id, "owner", "owner@example.com"))
    await jobs.find_start(db, NOW)

    async def log_in(address: str, device: str, *, logs_out: bool = False) -> None:
        async def create_data(tx: Tx) -> None:
            person = await people.find_by_email(tx, "owner@example.com")
            new_login = await people.begin(tx, person, Browser(address, device), NOW + 1)
            if logs_out:
                await people_queries.END_LOGIN.run(tx, person_id=person.id, id=new_login.id)

        await db.run(create_data)

    await log_in("192.0.2.1", "Testfox/1.0")
    await log_in("192.0.2.1", "Testfox/2.5")  # the same browser has a newer version
    await log_in("203.0.113.5", "Testfox/1.0")
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 2) == 2
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 3) == 0
    # The person logs out before the mails are queued.
    await log_in("203.0.113.6", "Testfox/1.0", logs_out=True)
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 4) == 1
    async with db.connection() as tx:
        assert await queries.NEW_LOGINS.all(tx, since=NOW, pending_until=NOW, limit=10) == []
        count = "select count(*) from begun_logins"
        assert await tx.fetchval(count) == 1, "the login with which the owner joined"
        await people.prune(tx, NOW + HOUR_MS + 1)
        assert await tx.fetchval(count) == 0


async def test_a_password_without_the_second_factor_is_mailed_as_that(db: Db) -> None:
    order = await _create_order(db)
    await db.run(lambda tx: _add_member(tx, order.merchant_id, "owner", "owner@example.com"))
    await jobs.find_start(db, NOW)

    async def log_in(number: int, address: str = "192.0.2.1") -> people.Login:
        async def create_data(tx: Tx) -> people.Login:
            person = await people.find_by_email(tx, "owner@example.com")
            await tx.execute("update persons set totp_secret = 'x' where id = $1", person.id)
            browser = Browser(address, "Testfox/1.0")
            new = await people.begin(tx, person, browser, NOW + number)
            logins = await people_queries.LOGINS.all(tx, person_id=person.id)
            return next(login for login in logins if login.id == new.id)

        return await db.run(create_data)

    pending_ends = NOW + people.PENDING_MS
    await log_in(1)
    assert await jobs.queue_login_mails(db, SETTINGS, pending_ends) == 0, "it may be proved yet"
    assert await jobs.queue_login_mails(db, SETTINGS, pending_ends + 1) == 1
    # The device and the address are still unknown to the mails about complete logins.
    proved = await log_in(2)
    await db.run(lambda tx: logins.renew(tx, proved, "token", NOW + 2, strong=True))
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 3) == 1
    # The person gets no mail about a complete login if it was ended before its second factor was
    # proved, only the one about the correct password.
    ended = await log_in(4, "203.0.113.5")
    await db.run(lambda tx: logins.end_by_id(tx, proved, ended.id))
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 5) == 1
    async with db.connection() as tx:
        contents = [msgspec.json.decode(mail.data) for mail in await _mails(tx)]
    assert sorted((content["address"], content["pending"]) for content in contents) == [
        ("192.0.2.1", False), ("192.0.2.1", True), ("203.0.113.5", True),
    ]  # fmt: skip


async def test_a_digest_is_queued_once_in_the_morning_of_the_merchants_time_zone(db: Db) -> None:
    order = await _create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        await _add_member(tx, shop, "finance", "finance@example.com")
        switches = {"receipts": True, "refunds": True, "digest": True}
        await mail.change_preferences(tx, shop, switches, "zh-Hans", NOW, actor=TESTER)
        await merchants.change_profile(tx, shop, {"time_zone": "Asia/Kathmandu"}, NOW, actor=TESTER)

    await db.run(prepare)
    midnight = 1_750_011_300_000  # 2025-06-15T18:15Z, the end of the 15th in Kathmandu
    morning = midnight + 7 * HOUR_MS
    assert await jobs.queue_digests(db, SETTINGS, morning - 1) == 0
    assert await jobs.queue_digests(db, SETTINGS, morning) == 1
    assert await jobs.queue_digests(db, SETTINGS, morning + HOUR_MS) == 0
    async with db.connection() as tx:
        (digest,) = await _mails(tx)
    assert (digest.recipient, digest.language) == ("finance@example.com", "zh-Hans")
    assert digest.cause == "digest 2025-06-15"


async def test_a_digest_waits_until_its_whole_day_is_counted(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        order = await world.create_order_in(tx, "PAID")
        await _add_member(tx, order.merchant_id, "owner", "owner@example.com")
        switches = {"receipts": True, "refunds": True, "digest": True}
        await mail.change_preferences(tx, order.merchant_id, switches, "en", NOW, actor=TESTER)
        return order.merchant_id

    shop = await db.run(prepare)
    morning = NOW - NOW % (24 * HOUR_MS) + 32 * HOUR_MS
    async with db.connection() as tx:
        # As if no entry of the day had been counted.
        await tx.execute("update balances set entries = 0")
        assert await figures.behind_since(tx, shop) == NOW
    assert await jobs.queue_digests(db, SETTINGS, morning) == 0
    async with db.connection() as tx:
        await tx.execute(
            "update balances b set entries = (select max(number) from entries e"
            " where (e.merchant_id, e.currency) = (b.merchant_id, b.currency))"
        )
    assert await jobs.queue_digests(db, SETTINGS, morning + 1) == 1
    async with db.connection() as tx:
        assert await figures.behind_since(tx, shop) is None
        (digest,) = await _mails(tx)
    (day,) = msgspec.json.decode(digest.data)["days"]
    assert (day["payments"], day["paid"][0] > 0) == (1, True)


async def test_members_of_a_closed_merchant_get_mails_only_about_their_accounts(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        shop = (await world.create_merchant(tx)).id
        await _add_member(tx, shop, "owner", "owner@example.com")
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
        assert {row.topic for row in await _mails(tx)} == {"account_change"}
        assert await queries.DIGEST_MERCHANTS.all(tx) == []


async def test_a_receipt_that_a_form_requests_twice_is_sent_once(db: Db) -> None:
    order = await _create_order(db)
    paid = await db.run(lambda tx: _pay(tx, order))

    async def send_receipt(form: str) -> str:
        ids = (paid.merchant_id, paid.id)
        return (await db.run(lambda tx: mail.send_receipt(tx, SETTINGS, *ids, form, NOW))).id

    mail_id = await send_receipt("form 1")
    assert await send_receipt("form 1") == mail_id != await send_receipt("form 2")
    async with db.connection() as tx:
        assert len(await mail.list_of_order(tx, paid.merchant_id, paid.id)) == 2


async def test_at_most_ten_mails_per_hour_can_be_requested_for_an_address(db: Db) -> None:
    order = await _create_order(db)
    paid = await db.run(lambda tx: _pay(tx, order))

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
    order = await _create_order(db)
    paid = await db.run(lambda tx: _pay(tx, order))
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

    of_people = {"new_login", "reset", "test", "account_change", "factors_waiting", "application"}
    without_row = of_people | {row.name for row in mail.TOPICS if row.staff}
    assert (topic.name in MAIL_TOPIC) == (topic.name not in without_row)
    assert (topic.name in STAFF_MAIL_TOPIC) == (topic.name in without_row)


async def test_an_event_that_cannot_become_a_mail_is_a_dead_letter_and_blocks_no_other(
    db: Db,
) -> None:
    bad_order, good_order = [await _create_order(db) for _ in range(2)]
    assert bad_order.merchant_id < good_order.merchant_id, "the bad one is read first"
    assert await _queue_mails(db) == 0
    paid = await db.run(lambda tx: _pay(tx, bad_order))
    await db.run(lambda tx: _pay(tx, good_order))
    async with db.connection() as tx:
        await tx.execute(
            "update events set body = replace(body, 'order_id', 'ann@example.com')"
            " where merchant_id = $1 and type = 'order.paid'",
            bad_order.merchant_id,
        )
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    assert await _queue_mails(db) == 2
    assert await _queue_mails(db) == 0
    async with db.connection() as tx:
        mails = await _mails(tx)
        assert {(mail.merchant_id, mail.topic) for mail in mails} == {
            (bad_order.merchant_id, "refund"), (good_order.merchant_id, "receipt"),
        }  # fmt: skip
        (dead_letter,) = await mail.list_dead_letters(tx, 10)
        assert dead_letter.merchant_id == bad_order.merchant_id
        assert "`order_id`" in dead_letter.reason
        assert (await mail.queue_state(tx, NOW)).dead_letters == 1
        assert (await mail.queue_state(tx, NOW + 25 * HOUR_MS)).dead_letters == 0
        await tx.execute("update events set body = replace(body, 'ann@example.com', 'order_id')")
    retry_time = NOW + 90 * 24 * HOUR_MS
    result = await mail.retry_dead_letters(db, SETTINGS, good_order.merchant_id, TESTER, retry_time)
    assert result == mail.RetryResult(0, 0, 0)
    result = await mail.retry_dead_letters(db, SETTINGS, None, TESTER, retry_time)
    assert result == mail.RetryResult(1, 1, 0)
    async with db.connection() as tx:
        assert [mail.topic for mail in await _mails(tx)].count("receipt") == 2
        assert await mail.list_dead_letters(tx, 10) == []


async def test_an_audit_entry_that_cannot_become_a_mail_blocks_no_other(db: Db) -> None:
    bad_merchant_id, good_merchant_id = [(await _create_order(db)).merchant_id for _ in range(2)]
    await jobs.find_start(db, NOW)

    async def create_data(tx: Tx) -> None:
        await tx.execute(
            "alter table mail_preferences drop constraint mail_preferences_language_check"
        )
        await tx.execute(
            "insert into mail_preferences values ($1, true, true, false, 'no tag', $2)",
            bad_merchant_id,
            NOW,
        )
        for merchant_id in (bad_merchant_id, good_merchant_id):
            await _add_member(tx, merchant_id, "owner", f"{merchant_id[-5:]}@example.com")
            await merchants.create_key(tx, merchant_id, "production", NOW, actor=TESTER)

    await db.run(create_data)
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) > 0
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) == 0
    async with db.connection() as tx:
        assert {mail.merchant_id for mail in await _mails(tx) if mail.merchant_id} == {
            good_merchant_id
        }
        (dead_letter,) = await mail.list_dead_letters(tx, 10)
        assert (dead_letter.merchant_id, dead_letter.event_id) == (
            "",
            f"audit {dead_letter.number}",
        )
    assert await mail.retry_dead_letters(db, SETTINGS, None, TESTER, NOW) == mail.RetryResult(
        1, 0, 1
    )
    async with db.connection() as tx:
        assert (await mail.list_dead_letters(tx, 10))[0].created_at == dead_letter.created_at
        await tx.execute("update mail_preferences set language = 'zh-Hans'")
    assert await mail.retry_dead_letters(db, SETTINGS, None, TESTER, NOW) == mail.RetryResult(
        1, 1, 0
    )
    await db.run(lambda tx: queries.STORE_DEAD_LETTER.run(
        tx, merchant_id="", number=1, event_id="audit 1", reason="", now=NOW
    ))  # fmt: skip
    assert await db.run(lambda tx: jobs.prune(tx, NOW + 91 * 24 * HOUR_MS)) == 1


async def test_a_merchant_whose_events_cannot_be_read_is_skipped_until_the_next_run(
    db: Db,
) -> None:
    bad_order, good_order = [await _create_order(db) for _ in range(2)]
    assert bad_order.merchant_id < good_order.merchant_id, "the bad one is read first"
    assert await _queue_mails(db) == 0
    for order in (bad_order, good_order):
        await db.run(lambda tx, order=order: _pay(tx, order))
    async with db.connection() as tx:  # the position is after the last event
        await tx.execute("insert into mail_heads values ($1, $2, 0)", bad_order.merchant_id, 2**60)
    with pytest.raises(jobs.UnreadMerchants, match="1 merchants"):
        await _queue_mails(db)
    async with db.connection() as tx:
        assert {mail.merchant_id for mail in await _mails(tx)} == {good_order.merchant_id}
        await tx.execute("update mail_heads set number = 0 where number = $1", 2**60)
    assert await _queue_mails(db) == 1


async def test_a_failure_to_queue_audit_mails_does_not_stop_login_mails(db: Db) -> None:
    order = await _create_order(db)
    await jobs.find_start(db, NOW)

    async def create_data(tx: Tx) -> None:
        await _add_member(tx, order.merchant_id, "owner", "owner@example.com")
        person = await people.find_by_email(tx, "owner@example.com")
        await people.begin(tx, person, Browser("192.0.2.9", "Testfox/1.0"), NOW + 1)
        await tx.execute("alter table audit_log rename to audit_log_elsewhere")

    await db.run(create_data)
    app: Any = SimpleNamespace(db=db, settings=SETTINGS, clock=lambda: NOW + 1)
    with pytest.raises(ExceptionGroup) as failed:
        await jobs.queue_other_mails(app)
    assert [type(error) for error in failed.value.exceptions] == [asyncpg.UndefinedTableError]
    async with db.connection() as tx:
        assert [mail.topic for mail in await _mails(tx)] == ["new_login"]


async def test_dead_letters_are_retried_in_batches(db: Db) -> None:
    shop = (await _create_order(db)).merchant_id

    async def insert_dead_letters(tx: Tx) -> None:
        await tx.execute(
            "insert into mail_events_put_aside (merchant_id, number, event_id, reason, created_at)"
            " select $1, n, 'evt_' || n, 'KeyError', $2 from generate_series(1, 501) n", shop, NOW,
        )  # fmt: skip

    await db.run(insert_dead_letters)
    result = await mail.retry_dead_letters(db, SETTINGS, shop, TESTER, NOW)
    assert result == mail.RetryResult(501, 0, 501), "the events do not exist any more"
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select subject from audit_log where action = 'mail reread' and merchant_id = $1"
            " order by number", shop,
        )  # fmt: skip
    assert [row["subject"] for row in rows] == [
        "500 read, 0 mails, 500 still put aside", "1 read, 0 mails, 1 still put aside",
    ]  # fmt: skip
