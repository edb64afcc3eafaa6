"""The table of postings, and the numbers, times and balances of entries."""

import itertools
from collections.abc import AsyncIterator
from typing import get_args

import asyncpg
import msgspec
import pytest

from opentill import ledger
from opentill.db.database import Tx
from opentill.ledger import BY_MOVE, POSTINGS, Movement
from opentill.ledger.model import Accounts, Entry
from opentill.ledger.postings import ACCOUNTS, MERCHANT_ACCOUNTS, Type
from opentill.ledger.statement import LineOut
from support.books import ledger_violations
from support.transactions import rolled_back
from support.world import NOW, create_merchant, create_order_in, dump_rows, read_entries

MOVES = [
    (kind, source, target)
    for kind in get_args(Type)
    for source, target in itertools.permutations(ACCOUNTS, 2)
]
UNKNOWN = [move for move in MOVES if move not in BY_MOVE]
SIGNS = {"PAYMENT": 1, "FEE": -1, "FREEZE": -1, "UNFREEZE": 1, "SETTLEMENT": 1}


@pytest.fixture
async def tx(rollback_database_url: str) -> AsyncIterator[Tx]:
    """A transaction that is rolled back after a check of the ledger's rules.

    Other integrity rules would fail, because these entries have no order, refund or payout.
    """
    async with rolled_back(rollback_database_url) as connection:
        yield connection
        assert await ledger_violations(connection) == []


def move(kind, source, target, amount=100, cause="x") -> Movement:
    return Movement(kind, source, target, amount, "operator", cause, "a test")


async def fund(tx: Tx, merchant_id: str) -> None:
    """Post money to every account that must not become negative."""
    await ledger.post(
        tx, merchant_id, "USD",
        [
            move("ADMIN_RECHARGE", "bank", "available", 1_000, "first"),
            move("FREEZE", "available", "frozen", 300, "first"),
            move("ROLLING_RESERVE", "available", "reserve", 300, "first"),
        ],
        NOW,
    )  # fmt: skip


@pytest.mark.parametrize("posting", POSTINGS, ids=lambda p: f"{p.type}-{p.source}-{p.target}")
async def test_each_movement_of_the_table_can_be_posted(tx: Tx, posting) -> None:
    shop = await create_merchant(tx)
    await fund(tx, shop.id)
    before = await ledger.find_balance(tx, shop.id, "USD")
    after = await ledger.post(
        tx, shop.id, "USD", [move(posting.type, posting.source, posting.target)], NOW
    )
    for account in ACCOUNTS:
        change = 100 * ((account == posting.target) - (account == posting.source))
        assert getattr(after, account) == getattr(before, account) + change
    row = await tx.fetchrow("select * from entries where merchant_id = $1 and number = 4", shop.id)
    assert row["shown_minor"] == 100 * posting.shown
    is_given_back = posting.source == "platform"
    assert is_given_back or posting.shown == SIGNS.get(posting.type, posting.shown)


def test_balances_and_entries_have_the_accounts_of_the_table() -> None:
    assert Accounts.__struct_fields__ == ACCOUNTS
    after = [name for name in Entry.__struct_fields__ if name.endswith("_after")]
    assert after == [f"{account}_after" for account in MERCHANT_ACCOUNTS]
    shown = [name for name in LineOut.__struct_fields__ if name in {*ACCOUNTS, *after}]
    # New columns of statements are at the end.
    assert shown == [*MERCHANT_ACCOUNTS[:-1], *after[:-1], MERCHANT_ACCOUNTS[-1], after[-1]]


def test_the_table_has_every_type_once() -> None:
    assert {posting.type for posting in POSTINGS} == set(get_args(Type))
    assert len(BY_MOVE) == len(POSTINGS)


async def test_no_movement_outside_the_table_can_be_posted(tx: Tx) -> None:
    shop = await create_merchant(tx)
    before = await dump_rows(tx)
    for kind, source, target in UNKNOWN:
        with pytest.raises(KeyError):
            await ledger.post(tx, shop.id, "USD", [move(kind, source, target)], NOW)
    assert await dump_rows(tx) == before
    assert len(UNKNOWN) == len(MOVES) - len(POSTINGS)


INSERT = """
    insert into entries values ($1, 'USD', $2::bigint, 'txn_' || $2::bigint, $3, $4, $5, 100, $6,
        0, 0, 0, 0,
        'operator', 'y' || $2::bigint, '', 0)
"""


async def test_the_database_refuses_movements_outside_the_table(tx: Tx) -> None:
    shop = await create_merchant(tx)
    await fund(tx, shop.id)
    # Replica mode disables triggers.
    await tx.execute("set local session_replication_role = replica")
    numbers = itertools.count(10)
    refused = 0
    for (kind, source, target), sign in itertools.product(MOVES, (100, -100)):
        posting = BY_MOVE.get((kind, source, target))
        in_table = posting is not None and posting.shown * 100 == sign
        savepoint = tx.transaction()
        await savepoint.start()
        try:
            await tx.execute(INSERT, shop.id, next(numbers), kind, source, target, sign)
            assert in_table, (kind, source, target, sign)
        except asyncpg.CheckViolationError as error:
            assert error.constraint_name == "entries_follow_postings"
            assert not in_table
            refused += 1
        await savepoint.rollback()
    assert refused == 2 * len(MOVES) - len(POSTINGS)


@pytest.mark.parametrize("amount", [0, -1])
async def test_amounts_are_positive(tx: Tx, amount) -> None:
    shop = await create_merchant(tx)
    with pytest.raises(ValueError, match="positive"):
        await ledger.post(
            tx, shop.id, "USD", [move("ADMIN_RECHARGE", "bank", "available", amount)], NOW
        )


async def test_posting_nothing_is_a_defect(tx: Tx) -> None:
    with pytest.raises(ValueError, match="nothing"):
        await ledger.post(tx, "mer_x", "USD", [], NOW)


async def test_frozen_and_reserved_money_never_goes_below_zero(tx: Tx) -> None:
    shop = await create_merchant(tx)
    await fund(tx, shop.id)
    before = await dump_rows(tx)
    for kind, source, target in (
        ("UNFREEZE", "frozen", "available"),
        ("REFUND", "frozen", "gateway"),
        ("ROLLING_RESERVE_RELEASE", "reserve", "available"),
    ):
        with pytest.raises(asyncpg.CheckViolationError):
            async with tx.transaction():
                await ledger.post(tx, shop.id, "USD", [move(kind, source, target, 301)], NOW)
    assert await dump_rows(tx) == before


async def test_each_movement_of_a_cause_is_posted_once(tx: Tx) -> None:
    shop = await create_merchant(tx)
    await fund(tx, shop.id)
    before = await dump_rows(tx)
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        async with tx.transaction():
            repeated = move("ADMIN_RECHARGE", "bank", "available", 5, "first")
            await ledger.post(tx, shop.id, "USD", [repeated], NOW)
    assert refused.value.constraint_name == "entries_once"
    assert await dump_rows(tx) == before


async def test_numbers_times_and_balances_stay_in_order_when_the_clock_goes_back(tx: Tx) -> None:
    shop = await create_merchant(tx)
    times = (NOW, NOW + 50, NOW - 90_000, NOW + 50, 0, NOW + 51)
    for time, number in zip(times, itertools.count(), strict=False):
        batch = [
            move("ADMIN_RECHARGE", "bank", "available", 10 + i, f"{number}-{i}") for i in range(3)
        ]
        await ledger.post(tx, shop.id, "USD", batch, time)
    rows = await tx.fetch("select * from entries where merchant_id = $1 order by number", shop.id)
    assert [row["number"] for row in rows] == list(range(1, 19))
    created = [row["created_at"] for row in rows]
    assert created == sorted(created)
    assert created[-1] == NOW + 51
    running = list(itertools.accumulate(row["amount_minor"] for row in rows))
    assert [row["available_after"] for row in rows] == running
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    balance = await ledger.find_balance(tx, shop.id, "USD")
    assert balance is not None
    assert (balance.available, balance.bank) == (running[-1], -running[-1])
    assert (balance.entries, balance.last_at) == (18, NOW + 51)


async def test_each_currency_has_its_own_entry_numbers(tx: Tx) -> None:
    shop = await create_merchant(tx)
    for currency in ("USD", "JPY", "KWD"):
        first = move("ADMIN_RECHARGE", "bank", "available", 10, currency)
        balance = await ledger.post(tx, shop.id, currency, [first], NOW)
        assert (balance.entries, balance.available) == (1, 10)


@pytest.mark.parametrize("statement", [
    "update entries set description = 'other'",
    "delete from entries",
    "truncate entries",
    "update order_history set cause = 'other'",
    "delete from order_history",
])  # fmt: skip
async def test_entries_and_history_cannot_be_changed(tx: Tx, statement) -> None:
    order = await create_order_in(tx, "PAID")
    await tx.execute("set constraints all immediate")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        async with tx.transaction():
            await tx.execute(statement)
    assert len(await read_entries(tx, order.merchant_id)) == 2


async def test_posting_to_several_balances_at_once_equals_posting_to_each(tx: Tx) -> None:
    shops = [(await create_merchant(tx)).id for _ in range(2)]
    movements = {
        (shop, currency): [
            move("PAYMENT", "gateway", "pending", 1000 * number),
            move("FEE", "pending", "platform", number),
            move("SETTLEMENT", "pending", "available", 10 * number),
        ]
        for number, (shop, currency) in enumerate(itertools.product(shops, ("USD", "CNY")), 1)
    }
    for cause, delay_ms in (("x", 0), ("y", 5)):
        batch = {
            key: [msgspec.structs.replace(m, cause_id=cause + key[1]) for m in moves]
            for key, moves in movements.items()
        }
        await ledger.post_many(tx, batch, NOW + delay_ms)
    for number, (shop, currency) in enumerate(movements, 1):
        balance = await ledger.find_balance(tx, shop, currency)
        assert balance is not None
        assert (balance.pending, balance.available) == (2 * 989 * number, 20 * number)
        assert (balance.entries, balance.last_at) == (6, NOW + 5)
        rows = await tx.fetch(
            "select number, pending_after, available_after, created_at from entries"
            " where merchant_id = $1 and currency = $2 order by number", shop, currency,
        )  # fmt: skip
        assert [tuple(row) for row in rows] == [
            (1, 1000 * number, 0, NOW),
            (2, 999 * number, 0, NOW),
            (3, 989 * number, 10 * number, NOW),
            (4, 1989 * number, 10 * number, NOW + 5),
            (5, 1988 * number, 10 * number, NOW + 5),
            (6, 1978 * number, 20 * number, NOW + 5),
        ]
