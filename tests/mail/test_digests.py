"""The daily digest is queued once, when its day is counted."""

import msgspec

from mail.triggered_mails import HOUR_MS, NOW, SETTINGS, add_member, create_order, read_mails
from opentill import figures, mail, merchants
from opentill.db.database import Db, Tx
from opentill.mail import jobs
from support import world
from support.people import TESTER


async def test_a_digest_is_queued_once_in_the_morning_of_the_merchants_time_zone(db: Db) -> None:
    order = await create_order(db)
    shop = order.merchant_id

    async def prepare(tx: Tx) -> None:
        await add_member(tx, shop, "finance", "finance@example.com")
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
        (digest,) = await read_mails(tx)
    assert (digest.recipient, digest.language) == ("finance@example.com", "zh-Hans")
    assert digest.cause == "digest 2025-06-15"


async def test_a_digest_waits_until_its_whole_day_is_counted(db: Db) -> None:
    async def prepare(tx: Tx) -> str:
        order = await world.create_order_in(tx, "PAID")
        await add_member(tx, order.merchant_id, "owner", "owner@example.com")
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
        (digest,) = await read_mails(tx)
    (day,) = msgspec.json.decode(digest.data)["days"]
    assert (day["payments"], day["paid"][0] > 0) == (1, True)
