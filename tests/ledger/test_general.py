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
    first = await db.run(lambda tx: world.create_order_in(tx, "SETTLED"))
    await db.run(lambda tx: rates.put(tx, "JPY", "USD", Decimal("0.0065"), NOW - 1))
    second = await db.run(
        lambda tx: world.create_order(tx, "1000", "JPY", settlement_currency="JPY")
    )
    second = await db.run(lambda tx: world.pay_order(tx, second, NOW + 10))
    refund = await db.run(lambda tx: world.create_refund(tx, second, "300", NOW + 20))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED", NOW + 30))
    return [first.merchant_id, second.merchant_id]


async def _rows(db: Db, *arguments: int | str | None) -> list[dict[str, str]]:
    content = b"".join([chunk async for chunk in ledger.general_ledger_file(db, *arguments)])
    return list(csv.DictReader(io.StringIO(content.decode())))


async def test_the_trial_balance_at_any_time_sums_the_entries_until_then(db: Db) -> None:
    shops = await _business(db)
    for at in (NOW - 1, NOW, NOW + 10, NOW + 20, NOW + 30, NOW + 99):
        balances = await db.read(lambda tx, at=at: ledger.trial_balance_at(tx, at))
        rows = await _rows(db, None, at)
        for balance in balances:
            assert sum(getattr(balance, account) for account in ACCOUNTS) == 0
            for account in ACCOUNTS:
                amounts = [
                    Decimal(row["amount"])
                    for row in rows
                    if (row["currency"], row["account"]) == (balance.currency, account)
                ]
                held = Decimal(getattr(balance, account)) / (
                    100 if balance.currency == "USD" else 1
                )
                assert sum(amounts) == held, (at, balance.currency, account)
        assert len(balances) == (at >= NOW) + (at >= NOW + 10)
    last = await db.read(lambda tx: ledger.trial_balance_at(tx, NOW + 99))
    assert last == await db.read(ledger.trial_balance)
    async with db.connection() as tx:
        balances = [row async for row in ledger.balances_at(tx, NOW + 10, shops[1])]
    assert [(row.merchant_id, row.pending, row.frozen) for row in balances] == [(shops[1], 960, 0)]


async def test_the_general_ledger_has_a_debit_and_a_credit_per_entry(db: Db) -> None:
    shops = await _business(db)
    rows = await _rows(db, None, None)
    for debit, credit in zip(rows[::2], rows[1::2], strict=True):
        assert debit["entryId"] == credit["entryId"]
        assert (debit["debit"], debit["credit"]) == (credit["credit"], "")
        assert credit["debit"] == ""
        assert Decimal(debit["amount"]) + Decimal(credit["amount"]) == 0
    assert len(rows) == 2 * len(await _entries(db, shops))
    assert await _rows(db, None, 0) == []  # until 1970, not for ever
    only = await _rows(db, NOW + 10, NOW + 10, shops[1])
    assert [(row["type"], row["account"]) for row in only] == [
        ("PAYMENT", "gateway"), ("PAYMENT", "pending"), ("FEE", "pending"), ("FEE", "platform"),
    ]  # fmt: skip


async def _entries(db: Db, shops: list[str]) -> list[ledger.Entry]:
    entries: list[ledger.Entry] = []
    for shop in shops:
        entries += (await ledger.list_entries(db, shop, None, 1, 100, (0, 2**62)))[0]
    return entries
