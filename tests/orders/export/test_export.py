"""The CSV export: what PostgreSQL writes is, byte for byte, what Python would."""

import asyncio
import contextlib
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opentill.core.errors import TooManyAtOnce
from opentill.db.database import Db, Tx
from opentill.orders import Order, queries
from opentill.orders.export import queries as export_queries
from opentill.orders.export import service as export
from opentill.orders.search.filters import Chosen, ExportQuery, OrdersQuery
from opentill.orders.search.model import Wanted
from opentill.orders.wire import OrderOut
from opentill.server.export_limits import EXPORTS_EACH, STATEMENTS_EACH, Exports
from support import filled_database, world
from support.examples import examples
from support.export_lines import line
from support.transactions import Each

texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    st.text(' =+-@\t\r\n＝＋－＠",a\\.', max_size=6),
    st.text(' =-＠;\t\r\n"\ufeff\u200b\u202e\xa0\u2800\x7f\U000e0001a\\1', max_size=8),
)


def everything(order: Order, start: int = 0, end: int = 2**62) -> Chosen:
    """Return all orders of a merchant that were created from ``start`` to ``end``."""
    return Chosen(Wanted(merchant_id=order.merchant_id, since=start, until=end), None)


def test_the_columns_are_the_fields_of_a_listed_order_and_four_more() -> None:
    """In the order of contract.md#order-export, so that a new field is the last column."""
    listed = [field.encode_name for field in msgspec.structs.fields(OrderOut)]
    first = listed.index("createdAt") + 1
    more = ["refundStatus", "refundedAmount", "createdAtUtc", "paidAtUtc"]
    names = [column.name for column in export_queries.COLUMNS]
    assert names == [*listed[:first], *more, *listed[first:]]


def test_an_export_takes_the_filters_of_the_list() -> None:
    """What a merchant sees in a list can be had as a file: each field is the same but its pages."""

    def taken(query: type[msgspec.Struct]) -> dict[str, Any]:
        fields = msgspec.json.schema(query)["$defs"][query.__name__]["properties"]
        return {name: field["anyOf"] for name, field in fields.items() if "anyOf" in field}

    assert taken(ExportQuery) == taken(OrdersQuery)
    pages = set(OrdersQuery.__struct_fields__) - set(ExportQuery.__struct_fields__)
    assert pages == {"page", "size"}


# What else somebody types into a column of the file: of each such column, up to 64 characters.
TYPED = "".join(
    f"{column.sql} = nullif(left($3, 64), ''), "
    for column in export_queries.COLUMNS
    if column.text and column.sql not in {"customer_email", "customer_name", "metadata"}
)


@settings(max_examples=examples(60))
@given(
    email=texts, name=st.none() | texts, metadata=texts, refunded=st.integers(0, 999),
    at=st.integers(0, 253_402_300_799_999), rate=st.decimals("0.000001", 999999, places=6),
    currency=st.sampled_from(["USD", "JPY", "KWD"]), minor=st.integers(1, 10**12),
)  # fmt: skip
@example("a;\u200b=1", 'x;;\t=1"-', '{"a;=1":"b; +c;d"}', 5, 0, Decimal("0.10"), "JPY", 1)
@example("=1+1", "  -x", '{"a": "b,c"}\n', 5, 0, Decimal("0.10"), "JPY", 1)
def test_lines_are_those_of_python(
    each_rolled_back: Each, email, name, metadata, refunded, at, rate, currency, minor
) -> None:
    async def look(tx: Tx) -> None:
        order = await world.paid(tx, await world.opened(tx, "9.99"))
        amount = minor * 10
        await tx.execute(
            f"""
            update orders set customer_email = $2, customer_name = $3, metadata = $4, {TYPED}
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
        found = await queries.BY_ID.first(tx, merchant_id=order.merchant_id, id=order.id)
        assert found is not None
        expected = line(found)
        made = await export_queries.EXPORT.get(
            tx,
            merchant_id=order.merchant_id,
            after_at=0,
            after_id="",
            until_at=2**62,
            until_id="",
            livemode=True,
        )
        assert made is not None
        assert made == expected

    each_rolled_back(look)


@pytest.mark.parametrize("apart_ms", [0, 1000])
async def test_stretches_put_together_are_the_whole(
    db: Db, monkeypatch: pytest.MonkeyPatch, apart_ms: int
) -> None:
    """Also where orders of one moment lie on both sides of an edge."""
    async with db.transaction() as tx:
        order = await filled_database.shop(tx, 60, apart_ms)

    async def lines(start: int = 0, end: int = 2**62) -> list[bytes]:
        readers = asyncio.Semaphore(1)
        found = [
            c
            async for c in export.chunks(
                db, order.merchant_id, everything(order, start, end), readers, livemode=True
            )
        ]
        return b"".join(found).splitlines()

    whole = await lines()
    assert len(whole) == 62
    made = order.created_at
    ranges = [(0, 2**62), (made - 20 * apart_ms, made - 5 * apart_ms), (made + 1, 2**62)]
    expected = [await lines(*each) for each in ranges]
    for part, orders in [(2000, 15), (1, 100), (1, 1), (24_000, 61), (10**9, 60)]:
        monkeypatch.setattr(export, "_PART", part)
        monkeypatch.setattr(export, "_LOOKED_UP", orders)
        assert [await lines(*each) for each in ranges] == expected


async def test_who_leaves_early_leaves_nothing_behind(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with db.transaction() as tx:
        order = await filled_database.shop(tx, 60)
    monkeypatch.setattr(export, "_PART", 800)
    monkeypatch.setattr(export, "_LOOKED_UP", 8)
    readers = asyncio.Semaphore(2)
    for taken in range(1, 12, 3):
        chunks = export.chunks(db, order.merchant_id, everything(order), readers, livemode=True)
        for _ in range(taken):
            assert await anext(chunks)
        await chunks.aclose()
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            async with readers, readers:  # all are free again
                pass


LONG_TEXTS = [
    # metadata, the longest line that it makes
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
        order = await filled_database.shop(tx, 40)
        await tx.execute(
            "update orders set metadata = $2 where merchant_id = $1", order.merchant_id, metadata
        )
    monkeypatch.setattr(export, "_PART", 64 * 1024)
    made = export.counted(Exports(), db, order.merchant_id, everything(order), livemode=True)
    sizes = [len(chunk) async for chunk in made]
    assert sum(sizes) > 41 * len(metadata)
    assert max(sizes) < 2 * 64 * 1024 + line


async def test_a_merchant_has_a_share_of_the_statements_and_of_the_exports() -> None:
    exports = Exports()
    with contextlib.ExitStack() as stack:
        turns = [stack.enter_context(exports.turn("greedy")) for _ in range(EXPORTS_EACH)]
        with pytest.raises(TooManyAtOnce, match="Too many requests"):
            stack.enter_context(exports.turn("greedy"))
        entered = [asyncio.create_task(turn.__aenter__()) for turn in turns for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with exports.turn("another") as readers:
            async with asyncio.timeout(10), readers:  # at once, though eight of the other's wait
                assert sum(task.done() for task in entered) == STATEMENTS_EACH
        for task in entered:
            await task
            await turns[0].__aexit__()
    with exports.turn("greedy"):
        assert list(exports._merchants) == ["greedy"]
    assert not exports._merchants
