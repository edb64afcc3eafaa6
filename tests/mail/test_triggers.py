"""What happened becomes mails, each once, and none where nobody wants it."""

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
from opentill.people import Browser
from opentill.people import queries as people_queries
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


async def _open(db: Db, **what: Any) -> Order:
    return await db.run(lambda tx: world.create_order(tx, **what))


async def _pay(tx: Tx, order: Order, locale: str = "en", now: int = NOW) -> Order:
    locked = await orders.lock(tx, order.merchant_id, order.id)
    payer = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale=locale)
    attempt = await orders.start_attempt(tx, locked, "sandbox", "CREDIT_CARD", payer, now)
    await world.report_payment(
        tx, attempt, "SUCCEEDED", now, amount=Money(order.amount_minor, order.currency)
    )
    return await orders.find(tx, order.merchant_id, order.id)


async def _member(tx: Tx, merchant_id: str, role: people.MerchantRole, email: str) -> None:
    invited = await people.invite(tx, email, NOW, merchant_id=merchant_id, role=role, actor=TESTER)
    person = people.Person(
        id=f"per_{email.partition('@')[0]:0>26}", email=email, name=role, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        confirmed=True,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    login = await people.begin(tx, person, Browser("192.0.2.1", "Testfox/1.0"), NOW)
    login_row = await people_queries.LOGIN.first(tx, token_sha256=people.model.digest(login.token))
    assert login_row is not None
    await people.accept(tx, invited.token, login_row, NOW)


async def test_a_payment_makes_one_receipt_in_the_language_of_its_customer(db: Db) -> None:
    order = await _open(db)
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


async def test_what_is_older_than_the_mail_server_or_a_day_is_not_mailed(db: Db) -> None:
    before, late, now = [await _open(db) for _ in range(3)]
    await db.run(lambda tx: _pay(tx, before, now=NOW - 1))
    assert await _queue_mails(db, NOW) == 0  # the first look: from now on
    await db.run(lambda tx: _pay(tx, late, now=NOW + 1))
    await db.run(lambda tx: _pay(tx, now, now=NOW + 25 * HOUR_MS))
    assert await _queue_mails(db, NOW + 26 * HOUR_MS) == 1


async def test_a_merchant_turns_off_what_its_customers_get(db: Db) -> None:
    order, other = await _open(db), await _open(db)
    await _queue_mails(db)
    switches = {"receipts": False, "refunds": True, "digest": False}
    await db.run(
        lambda tx: mail.change_preferences(tx, order.merchant_id, switches, "en", NOW, actor=TESTER)
    )
    for each_order in (order, other):
        paid = await db.run(lambda tx, each_order=each_order: _pay(tx, each_order))
        refund = await db.run(lambda tx, paid=paid: world.create_refund(tx, paid, "1.00"))
        await db.run(lambda tx, refund=refund: world.report_refund(tx, refund, "SUCCEEDED"))
    await _queue_mails(db)
    async with db.connection() as tx:
        mails = await _mails(tx)
    assert sorted((one.merchant_id == order.merchant_id, one.topic) for one in mails) == [
        (False, "receipt"), (False, "refund"), (True, "refund"),
    ]  # fmt: skip
    assert msgspec.json.decode(mails[0].data)["refunded"] == [100, "USD"]


async def test_members_hear_of_disputes_keys_and_accounts_by_their_role(db: Db) -> None:
    order = await _open(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await _member(tx, shop, role, f"{role}@example.com")

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
    assert sorted((one.topic, one.recipient) for one in mails) == [
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


async def test_members_hear_of_refunds_that_are_reversed_or_made_at_the_provider(db: Db) -> None:
    order = await _open(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        for role in people.MERCHANT_ROLES:
            await _member(tx, shop, role, f"{role}@example.com")

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
    await db.run(lambda tx: world.report_refund(tx, refund, "REFUSED"))  # nobody is written to
    for _ in range(2):
        await _queue_mails(db)
    async with db.connection() as tx:
        mails = await _mails(tx)
    assert sorted((one.topic, one.recipient) for one in mails) == [
        ("receipt", "ann@example.com"),
        ("refund_at_gateway", "finance@example.com"),
        ("refund_at_gateway", "owner@example.com"),
        ("refund_reversed", "finance@example.com"),
        ("refund_reversed", "owner@example.com"),
        ("refund_reversed", "support@example.com"),
    ]


async def _change_endpoint(db: Db, shop: str) -> None:
    """Add an endpoint, and change its address and then what else it has."""
    check = webhooks.UrlCheck(lambda _url: None)
    key = SETTINGS.secret_key

    async def work(tx: Tx) -> None:
        fields = webhooks.EndpointFields(url="https://hooks.example.com/a")
        endpoint, _ = await webhooks.create(tx, shop, fields, check, key, NOW, actor=TESTER)
        for change in (
            webhooks.EndpointFields(url="https://other.example.com/a"),
            webhooks.EndpointFields(description="Warehouse"),
            webhooks.EndpointFields(status="DISABLED"),
        ):
            await webhooks.update(tx, shop, endpoint.id, change, check, NOW, actor=TESTER)

    await db.run(work)


async def test_a_login_from_elsewhere_is_mailed_once(db: Db) -> None:
    order = await _open(db)
    await db.run(lambda tx: _member(tx, order.merchant_id, "owner", "owner@example.com"))
    await jobs.find_start(db, NOW)

    async def log_in(address: str, device: str, *, out: bool = False) -> None:
        async def work(tx: Tx) -> None:
            person = await people.find_by_email(tx, "owner@example.com")
            new_login = await people.begin(tx, person, Browser(address, device), NOW + 1)
            if out:
                await people_queries.END_LOGIN.run(tx, person_id=person.id, id=new_login.id)

        await db.run(work)

    await log_in("192.0.2.1", "Testfox/1.0")
    await log_in("192.0.2.1", "Testfox/2.5")  # the same, newer
    await log_in("203.0.113.5", "Testfox/1.0")
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 2) == 2
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 3) == 0
    await log_in("203.0.113.6", "Testfox/1.0", out=True)  # by somebody who was quick
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 4) == 1
    async with db.connection() as tx:
        assert await queries.NEW_LOGINS.all(tx, since=NOW, limit=10) == []
        left = [await tx.fetchval("select count(*) from begun_logins")]
        await people.prune(tx, NOW + HOUR_MS + 1)
        left.append(await tx.fetchval("select count(*) from begun_logins"))
    assert left == [1, 0], "the one with which the owner has joined, until it is an hour old"


async def test_a_digest_comes_once_in_the_morning_of_the_merchants_zone(db: Db) -> None:
    order = await _open(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        await _member(tx, shop, "finance", "finance@example.com")
        switches = {"receipts": True, "refunds": True, "digest": True}
        await mail.change_preferences(tx, shop, switches, "zh-Hans", NOW, actor=TESTER)
        await merchants.change_profile(tx, shop, {"time_zone": "Asia/Kathmandu"}, NOW, actor=TESTER)

    await db.run(prepare)
    midnight = 1_750_009_500_000  # 2025-06-15T17:45Z: 23:30 of the 15th in Kathmandu
    assert await jobs.queue_digests(db, SETTINGS, midnight + HOUR_MS) == 0
    morning = midnight + 8 * HOUR_MS
    assert await jobs.queue_digests(db, SETTINGS, morning) == 1
    assert await jobs.queue_digests(db, SETTINGS, morning + HOUR_MS) == 0
    async with db.connection() as tx:
        (digest,) = await _mails(tx)
    assert (digest.recipient, digest.language) == ("finance@example.com", "zh-Hans")
    assert digest.cause == "digest 2025-06-15"


async def test_a_digest_has_all_of_its_day_or_waits_for_it(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        order = await world.create_order_in(tx, "PAID")
        await _member(tx, order.merchant_id, "owner", "owner@example.com")
        switches = {"receipts": True, "refunds": True, "digest": True}
        await mail.change_preferences(tx, order.merchant_id, switches, "en", NOW, actor=TESTER)
        return order.merchant_id

    shop = await db.run(prepare)
    morning = NOW - NOW % (24 * HOUR_MS) + 32 * HOUR_MS
    async with db.connection() as tx:
        await tx.execute("update balances set entries = 0")  # as if there were too many to count
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


async def test_members_of_a_closed_merchant_get_no_mail_any_more(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        shop = (await world.create_merchant(tx)).id
        await _member(tx, shop, "owner", "owner@example.com")
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
        topics = {one.topic for one in await _mails(tx)}
        assert topics == {"account_change"}, "of their own accounts"
        assert await queries.DIGEST_MERCHANTS.all(tx) == []


async def test_a_receipt_is_sent_again_once_for_each_form(db: Db) -> None:
    order = await _open(db)
    paid = await db.run(lambda tx: _pay(tx, order))

    async def again(form: str) -> Mail:
        return await db.run(
            lambda tx: mail.send_receipt(tx, SETTINGS, paid.merchant_id, paid.id, form, NOW)
        )

    first, same, other = await again("one"), await again("one"), await again("two")
    assert first.id == same.id != other.id
    async with db.connection() as tx:
        assert len(await mail.list_of_order(tx, paid.merchant_id, paid.id)) == 2


async def test_an_address_gets_ten_messages_in_an_hour_that_persons_ask_for(
    db: Db,
) -> None:
    order = await _open(db)
    paid = await db.run(lambda tx: _pay(tx, order))

    async def send(number: int, now: int = NOW) -> Mail:
        return await db.run(
            lambda tx: mail.send_receipt(
                tx, SETTINGS, paid.merchant_id, paid.id, f"form {number}", now
            )
        )

    sent = await asyncio.gather(*(send(number) for number in range(14)), return_exceptions=True)
    refused = [one for one in sent if isinstance(one, mail.TooManyMails)]
    assert (len(refused), len(sent)) == (4, 14)
    assert (
        "at most 10 messages per hour can be requested for an address; try again in 60 min"
        in str(refused[0].reason)
    )
    (sent_mail, *_) = [one for one in sent if isinstance(one, Mail)]
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


async def test_mails_that_ended_long_ago_are_removed(db: Db) -> None:
    order = await _open(db)
    paid = await db.run(lambda tx: _pay(tx, order))
    receipt = await db.run(
        lambda tx: mail.send_receipt(tx, SETTINGS, paid.merchant_id, paid.id, "one", NOW)
    )
    async with db.connection() as tx:
        assert await jobs.prune(tx, NOW + 91 * 24 * HOUR_MS) == 0  # it is still to be sent
        await queries.CLAIM.all(tx, now=NOW, lease_until=NOW, limit=1)
        await queries.EXPIRE_LEASES.run(tx, now=NOW, result="unknown", limit=1)
        assert (await outbox.find(tx, paid.merchant_id, receipt.id)).status == "UNKNOWN"
        assert await jobs.prune(tx, NOW + 91 * 24 * HOUR_MS) == 1


@pytest.mark.parametrize("topic", mail.TOPICS, ids=lambda topic: topic.name)
def test_every_topic_has_its_row_of_the_page_or_is_nobodys(topic: mail.Topic) -> None:
    from opentill.dashboard.labels import MAIL_TOPIC

    of_people = {"new_login", "reset", "test", "account_change", "factors_waiting"}
    of_nobody = of_people | {one.name for one in mail.TOPICS if one.staff}
    assert (topic.name in MAIL_TOPIC) == (topic.name not in of_nobody)


async def test_an_event_that_no_mail_can_be_made_of_is_put_aside_and_all_others_go_on(
    db: Db,
) -> None:
    bad, other = [await _open(db) for _ in range(2)]
    assert bad.merchant_id < other.merchant_id, "the bad one is read first"
    assert await _queue_mails(db) == 0
    paid = await db.run(lambda tx: _pay(tx, bad))
    await db.run(lambda tx: _pay(tx, other))
    async with db.connection() as tx:
        spoil = "update events set body = replace(body, 'order_id', 'ann@example.com') where {}"
        await tx.execute(spoil.format("merchant_id = $1 and type = 'order.paid'"), bad.merchant_id)
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    assert await _queue_mails(db) == 2
    assert await _queue_mails(db) == 0
    async with db.connection() as tx:
        mails = await _mails(tx)
        assert {(one.merchant_id, one.topic) for one in mails} == {
            (bad.merchant_id, "refund"), (other.merchant_id, "receipt"),
        }  # fmt: skip
        (aside,) = await mail.list_dead_letters(tx, 10)
        assert aside.merchant_id == bad.merchant_id
        assert "`order_id`" in aside.reason
        assert (await mail.queue_state(tx, NOW)).dead_letters == 1
        assert (await mail.queue_state(tx, NOW + 25 * HOUR_MS)).dead_letters == 0
        await tx.execute("update events set body = replace(body, 'ann@example.com', 'order_id')")
    late = NOW + 90 * 24 * HOUR_MS
    done = await mail.retry_dead_letters(db, SETTINGS, other.merchant_id, TESTER, late)
    assert done == mail.RetryResult(0, 0, 0)
    done = await mail.retry_dead_letters(db, SETTINGS, None, TESTER, late)
    assert done == mail.RetryResult(1, 1, 0)
    async with db.connection() as tx:
        assert [one.topic for one in await _mails(tx)].count("receipt") == 2
        assert await mail.list_dead_letters(tx, 10) == []


async def test_an_audit_entry_that_no_mail_can_be_made_of_holds_up_no_other(db: Db) -> None:
    bad, good = [(await _open(db)).merchant_id for _ in range(2)]
    await jobs.find_start(db, NOW)

    async def work(tx: Tx) -> None:
        await tx.execute(
            "alter table mail_preferences drop constraint mail_preferences_language_check"
        )
        await tx.execute(
            "insert into mail_preferences values ($1, true, true, false, 'no tag', $2)", bad, NOW
        )
        for merchant_id in (bad, good):
            await _member(tx, merchant_id, "owner", f"{merchant_id[-5:]}@example.com")
            await merchants.create_key(tx, merchant_id, "production", NOW, actor=TESTER)

    await db.run(work)
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) > 0
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) == 0
    async with db.connection() as tx:
        assert {one.merchant_id for one in await _mails(tx) if one.merchant_id} == {good}
        (aside,) = await mail.list_dead_letters(tx, 10)
        assert (aside.merchant_id, aside.event_id) == ("", f"audit {aside.number}")
    assert await mail.retry_dead_letters(db, SETTINGS, None, TESTER, NOW) == mail.RetryResult(
        1, 0, 1
    )
    async with db.connection() as tx:
        assert (await mail.list_dead_letters(tx, 10))[0].created_at == aside.created_at
        await tx.execute("update mail_preferences set language = 'zh-Hans'")
    assert await mail.retry_dead_letters(db, SETTINGS, None, TESTER, NOW) == mail.RetryResult(
        1, 1, 0
    )
    await db.run(lambda tx: queries.STORE_DEAD_LETTER.run(
        tx, merchant_id="", number=1, event_id="audit 1", reason="", now=NOW
    ))  # fmt: skip
    assert await db.run(lambda tx: jobs.prune(tx, NOW + 91 * 24 * HOUR_MS)) == 1


async def test_a_merchant_whose_events_cannot_be_read_is_passed_over_until_the_next_time(
    db: Db,
) -> None:
    bad, other = [await _open(db) for _ in range(2)]
    assert bad.merchant_id < other.merchant_id, "the bad one is read first"
    assert await _queue_mails(db) == 0
    for order in (bad, other):
        await db.run(lambda tx, order=order: _pay(tx, order))
    async with db.connection() as tx:  # read further than there are events
        await tx.execute("insert into mail_heads values ($1, $2, 0)", bad.merchant_id, 2**60)
    with pytest.raises(jobs.UnreadMerchants, match="1 merchants"):
        await _queue_mails(db)
    async with db.connection() as tx:
        assert {one.merchant_id for one in await _mails(tx)} == {other.merchant_id}
        await tx.execute("update mail_heads set number = 0 where number = $1", 2**60)
    assert await _queue_mails(db) == 1


async def test_one_kind_of_note_that_fails_stops_no_other(db: Db) -> None:
    order = await _open(db)
    await jobs.find_start(db, NOW)

    async def work(tx: Tx) -> None:
        await _member(tx, order.merchant_id, "owner", "owner@example.com")
        person = await people.find_by_email(tx, "owner@example.com")
        await people.begin(tx, person, Browser("192.0.2.9", "Testfox/1.0"), NOW + 1)
        await tx.execute("alter table audit_log rename to audit_log_elsewhere")

    await db.run(work)
    app: Any = SimpleNamespace(db=db, settings=SETTINGS, clock=lambda: NOW + 1)
    with pytest.raises(ExceptionGroup) as failed:
        await jobs.queue_other_mails(app)
    assert [type(one) for one in failed.value.exceptions] == [asyncpg.UndefinedTableError]
    async with db.connection() as tx:
        assert [one.topic for one in await _mails(tx)] == ["new_login"]


async def test_what_was_put_aside_is_read_again_in_portions(db: Db) -> None:
    shop = (await _open(db)).merchant_id

    async def put_aside(tx: Tx) -> None:
        await tx.execute(
            "insert into mail_events_put_aside (merchant_id, number, event_id, reason, created_at)"
            " select $1, n, 'evt_' || n, 'KeyError', $2 from generate_series(1, 501) n", shop, NOW,
        )  # fmt: skip

    await db.run(put_aside)
    done = await mail.retry_dead_letters(db, SETTINGS, shop, TESTER, NOW)
    assert done == mail.RetryResult(501, 0, 501), "the events are not kept any more"
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select subject from audit_log where action = 'mail reread' and merchant_id = $1"
            " order by number", shop,
        )  # fmt: skip
    assert [row["subject"] for row in rows] == [
        "500 read, 0 mails, 500 still put aside", "1 read, 0 mails, 1 still put aside",
    ]  # fmt: skip
