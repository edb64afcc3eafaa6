"""PostgreSQL writes the lines of the CSV export of orders as Python's csv module would."""

import asyncio
import contextlib
import re
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opentill.core.errors import TooManyAtOnce
from opentill.core.times import LATEST_MS
from opentill.db.database import Db, Tx
from opentill.orders import Order, queries
from opentill.orders.export import queries as export_queries
from opentill.orders.export import service as export
from opentill.orders.export_columns import COLUMNS, LINE_SIZE
from opentill.orders.search.filters import ExportQuery, OrdersQuery, Selection
from opentill.orders.search.model import OrderFilters
from opentill.orders.wire import OrderOut
from opentill.server.export_limits import EXPORTS_EACH, STATEMENTS_EACH, Exports
from support import filled_database, world
from support.examples import examples
from support.export_lines import export_line
from support.transactions import RunRolledBack

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    st.text(' =+-@\t\r\n＝＋－＠",a\\.', max_size=6),
    st.text(' =-＠;\t\r\n"\ufeff\u200b\u202e\xa0\u2800\x7f\U000e0001a\\1', max_size=8),
)


def select_all(order: Order, start: int = 0, end: int = 2**62) -> Selection:
    """Select all orders of a merchant that were created from ``start`` to ``end``."""
    return Selection(OrderFilters(merchant_id=order.merchant_id, since=start, until=end), None)


def test_the_columns_are_the_fields_of_a_listed_order_and_five_more() -> None:
    """The columns are sorted as in contract.md#order-export: a new field is the last column."""
    listed = [field.encode_name for field in msgspec.structs.fields(OrderOut)]
    position = listed.index("createdAt") + 1
    further = ["refundStatus", "refundedAmount", "createdAtUtc", "paidAtUtc"]
    names = [column.name for column in COLUMNS]
    names.remove("productName")  # a list of orders does not have it
    assert names == [*listed[:position], *further, *listed[position:]]


def test_the_size_of_a_line_counts_all_texts_of_users() -> None:
    """A text that is not counted could make a part of the file far longer than intended."""
    counted = set(re.findall(r"octet_length\((\w+)\)", LINE_SIZE))
    assert counted >= {
        "customer_email", "customer_name", "metadata", "client_reference", "product_name"
    }  # fmt: skip


def test_an_export_takes_the_filters_of_the_list() -> None:
    """The queries of list and export have the same fields, except for paging."""

    def read_filters(query: type[msgspec.Struct]) -> dict[str, Any]:
        fields = msgspec.json.schema(query)["$defs"][query.__name__]["properties"]
        return {name: field["anyOf"] for name, field in fields.items() if "anyOf" in field}

    assert read_filters(ExportQuery) == read_filters(OrdersQuery)
    paging = set(OrdersQuery.__struct_fields__) - set(ExportQuery.__struct_fields__)
    assert paging == {"page", "size"}


# SQL that sets the other columns with users' text to up to 64 characters of $3.
USER_TEXT = "product_name = coalesce(left($3, 64), ''), " + "".join(
    f"{column.sql} = nullif(left($3, 64), ''), "
    for column in COLUMNS
    if column.text
    and column.sql not in {"customer_email", "customer_name", "metadata", "product_name"}
)


@settings(max_examples=examples(60))
@given(
    email=texts, name=st.none() | texts, metadata=texts, refunded=st.integers(0, 999),
    at=st.integers(0, LATEST_MS), rate=st.decimals("0.000001", 999999, places=6),
    currency=st.sampled_from(["USD", "JPY", "KWD"]), minor=st.integers(1, 10**12),
)  # fmt: skip
@example("a;\u200b=1", 'x;;\t=1"-', '{"a;=1":"b; +c;d"}', 5, 0, Decimal("0.10"), "JPY", 1)
@example("=1+1", "  -x", '{"a": "b,c"}\n', 5, 0, Decimal("0.10"), "JPY", 1)
def test_a_line_has_the_bytes_that_python_would_write(
    run_rolled_back: RunRolledBack, email, name, metadata, refunded, at, rate, currency, minor
) -> None:
    async def check(tx: Tx) -> None:
        order = await world.pay_order(tx, await world.create_order(tx, "9.99"))
        amount = minor * 10
        await tx.execute(
            f"""
            update orders set customer_email = $2, customer_name = $3, metadata = $4, {USER_TEXT}
                amount_minor = $5::bigint, currency = $6,
                platform_fee_minor = $5::bigint / 20 * 10,
                settled_currency = $6, gross_settled_minor = $5, net_settled_minor = $5,
                exchange_rate = $7, hkd_exchange_rate = $7, created_at = $8, paid_at = $8,
                refunded_minor = least($5::bigint, $9::bigint),
                refund_held_minor = least($5::bigint, $9::bigint)
            where id = $1
            """,
            order.id, email, name, metadata, amount, currency, rate, at, refunded // 10 * 10,
        )  # fmt: skip
        changed = await queries.BY_ID.first(tx, merchant_id=order.merchant_id, id=order.id)
        assert changed is not None
        exported = await export_queries.EXPORT.get(
            tx,
            merchant_id=order.merchant_id,
            after_at=0,
            after_id="",
            until_at=2**62,
            until_id="",
            livemode=True,
        )
        assert exported == export_line(changed)

    run_rolled_back(check)


@pytest.mark.parametrize("apart_ms", [0, 1000])
async def test_the_parts_of_a_file_contain_each_order_once(
    db: Db, monkeypatch: pytest.MonkeyPatch, apart_ms: int
) -> None:
    """A part may end between orders of the same time."""
    async with db.transaction() as tx:
        order = await filled_database.create_filled_merchant(tx, 60, apart_ms)

    async def read_lines(start: int = 0, end: int = 2**62) -> list[bytes]:
        readers = asyncio.Semaphore(1)
        chunks = export.export_csv(
            db, order.merchant_id, select_all(order, start, end), readers, livemode=True
        )
        return b"".join([chunk async for chunk in chunks]).splitlines()

    assert len(await read_lines()) == 62
    at = order.created_at
    ranges = [(0, 2**62), (at - 20 * apart_ms, at - 5 * apart_ms), (at + 1, 2**62)]
    expected = [await read_lines(*date_range) for date_range in ranges]
    for part, orders in [(2000, 15), (1, 100), (1, 1), (24_000, 61), (10**9, 60)]:
        monkeypatch.setattr(export, "_PART_BYTES", part)
        monkeypatch.setattr(export, "_SCANNED", orders)
        assert [await read_lines(*date_range) for date_range in ranges] == expected


async def test_an_export_that_is_closed_early_returns_its_connections(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with db.transaction() as tx:
        order = await filled_database.create_filled_merchant(tx, 60)
    monkeypatch.setattr(export, "_PART_BYTES", 800)
    monkeypatch.setattr(export, "_SCANNED", 8)
    readers = asyncio.Semaphore(2)
    for count in range(1, 12, 3):
        chunks = export.export_csv(db, order.merchant_id, select_all(order), readers, livemode=True)
        for _ in range(count):
            assert await anext(chunks)
        await chunks.aclose()
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            async with readers, readers:  # both permits are free again
                pass


LONG_TEXTS = [
    # Each row: metadata of each order, maximum size of its line in bytes.
    ('{"a": "' + "x" * 16_000 + '"}', 17_000),
    ('{"a": "' + "ü" * 8_000 + '"}', 17_000),
    ("{" + ", ".join(f'"{n:03}": ""' for n in range(1_500)) + "}", 24_000),
    ("{}", 700),
]


@pytest.mark.parametrize(("metadata", "line"), LONG_TEXTS)
async def test_a_chunk_is_bounded_by_its_bytes_however_long_the_orders_are(
    db: Db, monkeypatch: pytest.MonkeyPatch, metadata: str, line: int
) -> None:
    async with db.transaction() as tx:
        order = await filled_database.create_filled_merchant(tx, 40)
        await tx.execute(
            "update orders set metadata = $2 where merchant_id = $1", order.merchant_id, metadata
        )
    monkeypatch.setattr(export, "_PART_BYTES", 64 * 1024)
    chunks = export.export_csv_limited(
        Exports(), db, order.merchant_id, select_all(order), livemode=True
    )
    sizes = [len(chunk) async for chunk in chunks]
    assert sum(sizes) > 41 * len(metadata)
    assert max(sizes) < 2 * 64 * 1024 + line


async def test_one_merchant_cannot_take_all_exports_or_statements() -> None:
    exports = Exports()
    with contextlib.ExitStack() as stack:
        turns = [stack.enter_context(exports.turn("greedy")) for _ in range(EXPORTS_EACH)]
        with pytest.raises(TooManyAtOnce, match="Too many requests"):
            stack.enter_context(exports.turn("greedy"))
        entered = [asyncio.create_task(turn.__aenter__()) for turn in turns for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with exports.turn("another") as readers:
            # The queued SQL statements of the greedy merchant do not delay this merchant's
            # statements.
            async with asyncio.timeout(10), readers:
                assert sum(task.done() for task in entered) == STATEMENTS_EACH
        for task in entered:
            await task
            await turns[0].__aexit__()
    with exports.turn("greedy"):
        assert list(exports._merchants) == ["greedy"]
    assert not exports._merchants
