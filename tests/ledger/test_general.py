"""The trial balance at any time and the general ledger sum to zero."""

import csv
import io
from decimal import Decimal

from opentill import ledger, rates
from opentill.db.database import Db
from opentill.ledger.postings import ACCOUNTS
from support import world
from support.world import NOW


async def _create_entries(db: Db) -> list[str]:
    """Settle one order, and later refund a part of another one in another currency."""
    first = await db.run(lambda tx: world.create_order_in(tx, "SETTLED"))
    await db.run(lambda tx: rates.put(tx, "JPY", "USD", Decimal("0.0065"), NOW - 1))
    second = await db.run(
        lambda tx: world.create_order(tx, "1000", "JPY", settlement_currency="JPY")
    )
    second = await db.run(lambda tx: world.pay_order(tx, second, NOW + 10))
    refund = await db.run(lambda tx: world.create_refund(tx, second, "300", NOW + 20))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED", NOW + 30))
    return [first.merchant_id, second.merchant_id]


async def _read_file(db: Db, *arguments: int | str | None) -> list[dict[str, str]]:
    content = b"".join([chunk async for chunk in ledger.general_ledger_file(db, *arguments)])
    return list(csv.DictReader(io.StringIO(content.decode())))


async def test_the_trial_balance_at_any_time_sums_the_entries_until_then(db: Db) -> None:
    shops = await _create_entries(db)
    for time in (NOW - 1, NOW, NOW + 10, NOW + 20, NOW + 30, NOW + 99):
        balances = await db.read(lambda tx, time=time: ledger.trial_balance_at(tx, time))
        rows = await _read_file(db, None, time)
        for balance in balances:
            assert sum(getattr(balance, account) for account in ACCOUNTS) == 0
            for account in ACCOUNTS:
                amounts = [
                    Decimal(row["amount"])
                    for row in rows
                    if (row["currency"], row["account"]) == (balance.currency, account)
                ]
                unit = 100 if balance.currency == "USD" else 1
                expected = Decimal(getattr(balance, account)) / unit
                assert sum(amounts) == expected, (time, balance.currency, account)
        assert len(balances) == (time >= NOW) + (time >= NOW + 10)
    last = await db.read(lambda tx: ledger.trial_balance_at(tx, NOW + 99))
    assert last == await db.read(ledger.trial_balance)
    async with db.connection() as tx:
        balances = [row async for row in ledger.balances_at(tx, NOW + 10, shops[1])]
    assert [(row.merchant_id, row.pending, row.frozen) for row in balances] == [(shops[1], 960, 0)]


async def test_the_general_ledger_has_a_debit_and_a_credit_per_entry(db: Db) -> None:
    shops = await _create_entries(db)
    rows = await _read_file(db, None, None)
    for debit, credit in zip(rows[::2], rows[1::2], strict=True):
        assert debit["entryId"] == credit["entryId"]
        assert (debit["debit"], debit["credit"]) == (credit["credit"], "")
        assert credit["debit"] == ""
        assert Decimal(debit["amount"]) + Decimal(credit["amount"]) == 0
    assert len(rows) == 2 * len(await _list_entries(db, shops))
    assert await _read_file(db, None, 0) == []  # 0 means 1970; None would mean no limit
    rows = await _read_file(db, NOW + 10, NOW + 10, shops[1])
    assert [(row["type"], row["account"]) for row in rows] == [
        ("PAYMENT", "gateway"), ("PAYMENT", "pending"), ("FEE", "pending"), ("FEE", "platform"),
    ]  # fmt: skip


async def _list_entries(db: Db, shops: list[str]) -> list[ledger.Entry]:
    entries: list[ledger.Entry] = []
    for shop in shops:
        entries += (await ledger.list_entries(db, shop, None, 1, 100, (0, 2**62)))[0]
    return entries
