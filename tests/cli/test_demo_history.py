"""The demonstration's month of orders: plausible, reproducible and with correct books."""

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from opentill import figures, orders
from opentill.cli.demo_history import DAYS, NAME, History
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.figures import jobs
from opentill.orders.model import DAY_MS
from support import world
from support.books import assert_books


async def test_a_month_has_orders_of_every_kind(module_database_url: str) -> None:
    async def create_month(tx: Tx) -> History:
        start = world.NOW - DAYS * DAY_MS
        history = History((await world.create_merchant(tx, name=NAME, now=start)).id)
        await history.happen(tx, world.NOW)
        return history

    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    try:
        history = await db.run(create_month)
        other = await db.run(create_month)
        await jobs.count_all(db)
        async with db.snapshot() as tx:
            await assert_books(tx)
            merchant = history.merchant_id
            statuses = {
                row["status"]: row["n"]
                for row in await tx.fetch(
                    "select status, count(*) as n from orders where merchant_id = $1 group by 1",
                    merchant,
                )
            }
            disputes = await tx.fetch(
                "select status from disputes where merchant_id = $1 order by created_at", merchant
            )
            payouts = await tx.fetchval(
                "select count(*) from payouts where merchant_id = $1 and status = 'PAID'", merchant
            )
            by_link = await tx.fetchval(
                "select count(*) from orders where merchant_id = $1 and paid_at is not null"
                " and payment_link_id is not null",
                merchant,
            )
            declined = await tx.fetch(
                "select card_last4 from payment_attempts where merchant_id = $1"
                " and status = 'DECLINED' and method = 'CREDIT_CARD'",
                merchant,
            )
            newest = await tx.fetchrow(
                "select id, created_at from orders where merchant_id = $1"
                " order by created_at desc limit 1",
                merchant,
            )
            late = await tx.fetchval(
                "select max(settled_at - due_at) from orders where merchant_id = $1"
                " and id not in (select order_id from disputes where merchant_id = $1)",
                merchant,
            )
        totals = await figures.read(db, merchant, ZoneInfo("UTC"), world.NOW)
        assert {"PAID", "SETTLED", "REFUNDED", "DISPUTED", "CLOSED"} <= statuses.keys()
        assert 120 < sum(statuses.values()) < 260
        assert [row["status"] for row in disputes] == ["WON", "LOST", "OPEN", "OPEN"]
        at_bank = [dispute.status for dispute in history.bank_disputes.values()]
        assert at_bank == ["won", "lost", "opened", "opened"]
        assert payouts == 3
        assert by_link > 5
        assert declined
        assert all(row["card_last4"] for row in declined)
        assert newest is not None
        day = datetime.fromtimestamp(newest["created_at"] / 1000, UTC)
        assert orders.receipt_number(newest["id"]).startswith(f"{day:%y%m%d}-")
        assert late == 0  # the forecast of the home page has the due times
        (usd,) = totals.currencies
        assert all(day.payments for day in usd.days[:-1])
        assert usd.comparisons[1].now.refunds > 0 < usd.pending.days[3]
        rate = totals.attempts_compared[2].now.success_rate
        assert rate is not None
        assert 0.8 < rate < 0.97
        first, second = (
            [(payment.amount_minor, payment.paid_at) for payment in each.bank.values()]
            for each in (history, other)
        )
        assert first == second
    finally:
        await db.close()


def test_the_sandbox_bank_has_the_payments_refunds_and_disputes(tmp_path: Path) -> None:
    from opentill.cli.demo_history import BankDispute, BankPayment, BankRefund

    history = History("mer_1")
    history.bank["att_1"] = BankPayment("att_1", 1250, "USD", "ALIPAY", world.NOW, 500)
    history.bank_refunds.append(BankRefund("re_1", "att_1", 500, "USD", world.NOW + DAY_MS))
    times = (world.NOW + DAY_MS, world.NOW + 2 * DAY_MS, world.NOW + 2 * DAY_MS)
    history.bank_disputes["demo-1"] = BankDispute(
        "demo-1", "att_1", 750, "USD", "product_not_received", "lost", *times
    )
    settings = Settings(data_dir=tmp_path, public_url="http://127.0.0.1:1")
    asyncio.run(history.record_at_bank(settings))
    with sqlite3.connect(tmp_path / "sandbox.sqlite3") as bank:
        rows = bank.execute("select id, status, amount_minor, refunded_minor from payments")
        assert rows.fetchall() == [("att_1", "succeeded", 1250, 500)]
        rows = bank.execute("select id, payment_id, status, amount_minor from refunds")
        assert rows.fetchall() == [("re_1", "att_1", "succeeded", 500)]
        rows = bank.execute(
            "select id, payment_id, status, amount_minor, created_at, updated_at, lost_at"
            " from disputes"
        )
        assert rows.fetchall() == [("demo-1", "att_1", "lost", 750, *times)]
    bank.close()
