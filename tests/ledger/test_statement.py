"""Statements are consistent, or end with an error."""

import csv
import io
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest

from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.ledger import statement
from opentill.ledger.statement import Line, StatementError
from support import world
from support.api_server import serving
from support.databases import cloned_database
from support.world import DAY, NOW


async def _create_entries(db: Db) -> str:
    """Create a payment, a partial refund a day later, and a payment after two days."""
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID", platform_fee_rate="0.04"))
    refund = await db.run(lambda tx: world.create_refund(tx, order, "2.00", NOW + DAY))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED", NOW + DAY))
    mug = await db.run(lambda tx: world.create_product(tx, order.merchant_id, "5.00"))
    session = await db.run(
        lambda tx: world.create_session(tx, order.merchant_id, mug.id, NOW + 2 * DAY)
    )
    async with db.connection() as tx:
        second = await world.orders.find(tx, order.merchant_id, session.order_id)
    await db.run(lambda tx: world.pay_order(tx, second, NOW + 2 * DAY))
    return order.merchant_id


async def _list_lines(db: Db, merchant_id: str, start: Any = None, end: Any = None) -> list[Line]:
    return [line async for line in statement.lines(db, merchant_id, start, end)]


async def _read_file(db: Db, merchant_id: str) -> str:
    chunks = [chunk async for chunk in statement.chunks(db, merchant_id, None, None)]
    return b"".join(chunks).decode()


async def test_opening_plus_movements_equals_closing(db: Db) -> None:
    merchant_id = await _create_entries(db)
    lines = await _list_lines(db, merchant_id)
    assert [line.type or line.row for line in lines] == [
        "OPENING", "PAYMENT", "FEE", "FREEZE", "REFUND", "PAYMENT", "FEE",
        "FEE", "FREEZE", "PAYMENT", "REFUND", "CLOSING",
    ]  # fmt: skip
    assert lines[0].after == (0, 0, 0, 0, 0)
    sums = {line.type: line.moved for line in lines if line.row == "TOTAL"}
    assert sums == {
        "FEE": (-60, 0, 0, 0, 0),
        "FREEZE": (-200, 0, 200, 0, 0),
        "PAYMENT": (1499, 0, 0, 0, 0),
        "REFUND": (0, 0, -200, 0, 0),
    }
    assert (lines[-1].moved, lines[-1].after) == ((1239, 0, 0, 0, 0), (1239, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("start", "end", "opening", "numbers", "closing"),
    [
        (None, NOW, (0, 0, 0, 0, 0), [1, 2], (959, 0, 0, 0, 0)),
        (NOW + 1, NOW + DAY, (959, 0, 0, 0, 0), [3, 4], (759, 0, 0, 0, 0)),
        (NOW + DAY, NOW + DAY, (959, 0, 0, 0, 0), [3, 4], (759, 0, 0, 0, 0)),
        (NOW + DAY + 1, None, (759, 0, 0, 0, 0), [5, 6], (1239, 0, 0, 0, 0)),
        (NOW + 3 * DAY, None, (1239, 0, 0, 0, 0), [], (1239, 0, 0, 0, 0)),
        (None, NOW - 1, (0, 0, 0, 0, 0), [], (0, 0, 0, 0, 0)),
    ],
)
async def test_a_range_begins_where_the_previous_one_ended(
    db: Db, start: Any, end: Any, opening: Any, numbers: list[int], closing: Any
) -> None:
    merchant_id = await _create_entries(db)
    lines = await _list_lines(db, merchant_id, start, end)
    assert lines[0].after == opening
    assert [line.number for line in lines if line.row == "MOVEMENT"] == numbers
    assert lines[-1].after == closing


async def test_a_merchant_without_movements_has_an_empty_statement(db: Db) -> None:
    merchant = await db.run(world.create_merchant)
    text = await _read_file(db, merchant.id)
    assert text == ",".join(statement.COLUMNS) + "\r\n"


def test_every_column_is_described_in_its_order() -> None:
    assert tuple(statement.COLUMNS) == statement.LineOut.__struct_encode_fields__


async def test_the_file_conforms_to_rfc_4180_and_amounts_are_numbers(db: Db) -> None:
    merchant_id = await _create_entries(db)
    text = await _read_file(db, merchant_id)
    assert text.count("\r\n") == text.count("\n") == 13
    rows = list(csv.DictReader(io.StringIO(text)))
    fee = rows[2]
    assert (fee["type"], fee["pending"], fee["pendingAfter"]) == ("FEE", "-0.40", "9.59")
    assert (fee["available"], fee["availableAfter"]) == ("0.00", "0.00")
    assert (fee["time"], fee["timeUtc"]) == (str(NOW), "2025-06-15T15:06:40.000Z")
    assert rows[-1]["row"] == "CLOSING"


async def test_a_description_cannot_be_a_spreadsheet_formula() -> None:
    line = Line(
        row="MOVEMENT", currency="USD", description='=HYPERLINK("x")', moved=(-40, 0, 0, 0, 0)
    )
    row = statement.cells(statement.LineOut.from_line(line))
    assert '\'=HYPERLINK("x")' in row
    assert "-0.40" in row


@pytest.mark.parametrize(
    "damage",
    [
        "update entries set pending_after = pending_after + 1 where number = 2",
        "update entries set amount_minor = 5, shown_minor = -5 where number = 2",
        "update entries set number = 20 where number = 6",
        "delete from entries where number = 6",
        "delete from entries where number = 3",
        "update entries set created_at = created_at - 1 where number = 4",
        "update balances set pending = pending + 1, gateway = gateway - 1",
    ],
)
async def test_inconsistent_books_have_no_statement(database_url: str, damage: str) -> None:
    db = await Db.connect(database_url, 5, acquire_timeout_s=20)
    try:
        merchant_id = await _create_entries(db)
        async with db.transaction() as tx:
            await tx.execute("set local session_replication_role = replica")
            assert await tx.execute(damage) not in {"UPDATE 0", "DELETE 0"}
        with pytest.raises(StatementError):
            await _list_lines(db, merchant_id)
    finally:
        await db.close()


def test_a_download_of_inconsistent_books_is_aborted(
    postgres_url: str, template: str, settings: Settings, pooler_url: Callable[[str], str]
) -> None:
    with cloned_database(postgres_url, template) as url:
        own_settings = msgspec.structs.replace(settings, database_url=pooler_url(url))
        with serving(own_settings) as api_server:
            shop = api_server.create_shop()
            shop.create_paid_order()
            assert shop.get("/v1/balance/statement.csv").text.count("\r\n") >= 4
            api_server.sql("alter table entries disable trigger all")
            api_server.sql("update entries set pending_after = 1 where number = 1")
            with pytest.raises(httpx2.HTTPError):
                shop.get("/v1/balance/statement.csv").raise_for_status()
