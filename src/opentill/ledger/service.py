"""Posting to the ledger, and reading balances, rules and the state of checks."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from opentill.core.ids import first_id
from opentill.db.database import Tx
from opentill.db.query import Query, columns
from opentill.ledger import queries
from opentill.ledger.model import (
    Balance,
    BalanceCheck,
    Checked,
    CheckedBalance,
    Entry,
    Movement,
    PassesSum,
    TrialBalance,
    Violation,
)
from opentill.ledger.postings import ACCOUNTS, POSTINGS, Account, Cause


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """A balance's changes and number of new entries, as a row of parameters of ``queries.POST``."""

    merchant_id: str
    currency: str
    entries: int
    pending: int
    available: int
    frozen: int
    reserve: int
    prepaid: int
    gateway: int
    bank: int
    platform: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A movement as a row of parameters of ``queries.POST``; ``book`` counts from 1.

    ``random`` is the random end of the entry's id. ``later`` is the number of movements of the same
    book that follow this one, and ``later_…`` are the changes of the accounts by these later
    movements.
    """

    book: int
    later: int
    random: str
    type: str
    source: str
    target: str
    amount_minor: int
    shown_minor: int
    cause_type: str
    cause_id: str
    description: str
    later_pending: int
    later_available: int
    later_frozen: int
    later_reserve: int
    later_prepaid: int


async def post(
    tx: Tx, merchant_id: str, currency: str, movements: Sequence[Movement], now: int
) -> Balance:
    """Write movements in their order and return the balance after the last.

    This locks the balance's row, so call it last in a transaction. The time of an entry is ``now``
    (Unix ms), or the time of the previous entry if that is later. Raises ValueError for an amount
    that is not positive and KeyError for a movement that is not in the table; both are defects of
    the caller.
    """
    values = {**_columns({(merchant_id, currency): movements}), "now": now}
    after = await queries.POST.all(tx, **values)
    if not after:  # the balance has no row before the first movement
        await queries.OPEN.run(tx, merchant_id=merchant_id, currency=currency)
        after = await queries.POST.all(tx, **values)
    (balance,) = after
    return balance


async def find_entries(
    tx: Tx, merchant_id: str, causes: Sequence[tuple[Cause, str]]
) -> list[Entry]:
    """Return the entries of several causes, such as an order and its refunds, in order."""
    return await queries.CAUSED_BY.all(
        tx,
        merchant_id=merchant_id,
        source_type=[kind for kind, _ in causes],
        source_id=[cause_id for _, cause_id in causes],
    )


async def post_many(tx: Tx, books: Mapping[tuple[str, str], Sequence[Movement]], now: int) -> None:
    """Write the movements of many merchants and currencies, like ``post`` for one.

    Locks their rows in the order of (merchant, currency) first, so that two transactions that post
    to the same balances cannot deadlock.
    """
    balance_keys = sorted(books)
    if not balance_keys:
        return
    keys = {
        "merchant_id": [merchant_id for merchant_id, _ in balance_keys],
        "currency": [currency for _, currency in balance_keys],
    }
    locked = await queries.LOCK_MANY.all(tx, **keys)
    if len(locked) < len(balance_keys):  # a balance has no row before its first movement
        for merchant_id, currency in balance_keys:
            await queries.OPEN.run(tx, merchant_id=merchant_id, currency=currency)
        await queries.LOCK_MANY.all(tx, **keys)
    after = await queries.POST.all(tx, **_columns(books), now=now)
    if len(after) != len(balance_keys):
        raise AssertionError  # all rows exist and are locked, so each must have been updated


def _columns(postings: Mapping[tuple[str, str], Sequence[Movement]]) -> dict[str, list[Any]]:
    """Return the columns of ``queries.POST``. Raises the exceptions of ``post``."""
    books: list[Book] = []
    rows: list[Row] = []
    for (merchant_id, currency), movements in postings.items():
        moved = dict.fromkeys(ACCOUNTS, 0)
        backwards: list[Row] = []
        for later, movement in enumerate(reversed(movements)):
            if movement.amount_minor <= 0:
                msg = f"a posting moves a positive amount: {movement}"
                raise ValueError(msg)
            backwards.append(_row(len(books) + 1, movement, later, moved))
            moved[movement.source] -= movement.amount_minor
            moved[movement.target] += movement.amount_minor
        rows += reversed(backwards)
        number = len(movements)
        books.append(Book(merchant_id=merchant_id, currency=currency, entries=number, **moved))
    if not rows:
        msg = "nothing to post"
        raise ValueError(msg)
    return columns(Book, books) | columns(Row, rows)


def _row(book: int, movement: Movement, later: int, moved: Mapping[Account, int]) -> Row:
    return Row(
        book=book,
        later=later,
        random=secrets.token_hex(4),
        type=movement.type,
        source=movement.source,
        target=movement.target,
        amount_minor=movement.amount_minor,
        shown_minor=movement.shown_minor,
        cause_type=movement.cause_type,
        cause_id=movement.cause_id,
        description=movement.description,
        later_pending=moved["pending"],
        later_available=moved["available"],
        later_frozen=moved["frozen"],
        later_reserve=moved["reserve"],
        later_prepaid=moved["prepaid"],
    )


async def find_balance(tx: Tx, merchant_id: str, currency: str) -> Balance | None:
    """Return a balance; None before its first movement."""
    return await queries.BALANCE.first(tx, merchant_id=merchant_id, currency=currency)


async def find_balances(tx: Tx, merchant_ids: Sequence[str]) -> list[Balance]:
    """Return the balances of merchants in all their currencies."""
    return await queries.BALANCES_OF.all(tx, merchant_ids=list(merchant_ids))


def rules() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return the rules of the ledger itself, with their parameters."""
    own_rules: list[tuple[Query[Violation], Mapping[str, Any]]] = [
        (rule, {}) for rule in queries.RULES
    ]
    return [*own_rules, (queries.UNKNOWN_MOVES, posting_columns())]


def posting_columns() -> dict[str, list[Any]]:
    """Return the table of postings as columns, for rules that find entries outside of it."""
    return {
        "type": [posting.type for posting in POSTINGS],
        "source": [posting.source for posting in POSTINGS],
        "target": [posting.target for posting in POSTINGS],
        "shown": [posting.shown for posting in POSTINGS],
    }


async def count_entries(tx: Tx) -> int:
    """Return the number of entries of all merchants."""
    return await queries.ENTRIES.get(tx) or 0


async def count_violations(tx: Tx) -> Checked:
    """Return the totals of the incremental check over all merchants."""
    return await queries.CHECKED.one(tx)


async def count_overdue(tx: Tx, since: int) -> int:
    """Return the number of balances without a whole pass since a time (real time, Unix ms)."""
    made_before = first_id("mer", since)
    return await queries.OVERDUE.get(tx, since=since, made_before=made_before) or 0


async def summarize_passes(tx: Tx) -> PassesSum:
    """Return the state of the incremental check over all balances."""
    return await queries.PASSES.one(tx)


async def list_checks(tx: Tx, merchant_id: str | None, limit: int) -> list[BalanceCheck]:
    """Return the state of the incremental check by balance, of a merchant or of all.

    Balances with violations come first, then those with a running pass, then those whose last pass
    ended earliest.
    """
    return await queries.CHECKS.all(tx, merchant_id=merchant_id, limit=limit)


async def list_violated(tx: Tx, limit: int) -> list[CheckedBalance]:
    """Return balances in which the incremental check found violations."""
    return await queries.VIOLATED.all(tx, limit=limit)


async def trial_balance(tx: Tx, merchant_id: str | None = None) -> list[TrialBalance]:
    """Return the trial balance by currency, of a merchant or of all.

    Every movement takes from one account what it gives to another, so the accounts of a currency
    add up to zero.
    """
    return await queries.TRIAL_BALANCE.all(tx, merchant_id=merchant_id)
