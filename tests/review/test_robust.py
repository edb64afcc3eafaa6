"""What a gateway, a rate, a proxy, a browser or a newer version may bring about unasked."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path

import asyncpg
import pytest

import pooler
from api import Shop, Till, refused
from money.world import (
    DAY,
    LATE,
    NOW,
    dispute_said,
    history,
    in_status,
    opened,
    paid,
    said,
    settled,
    submitted,
)
from opentill import orders, rates
from opentill.core.money import Money
from opentill.db import migrations
from opentill.db.database import Db, Tx
from opentill.disputes import DisputeOut
from opentill.http.middleware import RequestMiddleware
from opentill.orders import Order, settlement


async def in_dinars(tx: Tx) -> Order:
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    return await opened(tx, "9.99", "KWD", settlement_currency="KWD")


@pytest.mark.parametrize("got", [Money(9991, "KWD"), Money(999, "usd"), Money(1, "XAU")])
async def test_another_amount_is_noted_whatever_it_is(tx: Tx, got: Money) -> None:
    order = await in_dinars(tx)
    attempt = await submitted(tx, order)
    heard = await said(tx, attempt, "SUCCEEDED", NOW + LATE, amount=got)
    assert (heard.reason, heard.check_at) == ("amount_differs", None)
    lines = [line.cause for line in await history(tx, order) if line.event == "amount_differs"]
    assert [f"{got.minor} minor units of {got.currency}" in cause for cause in lines] == [True]


async def test_a_disputed_amount_can_be_shown_whatever_the_gateway_names(tx: Tx) -> None:
    order = await paid(tx, await in_dinars(tx))
    dispute = await dispute_said(tx, order, "OPENED", minor=1004)
    assert dispute is not None
    assert DisputeOut.of(dispute).amount == "1.00"
    assert "dispute_amount_differs" in [line.event for line in await history(tx, order)]


@pytest.mark.parametrize("turned", [False, True])
def test_a_slip_in_a_rate_is_refused_and_no_defect(till: Till, turned: bool) -> None:
    shop = till.shop()
    quoted = Decimal("0.000000000000000001") if turned else Decimal(999_999_999)
    till.rate(*(("USD", "XAF") if turned else ("XAF", "USD")), quoted)
    product = shop.product(price="99999999.00", currency="XAF")
    reason = refused(shop.post("/v1/checkouts", {"productId": product["id"]}), "productId")
    assert "rate" in reason


# What a later version might bring: a column that its default fills, an index, another table.
NEXT = """
alter table orders add column later text not null default '';
create index orders_by_later on orders (merchant_id, later);
create table laters (merchant_id text primary key references merchants (id));
"""


def test_a_migration_runs_under_load_while_the_version_before_goes_on_serving(
    till: Till, shop: Shop, tmp_path: Path
) -> None:
    shutil.copy(migrations.folder() / "0001_schema.sql", tmp_path)
    (tmp_path / "0002_later.sql").write_text(NEXT)
    order = shop.paid()
    shop.refund(order["id"], amount="1.00")  # the statements are prepared by now
    over = threading.Event()

    def customer() -> int:
        count = 0
        while not over.is_set():
            assert shop.paid()["status"] == "PAID"
            assert shop.read_order(order["id"])["id"] == order["id"]
            assert till.http.get("/readyz").status_code == 200
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        customers = [threads.submit(customer) for _ in range(4)]
        try:
            applied = asyncio.run(migrations.migrate(till.settings.database_url, tmp_path))
            assert shop.refund(order["id"], amount="1.00")["status"] == "PROCESSING"
            assert shop.paid()["status"] == "PAID"
        finally:
            over.set()
        assert all(one.result(60) for one in customers)
    assert applied == ["0002_later"]
    assert till.sql("select from laters") == []
    till.check_books()


@pooler.direct("behind a pooler no statement outlives its transaction, so none is outdated")
async def test_a_statement_outdated_by_a_migration_runs_again(db: Db) -> None:
    async with db.transaction() as tx:
        order = await in_status(tx, "PENDING")

    async def look(tx: Tx) -> Order:
        return await orders.lock(tx, order.merchant_id, order.id)

    for _ in range(3):
        await db.run(look)
    async with db.connection() as tx:
        await tx.execute("alter table orders add column later text")
    with pytest.raises(asyncpg.InvalidCachedStatementError):
        async with db.transaction() as tx:
            await look(tx)
    async with db.connection() as tx:
        await tx.execute("alter table orders drop column later")
    assert await db.run(look) == order


def test_a_broken_origin_is_a_foreign_one(till: Till, shop: Shop) -> None:
    url = shop.session()["url"]
    form = {"email": "ann@example.com", "method": "CREDIT_CARD"}
    assert till.http.post(url, data=form, headers={"origin": "http://[::1"}).status_code == 403


async def test_the_lines_of_a_forwarded_header_are_one_list() -> None:
    seen = []

    async def app(scope: dict, *_: object) -> None:
        seen.append(scope["opentill_address"])

    edge = RequestMiddleware(app, None, [ip_network("10.0.0.0/8")])  # type: ignore[arg-type]
    lines = [(b"x-forwarded-for", text) for text in (b"192.0.2.9", b"198.51.100.7", b"10.0.0.2")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": lines}
    await edge(scope | {"client": ("10.0.0.1", 1)}, None, None)  # type: ignore[arg-type]
    assert seen == ["198.51.100.7"]


@pytest.mark.parametrize("job", ["settle", "release"])
async def test_a_merchant_whose_turn_fails_holds_up_no_other(db: Db, monkeypatch, job) -> None:
    async with db.transaction() as tx:
        terms = {"reserve_rate": "0.1", "reserve_days": 1}
        found = [await in_status(tx, "PAID", **terms) for _ in range(2)]
        if job == "release":
            found = [await settled(tx, order) for order in found]
    first, second = sorted(found, key=lambda order: order.merchant_id)
    post = settlement.ledger.post

    async def broken(tx: Tx, merchant_id: str, *rest):
        if merchant_id == first.merchant_id:
            message = "a defect"
            raise RuntimeError(message)
        return await post(tx, merchant_id, *rest)

    monkeypatch.setattr(settlement.ledger, "post", broken)
    work = settlement.settle_due if job == "settle" else settlement.release_reserves
    assert await work(db, NOW + 8 * DAY) == 1
    async with db.connection() as tx:
        after = await orders.find(tx, second.merchant_id, second.id)
    assert (after.status, after.reserve_status) == (
        "SETTLED",
        "HELD" if job == "settle" else "RELEASED",
    )
