"""Events and audit entries that cannot become mails block no others, and staff can retry them."""

from types import SimpleNamespace
from typing import Any

import asyncpg
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
from opentill import mail, merchants, people
from opentill.db.database import Db, Tx
from opentill.mail import jobs, queries
from opentill.people import Browser
from support import world
from support.people import TESTER


async def test_an_event_that_cannot_become_a_mail_is_a_dead_letter_and_blocks_no_other(
    db: Db,
) -> None:
    bad_order, good_order = [await create_order(db) for _ in range(2)]
    assert bad_order.merchant_id < good_order.merchant_id, "the bad one is read first"
    assert await queue_mails(db) == 0
    paid = await db.run(lambda tx: pay(tx, bad_order))
    await db.run(lambda tx: pay(tx, good_order))
    async with db.connection() as tx:
        await tx.execute(
            "update events set body = replace(body, 'order_id', 'ann@example.com')"
            " where merchant_id = $1 and type = 'order.paid'",
            bad_order.merchant_id,
        )
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    assert await queue_mails(db) == 2
    assert await queue_mails(db) == 0
    async with db.connection() as tx:
        mails = await read_mails(tx)
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
        assert [mail.topic for mail in await read_mails(tx)].count("receipt") == 2
        assert await mail.list_dead_letters(tx, 10) == []


async def test_an_audit_entry_that_cannot_become_a_mail_blocks_no_other(db: Db) -> None:
    bad_merchant_id, good_merchant_id = [(await create_order(db)).merchant_id for _ in range(2)]
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
            await add_member(tx, merchant_id, "owner", f"{merchant_id[-5:]}@example.com")
            await merchants.create_key(tx, merchant_id, "production", NOW, actor=TESTER)

    await db.run(create_data)
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) > 0
    assert await jobs.queue_audit_mails(db, SETTINGS, NOW) == 0
    async with db.connection() as tx:
        assert {mail.merchant_id for mail in await read_mails(tx) if mail.merchant_id} == {
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
    bad_order, good_order = [await create_order(db) for _ in range(2)]
    assert bad_order.merchant_id < good_order.merchant_id, "the bad one is read first"
    assert await queue_mails(db) == 0
    for order in (bad_order, good_order):
        await db.run(lambda tx, order=order: pay(tx, order))
    async with db.connection() as tx:  # the position is after the last event
        await tx.execute("insert into mail_heads values ($1, $2, 0)", bad_order.merchant_id, 2**60)
    with pytest.raises(jobs.UnreadMerchants, match="1 merchants"):
        await queue_mails(db)
    async with db.connection() as tx:
        assert {mail.merchant_id for mail in await read_mails(tx)} == {good_order.merchant_id}
        await tx.execute("update mail_heads set number = 0 where number = $1", 2**60)
    assert await queue_mails(db) == 1


async def test_a_failure_to_queue_audit_mails_does_not_stop_login_mails(db: Db) -> None:
    order = await create_order(db)
    await jobs.find_start(db, NOW)

    async def create_data(tx: Tx) -> None:
        await add_member(tx, order.merchant_id, "owner", "owner@example.com")
        person = await people.find_by_email(tx, "owner@example.com")
        await people.begin(tx, person, Browser("192.0.2.9", "Testfox/1.0"), NOW + 1)
        await tx.execute("alter table audit_log rename to audit_log_elsewhere")

    await db.run(create_data)
    app: Any = SimpleNamespace(db=db, settings=SETTINGS, clock=lambda: NOW + 1)
    with pytest.raises(ExceptionGroup) as failed:
        await jobs.queue_other_mails(app)
    assert [type(error) for error in failed.value.exceptions] == [asyncpg.UndefinedTableError]
    async with db.connection() as tx:
        assert [mail.topic for mail in await read_mails(tx)] == ["new_login"]


async def test_dead_letters_are_retried_in_batches(db: Db) -> None:
    shop = (await create_order(db)).merchant_id

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
