"""Posting to the ledger, and checking it."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from opentill.core.ids import first_id
from opentill.db.database import Tx
from opentill.db.query import Query, Statement, columns
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
from opentill.ledger.postings import ACCOUNTS, MERCHANT_ACCOUNTS, POSTINGS, Account, Cause


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """What one balance gets, as ``queries.POST`` takes it: how its accounts change."""

    merchant_id: str
    currency: str
    entries: int
    pending: int
    available: int
    frozen: int
    reserve: int
    gateway: int
    bank: int
    platform: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A movement as ``queries.POST`` takes it, of the book of this number, from 1.

    ``random`` is the end of its entry's id. ``later`` is how many movements of the book follow,
    and ``later_…`` what these move.
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


async def post(
    tx: Tx, merchant_id: str, currency: str, movements: Sequence[Movement], now: int
) -> Balance:
    """Write movements, in their order, and return the balance after the last.

    It locks the balance row, so it comes last in a transaction. Entry times are ``now`` (Unix ms),
    or the time of the entry before where that is later. Raises ValueError for an amount that is not
    positive and KeyError for a movement that is not in the table: both are defects of the caller.
    """
    values = {**_columns({(merchant_id, currency): movements}), "now": now}
    after = await _write(tx, values)
    if not after:  # the first movement in this currency
        await queries.OPEN.run(tx, merchant_id=merchant_id, currency=currency)
        after = await _write(tx, values)
    (balance,) = after
    return balance


async def _write(tx: Tx, values: Mapping[str, Any]) -> list[Balance]:
    """Change the balances that are there, and write the entries; return the balances after it."""
    after = await queries.POST.all(tx, **values)
    if Statement.distributes and after:
        rows = {name: values[name] for name in Row.__struct_fields__}
        books = list(zip(values["merchant_id"], values["currency"], strict=True))
        names = ("merchant_id", "currency", "entries", "last_at", *MERCHANT_ACCOUNTS)
        lists = {f"after_{name}": [getattr(one, name) for one in after] for name in names}
        numbers = [books.index((one.merchant_id, one.currency)) + 1 for one in after]
        await queries.WRITE.run(tx, **rows, **lists, after_book=numbers)
    return after


async def caused_by(tx: Tx, merchant_id: str, causes: Sequence[tuple[Cause, str]]) -> list[Entry]:
    """Return what some causes, such as an order and its refunds, have posted, in its order."""
    return await queries.CAUSED_BY.all(
        tx,
        merchant_id=merchant_id,
        source_type=[kind for kind, _ in causes],
        source_id=[cause_id for _, cause_id in causes],
    )


async def post_many(tx: Tx, books: Mapping[tuple[str, str], Sequence[Movement]], now: int) -> None:
    """Write the movements of many merchants and currencies, as ``post`` does those of one.

    Their rows are locked in the order of (merchant, currency) first, so that two transactions that
    post to the same ones cannot deadlock.
    """
    wanted = sorted(books)
    if not wanted:
        return
    keys = {
        "merchant_id": [merchant_id for merchant_id, _ in wanted],
        "currency": [currency for _, currency in wanted],
    }
    locked = await queries.LOCK_MANY.all(tx, **keys)
    if len(locked) < len(wanted):  # the first movement of some
        for merchant_id, currency in wanted:
            await queries.OPEN.run(tx, merchant_id=merchant_id, currency=currency)
        await queries.LOCK_MANY.all(tx, **keys)
    after = await _write(tx, {**_columns(books), "now": now})
    if len(after) != len(wanted):
        raise AssertionError  # the rows are there and locked


def _columns(posted: Mapping[tuple[str, str], Sequence[Movement]]) -> dict[str, list[Any]]:
    """Return the columns of ``queries.POST``. Raises as ``post`` does."""
    books: list[Book] = []
    rows: list[Row] = []
    for (merchant_id, currency), movements in posted.items():
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
    )


async def balance(tx: Tx, merchant_id: str, currency: str) -> Balance | None:
    """Return a balance, None before the first movement."""
    return await queries.BALANCE.first(tx, merchant_id=merchant_id, currency=currency)


def rules() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return every rule of the ledger itself, with its values."""
    found: list[tuple[Query[Violation], Mapping[str, Any]]] = [(rule, {}) for rule in queries.RULES]
    return [*found, (queries.UNKNOWN_MOVES, known_moves())]


def known_moves() -> dict[str, list[Any]]:
    """Return the table of postings by its columns, for rules that find entries outside of it."""
    return {
        "type": [posting.type for posting in POSTINGS],
        "source": [posting.source for posting in POSTINGS],
        "target": [posting.target for posting in POSTINGS],
        "shown": [posting.shown for posting in POSTINGS],
    }


async def count(tx: Tx) -> int:
    """Return how many entries there are, of all merchants."""
    return await queries.ENTRIES.get(tx) or 0


async def checked(tx: Tx) -> Checked:
    """Return what the incremental check found so far, of all merchants."""
    return await queries.CHECKED.one(tx)


async def count_overdue(tx: Tx, since: int) -> int:
    """Return of how many balances no whole pass has ended since then (real time, Unix ms)."""
    made_before = first_id("mer", since)
    return await queries.OVERDUE.get(tx, since=since, made_before=made_before) or 0


async def passes(tx: Tx) -> PassesSum:
    """Return how far the incremental check is with all balances together."""
    return await queries.PASSES.one(tx)


async def checks(tx: Tx, merchant_id: str | None, limit: int) -> list[BalanceCheck]:
    """Return how the check stands with balances, of a merchant or of all.

    First those with violations, then those that are being checked, then by the age of their check.
    """
    return await queries.CHECKS.all(tx, merchant_id=merchant_id, limit=limit)


async def violated(tx: Tx, limit: int) -> list[CheckedBalance]:
    """Return balances in which the incremental check found violations."""
    return await queries.FOUND.all(tx, limit=limit)


async def trial_balance(tx: Tx, merchant_id: str | None = None) -> list[TrialBalance]:
    """Return what each account holds now, by currency, of a merchant or of all of them together.

    Every movement takes from one account what it gives to another, so that each adds up to zero.
    """
    return await queries.TRIAL_BALANCE.all(tx, merchant_id=merchant_id)
