"""Posting to the ledger, and checking it."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from opentill.core.db import Query, Tx
from opentill.ledger import queries
from opentill.ledger.model import Balance, Movement, Violation
from opentill.ledger.postings import POSTINGS


async def post(
    tx: Tx, merchant_id: str, currency: str, movements: Sequence[Movement], now: int
) -> Balance:
    """Write movements, in their order, and return the balance after the last.

    Takes the lock of the balance row, so it comes last in a transaction. Entry times are ``now``,
    or the time of the entry before where that is later. Raises ValueError for a movement that is
    not in the table or not positive: a defect of ours.
    """
    values = (now, *_columns({(merchant_id, currency): movements}))
    balance = await queries.POST.first(tx, *values)
    if balance is None:  # the first movement in this currency
        await queries.OPEN.run(tx, merchant_id, currency)
        balance = await queries.POST.first(tx, *values)
    if balance is None:
        raise AssertionError  # the row is there now
    return balance


async def post_many(tx: Tx, books: Mapping[tuple[str, str], Sequence[Movement]], now: int) -> None:
    """Write the movements of many merchants and currencies, as ``post`` does those of one.

    Their rows are locked in the order of (merchant, currency) first, so that two who post to the
    same ones wait for each other and not in a ring.
    """
    wanted = sorted(books)
    if not wanted:
        return
    columns = list(map(list, zip(*wanted, strict=True)))
    locked = await queries.LOCK_MANY.all(tx, *columns)
    if len(locked) < len(wanted):  # the first movement of some
        for merchant_id, currency in wanted:
            await queries.OPEN.run(tx, merchant_id, currency)
        await queries.LOCK_MANY.all(tx, *columns)
    after = await queries.POST.all(tx, now, *_columns(books))
    if len(after) != len(wanted):
        raise AssertionError  # the rows are there and locked


def _columns(books: Mapping[tuple[str, str], Sequence[Movement]]) -> list[list[Any]]:
    """Return the arrays of ``queries.POST``. Raises ValueError for what cannot be posted."""
    rows = [
        (
            merchant_id,
            currency,
            secrets.token_hex(4),
            movement.type,
            movement.source,
            movement.target,
            movement.amount_minor,
            movement.shown_minor,
            movement.cause_type,
            movement.cause_id,
            movement.description,
        )
        for (merchant_id, currency), movements in books.items()
        for movement in movements
    ]
    if not rows:
        msg = "nothing to post"
        raise ValueError(msg)
    for movements in books.values():
        for movement in movements:
            if movement.amount_minor <= 0:
                msg = f"a posting moves a positive amount: {movement}"
                raise ValueError(msg)
    return list(map(list, zip(*rows, strict=True)))


async def balance(tx: Tx, merchant_id: str, currency: str) -> Balance | None:
    """Return a balance, None before the first movement."""
    return await queries.BALANCE.first(tx, merchant_id, currency)


def rules() -> Sequence[tuple[Query[Violation], Sequence[Any]]]:
    """Return every rule of the ledger itself, with its values."""
    table = zip(*((p.type, p.source, p.target, p.shown) for p in POSTINGS), strict=True)
    moves = list(map(list, table))
    return [*((rule, ()) for rule in queries.RULES), (queries.UNKNOWN_MOVES, moves)]


async def check(tx: Tx) -> tuple[int, list[Violation]]:
    """Check every rule of the ledger itself. Returns how many entries there are and what is wrong.

    Meant to run in one repeatable-read transaction, so that it sees the books of one moment.
    """
    violations: list[Violation] = []
    for rule, values in rules():
        violations += await rule.all(tx, *values)
    return await count(tx), violations


async def count(tx: Tx) -> int:
    """Return how many entries there are, of all merchants."""
    return await queries.ENTRIES.get(tx) or 0
