"""Big tables in partitions, without a change of code: docs/decisions/0027."""

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
# By the time in an id that is part of every unique key; all else by a hash of the merchant.
BY_TIME: Final = (
    #  table           column      prefix of its ids
    ("orders", "id", "order"),
    ("order_history", "order_id", "order"),
    ("payment_attempts", "id", "att"),
)
BY_MERCHANT: Final = ("entries", "refunds", "idempotency_keys")
_COLUMNS: Final = """
    select string_agg(text, ';' order by text)
    from pg_constraint, pg_get_constraintdef(oid) as text
    where conrelid = $1::regclass and contype in ('p', 'u', 'f', 'c') and conparentid = 0
"""


def boundary(prefix: str, moment_s: float) -> str:
    """Return the least id of a time: ids begin with 48 bits of milliseconds."""
    random_part = new_id("order").removeprefix("order_")
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    number = int(moment_s * 1000) << 80
    text = ""
    for _ in random_part:
        number, digit = divmod(number, 32)
        text = digits[digit] + text
    return f"{prefix}_{text}"


async def partition(url: str) -> dict[str, tuple[str, str]]:
    """Rebuild the tables in partitions; return their constraints before and after."""
    connection_ = await connection.connect(url)
    now = time.time()
    partitions = {}
    try:
        for table, column, prefix in BY_TIME:
            months = [boundary(prefix, now + days * DAY_S) for days in (-60, -30, 0, 30)]
            parts = [f"from (minvalue) to ('{months[0]}')"]
            parts += [f"from ('{low}') to ('{high}')" for low, high in pairwise(months)]
            parts += [f"from ('{months[-1]}') to (maxvalue)"]
            partitions[table] = await rebuild(connection_, table, f"range ({column})", parts)
        for table in BY_MERCHANT:
            parts = [f"with (modulus 4, remainder {number})" for number in range(4)]
            partitions[table] = await rebuild(connection_, table, "hash (merchant_id)", parts)
    finally:
        await connection_.close()
    return partitions


async def rebuild(
    database: asyncpg.Connection, table: str, by: str, parts: list[str]
) -> tuple[str, str]:
    """Replace a table by one of the same shape in partitions, with all its rows."""
    async with database.transaction():
        before: str = await database.fetchval(_COLUMNS, table)
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
            f"create table {table} (like old_rows including all) partition by {by}"
        )
        for number, part in enumerate(parts):
            await database.execute(
                f"create table {table}_{number} partition of {table} for values {part}"
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
        after: str = await database.fetchval(_COLUMNS, table)
    return before, after


@pytest.fixture
def api_server(database_url: str, tmp_path: Path) -> Iterator[ApiServer]:
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=0, **SECRETS
    )
    with serving(settings) as running:
        yield running


def _life(api_server: ApiServer) -> None:
    """Do what writes to these tables, and what must be refused."""
    shop = api_server.shop()
    order = shop.paid()
    first = shop.post(f"/v1/orders/{order['id']}/refunds", {"refundNo": "1"}, key="one")
    again = shop.post(f"/v1/orders/{order['id']}/refunds", {"refundNo": "1"}, key="one")
    assert (first.status_code, first.content) == (201, again.content)
    assert again.headers["idempotent-replayed"] == "true"
    shop.end_refund(first.json()["data"]["id"])
    shop.dispute(shop.paid()["id"])
    shop.payout()
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 2
    assert shop.data("GET", "/v1/balance/transactions")["pagination"]["total"] > 5
    assert shop.get("/v1/balance/statement.csv").status_code == 200
    assert "order_" in shop.get("/v1/orders/export").text
    for statement in ("update entries set description = 'x'", "delete from order_history"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            api_server.sql(statement)
    with pytest.raises(asyncpg.UniqueViolationError):  # each cause posts each movement once
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
    _life(api_server)
    before = {
        table: api_server.sql(f"select count(*) from {table}") for table in ("entries", "orders")
    }
    for table, (was, is_now) in asyncio.run(partition(database_url)).items():
        assert was == is_now, table  # not one constraint is weaker
    for table, count in before.items():
        assert api_server.sql(f"select count(*) from {table}") == count
    _life(api_server)
    used = api_server.sql(
        "select distinct tableoid::regclass::text as part from order_history"
        " union select distinct tableoid::regclass::text from entries"
    )
    assert {row["part"] for row in used} >= {"order_history_3"}
    assert any(row["part"].startswith("entries_") for row in used)


def test_a_boundary_parts_ids_by_their_time() -> None:
    order_id = new_id("order")
    assert boundary("order", time.time() - 1) < order_id < boundary("order", time.time() + 1)
