"""Big tables can be partitioned without a change of code: docs/decisions/0027."""

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.db import connection
from support.api_server import SECRETS, ApiServer, serving

DAY_S: Final = 86_400
# These tables can be partitioned by the time in an id, because the id is part of each unique key.
BY_TIME: Final = (
    # table           column      prefix of its ids
    ("orders", "id", "order"),
    ("order_history", "order_id", "order"),
    ("payment_attempts", "id", "att"),
)
# These can be partitioned by a hash of the merchant's id.
BY_MERCHANT: Final = ("entries", "refunds", "idempotency_keys")
_CONSTRAINTS: Final = """
    select string_agg(text, ';' order by text)
    from pg_constraint, pg_get_constraintdef(oid) as text
    where conrelid = $1::regclass and contype in ('p', 'u', 'f', 'c') and conparentid = 0
"""


def least_id(prefix: str, time_s: float) -> str:
    """Return the least id of a time: ids begin with 48 bits of milliseconds."""
    random_part = new_id("order").removeprefix("order_")
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    number = int(time_s * 1000) << 80
    text = ""
    for _ in random_part:
        number, digit = divmod(number, 32)
        text = digits[digit] + text
    return f"{prefix}_{text}"


async def partition_tables(url: str) -> dict[str, tuple[str, str]]:
    """Rebuild the tables in partitions; return their constraints before and after."""
    connection_ = await connection.connect(url)
    now = time.time()
    constraints = {}
    try:
        for table, column, prefix in BY_TIME:
            months = [least_id(prefix, now + days * DAY_S) for days in (-60, -30, 0, 30)]
            bounds = [f"from (minvalue) to ('{months[0]}')"]
            bounds += [f"from ('{low}') to ('{high}')" for low, high in pairwise(months)]
            bounds += [f"from ('{months[-1]}') to (maxvalue)"]
            constraints[table] = await rebuild(connection_, table, f"range ({column})", bounds)
        for table in BY_MERCHANT:
            bounds = [f"with (modulus 4, remainder {number})" for number in range(4)]
            constraints[table] = await rebuild(connection_, table, "hash (merchant_id)", bounds)
    finally:
        await connection_.close()
    return constraints


async def rebuild(
    database: asyncpg.Connection, table: str, partition_key: str, bounds: list[str]
) -> tuple[str, str]:
    """Replace a table by a partitioned one with the same columns, constraints and rows."""
    async with database.transaction():
        before: str = await database.fetchval(_CONSTRAINTS, table)
        keys = await database.fetch(
            "select conname, pg_get_constraintdef(oid) as text from pg_constraint"
            " where conrelid = $1::regclass and contype = 'f' and conparentid = 0", table,
        )  # fmt: skip
        triggers = await database.fetch(
            "select pg_get_triggerdef(oid) as text from pg_trigger"
            " where tgrelid = $1::regclass and not tgisinternal", table,
        )  # fmt: skip
        incoming = await database.fetch(
            "select conname, conrelid::regclass::text as table, pg_get_constraintdef(oid) as text"
            " from pg_constraint where confrelid = $1::regclass and conparentid = 0", table,
        )  # fmt: skip
        for key in incoming:
            await database.execute(f"alter table {key['table']} drop constraint {key['conname']}")
        await database.execute(f"alter table {table} rename to old_rows")
        await database.execute(
            f"create table {table} (like old_rows including all) partition by {partition_key}"
        )
        for number, bound in enumerate(bounds):
            await database.execute(
                f"create table {table}_{number} partition of {table} for values {bound}"
            )
        await database.execute(f"insert into {table} select * from old_rows")
        await database.execute("drop table old_rows")
        for key in keys:
            await database.execute(
                f"alter table {table} add constraint {key['conname']} {key['text']}"
            )
        for key in incoming:
            statement = f"alter table {key['table']} add constraint {key['conname']} {key['text']}"
            await database.execute(statement)
        for trigger in triggers:
            await database.execute(trigger["text"])
        after: str = await database.fetchval(_CONSTRAINTS, table)
    return before, after


@pytest.fixture
def api_server(database_url: str, tmp_path: Path) -> Iterator[ApiServer]:
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=0, **SECRETS
    )
    with serving(settings) as running:
        yield running


def _use_tables(api_server: ApiServer) -> None:
    """Send requests that write to the tables, and statements that their rules must refuse."""
    shop = api_server.create_shop()
    order = shop.create_paid_order()
    first = shop.post(f"/v1/orders/{order['id']}/refunds", {"refundNo": "1"}, key="one")
    repeated = shop.post(f"/v1/orders/{order['id']}/refunds", {"refundNo": "1"}, key="one")
    assert (first.status_code, first.content) == (201, repeated.content)
    assert repeated.headers["idempotent-replayed"] == "true"
    shop.report_refund(first.json()["data"]["id"])
    shop.open_dispute(shop.create_paid_order()["id"])
    shop.create_payout()
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 2
    assert shop.data("GET", "/v1/balance/transactions")["pagination"]["total"] > 5
    assert shop.get("/v1/balance/statement.csv").status_code == 200
    assert "order_" in shop.get("/v1/orders/export").text
    for statement in ("update entries set description = 'x'", "delete from order_history"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            api_server.sql(statement)
    # The ledger accepts each type of movement of an object once.
    with pytest.raises(asyncpg.UniqueViolationError):
        api_server.sql(
            "insert into entries select merchant_id, currency, number + 1000, id, type,"
            " from_account, to_account, amount_minor, shown_minor, pending_after,"
            " available_after, frozen_after, reserve_after, source_type, source_id,"
            " description, created_at from entries"
        )
    api_server.check_books()


def test_big_tables_can_be_partitioned_without_a_change_of_code(
    api_server: ApiServer, database_url: str
) -> None:
    _use_tables(api_server)
    counts = {
        table: api_server.sql(f"select count(*) from {table}") for table in ("entries", "orders")
    }
    for table, (before, after) in asyncio.run(partition_tables(database_url)).items():
        assert before == after, table  # all constraints remain
    for table, count in counts.items():
        assert api_server.sql(f"select count(*) from {table}") == count
    _use_tables(api_server)
    partitions = api_server.sql(
        "select distinct tableoid::regclass::text as part from order_history"
        " union select distinct tableoid::regclass::text from entries"
    )
    names = {row["part"] for row in partitions}
    assert "order_history_3" in names
    assert any(name.startswith("entries_") for name in names)


def test_ids_sort_by_their_time() -> None:
    order_id = new_id("order")
    assert least_id("order", time.time() - 1) < order_id < least_id("order", time.time() + 1)
