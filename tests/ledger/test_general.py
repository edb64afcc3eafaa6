"""The trial balance at any moment, and the general ledger: all of it adds up to zero."""

import csv
import io
from decimal import Decimal

from opentill import ledger, rates
from opentill.db.database import Db
from opentill.ledger.postings import ACCOUNTS
from support import world
from support.world import NOW


async def _business(db: Db) -> list[str]:
    """Settle one order, and refund a part of another one later; in two currencies."""
    first = await db.run(lambda tx: world.in_status(tx, "SETTLED"))
    await db.run(lambda tx: rates.put(tx, "JPY", "USD", Decimal("0.0065"), NOW - 1))
    second = await db.run(lambda tx: world.opened(tx, "1000", "JPY", settlement_currency="JPY"))
    second = await db.run(lambda tx: world.paid(tx, second, NOW + 10))
    refund = await db.run(lambda tx: world.refunded(tx, second, "300", NOW + 20))
    await db.run(lambda tx: world.refund_said(tx, refund, "SUCCEEDED", NOW + 30))
    return [first.merchant_id, second.merchant_id]


async def _rows(db: Db, *given: int | str | None) -> list[dict[str, str]]:
    content = b"".join([chunk async for chunk in ledger.general_ledger_file(db, *given)])
    return list(csv.DictReader(io.StringIO(content.decode())))


async def test_the_trial_balance_of_any_moment_is_what_the_ledger_says_until_then(db: Db) -> None:
    shops = await _business(db)
    for at in (NOW - 1, NOW, NOW + 10, NOW + 20, NOW + 30, NOW + 99):
        found = await db.read(lambda tx, at=at: ledger.trial_balance_at(tx, at))
        rows = await _rows(db, None, at)
        for one in found:
            assert sum(getattr(one, account) for account in ACCOUNTS) == 0
            for account in ACCOUNTS:
                amounts = [
                    Decimal(row["amount"])
                    for row in rows
                    if (row["currency"], row["account"]) == (one.currency, account)
                ]
                held = Decimal(getattr(one, account)) / (100 if one.currency == "USD" else 1)
                assert sum(amounts) == held, (at, one.currency, account)
        assert len(found) == (at >= NOW) + (at >= NOW + 10)
    last = await db.read(lambda tx: ledger.trial_balance_at(tx, NOW + 99))
    assert last == await db.read(ledger.trial_balance)
    async with db.connection() as tx:
        one = [row async for row in ledger.balances_at(tx, NOW + 10, shops[1])]
    assert [(row.merchant_id, row.pending, row.frozen) for row in one] == [(shops[1], 960, 0)]


async def test_the_general_ledger_has_a_debit_and_a_credit_of_each_entry(db: Db) -> None:
    shops = await _business(db)
    rows = await _rows(db, None, None)
    for one, other in zip(rows[::2], rows[1::2], strict=True):
        assert one["entryId"] == other["entryId"]
        assert (one["debit"], one["credit"]) == (other["credit"], "")
        assert other["debit"] == ""
        assert Decimal(one["amount"]) + Decimal(other["amount"]) == 0
    assert len(rows) == 2 * len(await _entries(db, shops))
    assert await _rows(db, None, 0) == []  # until 1970, not for ever
    only = await _rows(db, NOW + 10, NOW + 10, shops[1])
    assert [(row["type"], row["account"]) for row in only] == [
        ("PAYMENT", "gateway"), ("PAYMENT", "pending"), ("FEE", "pending"), ("FEE", "platform"),
    ]  # fmt: skip


async def _entries(db: Db, shops: list[str]) -> list[ledger.Entry]:
    found: list[ledger.Entry] = []
    for shop in shops:
        found += (await ledger.list_entries(db, shop, None, 1, 100, (0, 2**62)))[0]
    return found
