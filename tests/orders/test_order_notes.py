"""Notes on orders have an author and a number, are limited in length, and never change."""

import asyncio

import asyncpg
import pytest

from opentill import orders
from opentill.core.errors import Invalid, NotFound
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.db.database import Db, Tx
from support import world


async def test_notes_are_appended_and_numbered_for_any_order(tx: Tx) -> None:
    order = await world.create_order(tx)
    ids = (order.merchant_id, order.id)
    await orders.add_note(tx, *ids, " Rang:\r\nwill pay on Monday ", "bo", world.NOW)
    await orders.add_note(tx, *ids, "x" * LONGEST_NOTE, "ann", world.NOW, by_merchant=True)
    first_note, second_note = await orders.notes_of(tx, order)
    assert (first_note.number, first_note.who, first_note.note) == (
        1,
        "bo",
        "Rang:\nwill pay on Monday",
    )
    assert (second_note.number, first_note.by_merchant, second_note.by_merchant) == (2, False, True)
    for text in ("", " \n ", "x" * (LONGEST_NOTE + 1), "a\x00b", "\ud800"):
        with pytest.raises(Invalid, match="plain text of 1 to 5000 characters"):
            await orders.add_note(tx, *ids, text, "ann", world.NOW)
    other_order = await world.create_order(tx)
    with pytest.raises(NotFound):
        await orders.add_note(tx, other_order.merchant_id, order.id, "hello", "ann", world.NOW)
    assert await orders.notes_of(tx, other_order) == []
    for change in ("update order_notes set note = 'y'", "delete from order_notes"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            async with tx.transaction():
                await tx.execute(change)


async def test_concurrent_notes_are_all_stored_up_to_the_maximum(db: Db) -> None:
    async with db.transaction() as tx:
        order = await world.create_order(tx)
    ids = (order.merchant_id, order.id)
    await db.run(
        lambda tx: tx.execute(
            "insert into order_notes select $1, $2, n, 1, 'ann', 'x', true"
            " from generate_series(1, $3::int - 2) n",
            *ids,
            MOST_NOTES,
        )
    )

    async def add(number: int) -> bool:
        try:
            await db.run(lambda tx: orders.add_note(tx, *ids, f"{number}", "ann", world.NOW))
        except NotesFull:
            return False
        return True

    assert sum(await asyncio.gather(*map(add, range(5)))) == 2
    async with db.connection() as tx:
        assert [note.number for note in await orders.notes_of(tx, order)] == list(
            range(1, MOST_NOTES + 1)
        )
