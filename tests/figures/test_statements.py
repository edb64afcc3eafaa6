"""Statements add up exactly, from entries or from figures, no matter how far these are counted."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from figures.busy_month import count_figures, create_busy_month
from opentill import adjustments, figures, ledger, payouts
from opentill.db.database import Tx
from opentill.figures import jobs
from opentill.figures.model import Behind, day_bounds, local
from opentill.ledger import MERCHANT_ACCOUNTS, POSTINGS, Account, Movement, StatementError, Type
from opentill.list_counts import FOREVER
from opentill.payouts import PayoutRequest
from support import world
from support.list_connection import SingleTransactionDb
from support.transactions import rolled_back
from support.world import DAY, NOW

KATHMANDU: Final = ZoneInfo("Asia/Kathmandu")
# For each type of entry, the line of the statement that it changes. It is
# written here again, so that an error in the code under test is found.
LINE_OF_TYPE: Final = {
    "PAYMENT": "payments",
    "REFUND": "refunds",
    "CHARGEBACK": "disputes",
    "CHARGEBACK_RECOVERY": "recovered",
    "FEE": "fees",
    "CHARGEBACK_FEE": "dispute_fees",
    "PAYOUT": "payouts",
    "ADMIN_RECHARGE": "recharges",
}


async def create_month_with_payouts(tx: Tx, seed: int) -> str:
    """Create a merchant with a month of all kinds of entries; return the merchant's id."""
    rng = random.Random(seed)
    merchant_id = (await create_busy_month(tx, rng)).merchant_id
    select_paid = "select id from orders where merchant_id = $1 and status = 'PAID' order by id"
    order_id = await tx.fetchval(select_paid, merchant_id)
    for number in range(6):
        now = NOW + number * DAY // 2
        for kind in ("recharge", "correct", "fee"):
            minor = rng.randrange(100, 1_000)
            order_field = {"order_id": order_id} if kind == "correct" else {}
            if kind == "correct" and number % 2:
                minor = -minor
            adjustment = adjustments.AdjustmentRequest(
                kind=kind,
                amount_minor=minor + 5_000 * (kind == "recharge"),
                reference=world.new_reference(),
                reason="test",
                by="ann",
                **order_field,
            )
            await adjustments.request(tx, merchant_id, adjustment, None, now)
        payout_request = PayoutRequest(
            amount_minor=500,
            fee_minor=70,
            reference=world.new_reference(),
            reason="weekly",
            by="ann",
        )
        payout = await payouts.create(tx, merchant_id, payout_request, None, now)
        if number % 2:
            await payouts.fail(tx, payout.id, "closed", "ann", now + DAY)
    return merchant_id


async def sum_entries(tx: Tx, merchant_id: str, since: int, until: int) -> tuple[Any, ...]:
    """Return the entries before and within a range, and the latter's sums by line and by type."""
    rows = await tx.fetch(
        "select * from entries where merchant_id = $1 order by number", merchant_id
    )
    before = [row for row in rows if row["created_at"] < since]
    inside = [row for row in rows if since <= row["created_at"] <= until]
    lines: Counter[str] = Counter()
    types: Counter[tuple[str, str]] = Counter()
    for row in inside:
        for side, sign in (("to_account", 1), ("from_account", -1)):
            if row[side] in MERCHANT_ACCOUNTS:
                is_return = (row["type"], row["source_type"]) == ("BALANCE_CORRECTION", "payout")
                line = LINE_OF_TYPE.get(row["type"], "fees" if is_return else "corrections")
                lines[line] += sign * row["amount_minor"]
                types[row["type"], row[side]] += sign * row["amount_minor"]
    return before, inside, lines, types


def account_balances(rows: list[Any]) -> dict[str, int]:
    return {name: rows[-1][f"{name}_after"] if rows else 0 for name in MERCHANT_ACCOUNTS}


def random_range(rng: random.Random, zone: ZoneInfo) -> tuple[int, int]:
    """Return bounds of random days around the month; 0 and FOREVER leave a side open."""
    today = local(NOW, zone).date()
    first_day, last_day = sorted(today - timedelta(days=rng.randrange(-8, 35)) for _ in range(2))
    since, until = day_bounds(first_day, zone).since, day_bounds(last_day, zone).until - 1
    return rng.choice([since, since, 0]), rng.choice([until, until, FOREVER])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("counted", ["not", "partly", "wholly"])
async def test_a_statement_sums_its_entries(tx: Tx, seed: int, counted: str) -> None:
    merchant_id = await create_month_with_payouts(tx, seed)
    rng = random.Random(seed)
    number = len(await tx.fetch("select from entries where merchant_id = $1", merchant_id))
    most = 50_000
    if counted == "partly":
        await jobs.count_entries(tx, Behind(merchant_id, "USD", 0), number // 2)
        most = number - number // 2
    elif counted == "wholly":
        while await jobs.count_entries(tx, Behind(merchant_id, "USD", 0), 5000):
            most = 0
    for _ in range(12):
        since, until = random_range(rng, KATHMANDU)
        statements = await figures.statements(
            SingleTransactionDb(tx), merchant_id, (since, until), most
        )
        (statement,) = statements
        before, inside, lines, types = await sum_entries(tx, merchant_id, since, until)
        assert statement.entries == len(inside)
        assert statement.opening == account_balances(before)
        assert statement.closing == account_balances(before + inside)
        assert statement.changes == {name: lines[name] for name in statement.changes or ()}
        assert (
            statement.opening_minor + sum((statement.changes or {}).values())
            == statement.closing_minor
        )
        if len(inside) > most:
            assert statement.types is None
        else:
            sums = {(row.type, name): getattr(row, name)
                     for row in statement.types or () for name in MERCHANT_ACCOUNTS}  # fmt: skip
            assert Counter(sums) == types
            assert sum(row.entries for row in statement.types or ()) == len(inside)


@pytest.fixture
async def books_tx(rollback_database_url: str) -> AsyncIterator[Tx]:
    """A transaction that is rolled back, because its entries would violate the integrity rules."""
    async with rolled_back(rollback_database_url) as connection:
        yield connection


async def test_each_type_of_posting_has_a_line_on_the_statement(books_tx: Tx) -> None:
    shop = await world.create_merchant(books_tx)

    async def post(cause: str, *moves: tuple[Type, Account, Account, int]) -> figures.Statement:
        movements = [Movement(*move, "operator", cause, "a test") for move in moves]
        await ledger.post(books_tx, shop.id, "USD", movements, NOW)
        (statement,) = await figures.statements(
            SingleTransactionDb(books_tx), shop.id, (0, FOREVER)
        )
        return statement

    before = await post(
        "first",
        ("ADMIN_RECHARGE", "bank", "available", 1_000),
        ("FREEZE", "available", "frozen", 300),
        ("ROLLING_RESERVE", "available", "reserve", 300),
    )
    for posting in POSTINGS:  # a posting without a line raises StatementError
        after = await post("second", (posting.type, posting.source, posting.target, 100))
        direction = (posting.target in MERCHANT_ACCOUNTS) - (posting.source in MERCHANT_ACCOUNTS)
        assert after.closing_minor == before.closing_minor + 100 * direction, posting
        assert (after.changes != before.changes) == bool(direction), posting
        before = after


async def test_a_statement_omits_sums_over_too_many_uncounted_entries(tx: Tx) -> None:
    merchant_id = await create_month_with_payouts(tx, 1)
    (statement,) = await figures.statements(SingleTransactionDb(tx), merchant_id, (0, FOREVER), 10)
    assert statement.changes is None
    assert statement.types is None
    assert statement.opening_minor == 0 < statement.closing_minor


async def test_wrong_figures_raise_a_statement_error(tx: Tx) -> None:
    merchant_id = await create_month_with_payouts(tx, 2)
    order_id = await tx.fetchval(
        "select id from orders where merchant_id = $1 limit 1", merchant_id
    )
    await count_figures(tx, await world.orders.find(tx, merchant_id, order_id))
    corrupt = "update figures set paid_minor = paid_minor + 1 where merchant_id = $1"
    with pytest.raises(StatementError):
        async with tx.transaction():
            await tx.execute(corrupt, merchant_id)
            await figures.statements(SingleTransactionDb(tx), merchant_id, (0, FOREVER), 10)


async def test_a_range_that_does_not_begin_at_a_quarter_hour_raises_an_error(tx: Tx) -> None:
    with pytest.raises(ValueError, match="quarter hours"):
        await figures.statements(
            SingleTransactionDb(tx),
            "mer_x",
            (day_bounds(date(2026, 1, 1), KATHMANDU).since + 1, FOREVER),
        )
