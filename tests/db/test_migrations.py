"""Migrations are atomic, run once even when several processes migrate, and explain failures."""

import asyncio
import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from opentill import orders
from opentill.db.database import Db, Tx
from opentill.db.migrations import SchemaMismatch, check, folder, migrate, migrations
from opentill.orders import Order
from support import pooler
from support.api_server import ApiServer, Shop
from support.pooler import connect
from support.world import create_order_in


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two small migrations."""
    (tmp_path / "0001_first.sql").write_text("create table a (n int); insert into a values (1);")
    (tmp_path / "0002_second.sql").write_text("-- a comment; and\ncreate table b (n int);")
    return tmp_path


async def _check(url: str, files: Path | None = None) -> list[str]:
    connection = await connect(url)
    try:
        return await check(connection, directory=files)
    finally:
        await connection.close()


async def _value(url: str, statement: str) -> object:
    connection = await connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_migrations_are_applied_once(empty_database_url: str, files: Path) -> None:
    with pytest.raises(SchemaMismatch, match="lacks 0001_first, 0002_second; run `opentill mig"):
        await _check(empty_database_url, files)
    assert await migrate(empty_database_url, files) == ["0001_first", "0002_second"]
    assert await migrate(empty_database_url, files) == []
    await _check(empty_database_url, files)


async def test_a_new_file_is_applied_to_an_older_schema(
    empty_database_url: str, files: Path
) -> None:
    await migrate(empty_database_url, files)
    (files / "0003_third.sql").write_text("alter table a add column m int")
    with pytest.raises(SchemaMismatch, match="lacks 0003_third"):
        await _check(empty_database_url, files)
    assert await migrate(empty_database_url, files) == ["0003_third"]


async def test_concurrent_runs_apply_each_file_once(empty_database_url: str, files: Path) -> None:
    applied = await asyncio.gather(*(migrate(empty_database_url, files) for _ in range(8)))
    assert sorted(name for names in applied for name in names) == ["0001_first", "0002_second"]
    assert await _value(empty_database_url, "select count(*) from a") == 1


async def test_a_file_that_fails_is_rolled_back_and_earlier_files_stay(
    empty_database_url: str, files: Path
) -> None:
    (files / "0003_bad.sql").write_text("create table c (n int); select 1 / 0;")
    with pytest.raises(SchemaMismatch, match="0003_bad failed and was taken back: division"):
        await migrate(empty_database_url, files)
    assert await _value(empty_database_url, "select to_regclass('c')") is None
    assert await _value(empty_database_url, "select count(*) from schema_migrations") == 2


async def test_an_altered_file_is_refused(empty_database_url: str, files: Path) -> None:
    await migrate(empty_database_url, files)
    (files / "0001_first.sql").write_text("create table a (n bigint)")
    for attempt in (migrate, _check):
        with pytest.raises(SchemaMismatch, match="0001_first was altered .*new migration") as e:
            await attempt(empty_database_url, files)
        assert "\n" not in str(e.value)


async def test_the_previous_version_runs_with_the_newer_schema_and_keeps_it(
    empty_database_url: str, files: Path
) -> None:
    assert await migrate(empty_database_url, files) == ["0001_first", "0002_second"]
    (files / "0002_second.sql").unlink()
    assert await _check(empty_database_url, files) == ["0002_second"]
    assert await migrate(empty_database_url, files) == []
    assert await _value(empty_database_url, "select count(*) from b") == 0


async def test_a_version_that_lacks_a_required_migration_does_not_start(
    empty_database_url: str, files: Path
) -> None:
    (files / "0003_less_needs_0002.sql").write_text("alter table a drop column n")
    await migrate(empty_database_url, files)
    (files / "0003_less_needs_0002.sql").unlink()
    assert await _check(empty_database_url, files) == ["0003_less_needs_0002"]
    (files / "0002_second.sql").unlink()
    for attempt in (migrate, _check):
        with pytest.raises(SchemaMismatch, match="it has 0003_less_needs_0002.; this one is too"):
            await attempt(empty_database_url, files)


async def test_a_schema_check_does_not_wait_for_a_migration(
    empty_database_url: str, files: Path
) -> None:
    await migrate(empty_database_url, files)
    (files / "0003_slow.sql").write_text("select pg_advisory_xact_lock(3)")
    holder = await connect(empty_database_url)
    try:
        async with holder.transaction():
            await holder.execute("select pg_advisory_xact_lock(3)")
            task = asyncio.create_task(migrate(empty_database_url, files))
            waiting = "select 1 from pg_locks where locktype = 'advisory' and not granted"
            async with asyncio.timeout(60):
                while not await holder.fetchval(waiting):
                    await asyncio.sleep(0.01)
            (files / "0003_slow.sql").rename(files / "later")
            async with asyncio.timeout(60):
                await _check(empty_database_url, files)
            assert not task.done()
        assert await task == ["0003_slow"]
    finally:
        await holder.close()


async def _wait_for_row(url: str, statement: str) -> None:
    """Wait until a query returns a row.

    Each try has its own connection, because PostgreSQL caches activity within a transaction.
    """
    async with asyncio.timeout(60):
        while not await _value(url, f"select exists ({statement})"):
            await asyncio.sleep(0.01)


LOCK_REQUEST = "select from pg_locks where relation = 'a'::regclass and not granted"
NEW_INDEX = "select from pg_class where relname = 'a_by_n'"
IS_VALID = "select indisvalid from pg_index where indexrelid = 'a_by_n'::regclass"


async def test_a_migration_that_waits_for_a_lock_lets_others_pass(
    empty_database_url: str, files: Path
) -> None:
    await migrate(empty_database_url, files)
    (files / "0003_third.sql").write_text("alter table a add column m int")
    holder, customer = [await connect(empty_database_url) for _ in range(2)]
    try:
        async with holder.transaction():
            await holder.execute("select from a")
            with pytest.raises(SchemaMismatch, match="others have held its tables for 0 s"):
                await migrate(empty_database_url, files, patience_s=0)
            task = asyncio.create_task(migrate(empty_database_url, files))
            await _wait_for_row(empty_database_url, LOCK_REQUEST)
            await customer.execute("insert into a values (2)", timeout=10)
            assert not task.done()
        assert await task == ["0003_third"]
    finally:
        await customer.close()
        await holder.close()


async def test_an_index_build_does_not_block_writers_and_restarts_after_a_crash(
    empty_database_url: str, files: Path
) -> None:
    url = empty_database_url
    await migrate(url, files)
    (files / "0003_index.sql").write_text(
        "-- concurrently\n-- a; comment\ncreate index concurrently a_by_n on a (n);\n"
        "drop index concurrently b_by_n;"
    )
    holder, customer = [await connect(url) for _ in range(2)]
    try:
        await customer.execute("create index b_by_n on b (n)")
        async with holder.transaction():
            await holder.execute("insert into a values (2)")
            task = asyncio.create_task(migrate(url, files))
            await _wait_for_row(url, NEW_INDEX)
            await customer.execute("insert into a values (3)", timeout=10)
            terminated = await customer.fetch(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where query like 'create index%' and pid <> pg_backend_pid()"
            )
            assert len(terminated) == 1
            with pytest.raises(SchemaMismatch, match="0003_index stopped, and goes on where"):
                await task
        assert await _value(url, IS_VALID) is False
    finally:
        await customer.close()
        await holder.close()
    async with asyncio.timeout(60):
        assert await migrate(url, files) == ["0003_index"]
    assert await _value(url, IS_VALID) is True
    assert await _value(url, "select to_regclass('b_by_n')") is None
    index_oid = await _value(url, "select 'a_by_n'::regclass::oid")
    # As if the process had been killed before it recorded the migration.
    await _value(url, "delete from schema_migrations where version = 3")
    async with asyncio.timeout(60):
        assert await migrate(url, files) == ["0003_index"]
    assert await _value(url, "select 'a_by_n'::regclass::oid") == index_oid


async def test_an_index_of_a_partitioned_table_is_built_in_each_partition(
    empty_database_url: str, files: Path
) -> None:
    (files / "0002_second.sql").write_text(
        "create table p (n int) partition by range (n);"
        "create table p1 partition of p for values from (0) to (10);"
        "create table p2 partition of p for values from (10) to (20);"
    )
    index = files / "0003_index.sql"
    index.write_text("-- concurrently\ncreate unique index concurrently p_by_n on p (n)")
    for _ in range(2):
        assert len(await migrate(empty_database_url, files)) > 0
        valid = IS_VALID.replace("a_by_n", "p_by_n")
        assert await _value(empty_database_url, valid) is True
        assert await _value(empty_database_url, "select count(*) from pg_inherits") == 4
        await _value(empty_database_url, "delete from schema_migrations where version = 3")
    index.write_text("-- concurrently\ndrop index concurrently p_by_n")
    assert await migrate(empty_database_url, files) == ["0003_index"]
    assert await _value(empty_database_url, "select to_regclass('p_by_n')") is None


def test_a_concurrent_migration_contains_only_repeatable_statements(files: Path) -> None:
    for sql in ("create index a_by_n on a (n)", "insert into a values (1)", "reindex table a"):
        (files / "0003_third.sql").write_text(f"-- concurrently\n{sql};")
        with pytest.raises(SchemaMismatch, match="0003_third: a file with the mark"):
            migrations(files)


@pytest.mark.parametrize(
    "names",
    [["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"], []],
    ids=["a gap", "a duplicate", "no file"],
)
def test_files_must_be_numbered_without_gaps(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_text("select 1")
    with pytest.raises(SchemaMismatch, match="not numbered 1, 2, 3"):
        migrations(tmp_path)


async def test_databases_of_tests_have_all_migrations(make_database: Callable[[], str]) -> None:
    assert (folder() / "0001_schema.sql").exists()
    assert await migrate(make_database()) == []


_CHANGES_A_TABLE = re.compile(r"^alter table (?!.* validate constraint)", re.MULTILINE)
_READS_A_TABLE = re.compile(r"validate constraint|^do \$|\bfrom audit_log\b", re.MULTILINE)


def test_no_migration_reads_a_long_table_while_it_holds_an_exclusive_lock() -> None:
    """The lock of an ``alter table`` lasts until the end of the file."""
    names = [
        migration.name
        for migration in migrations()
        if _CHANGES_A_TABLE.search(migration.sql) and _READS_A_TABLE.search(migration.sql)
    ]
    assert names == []


# A later version might add a column with a default, an index and a table.
NEXT_MIGRATION = """
alter table orders add column later text not null default '';
create index orders_by_later on orders (merchant_id, later);
create table laters (merchant_id text primary key references merchants (id));
"""


def test_the_previous_version_serves_requests_during_and_after_a_migration(
    api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    shutil.copytree(folder(), tmp_path, dirs_exist_ok=True)
    later = f"{len(list(folder().glob('*.sql'))) + 1:04}_later"
    (tmp_path / f"{later}.sql").write_text(NEXT_MIGRATION)
    order = shop.create_paid_order()
    shop.refund(order["id"], amount="1.00")  # makes the server prepare the statements
    stop = threading.Event()

    def pay_orders() -> int:
        count = 0
        while not stop.is_set():
            assert shop.create_paid_order()["status"] == "PAID"
            assert shop.read_order(order["id"])["id"] == order["id"]
            assert api_server.http.get("/readyz").status_code == 200
            count += 1
        return count

    with ThreadPoolExecutor(4) as threads:
        customers = [threads.submit(pay_orders) for _ in range(4)]
        try:
            applied = asyncio.run(migrate(api_server.settings.database_url, tmp_path))
            assert shop.refund(order["id"], amount="1.00")["status"] == "PROCESSING"
            assert shop.create_paid_order()["status"] == "PAID"
        finally:
            stop.set()
        assert all(customer.result(60) for customer in customers)
    assert applied == [later]
    assert api_server.sql("select from laters") == []
    api_server.check_books()


@pooler.skip_if_pooled("behind a pooler no prepared statement outlives its transaction")
async def test_a_prepared_statement_outdated_by_a_migration_is_retried(db: Db) -> None:
    async with db.transaction() as tx:
        order = await create_order_in(tx, "PENDING")

    async def lock_order(tx: Tx) -> Order:
        return await orders.lock(tx, order.merchant_id, order.id)

    for _ in range(3):
        await db.run(lock_order)
    async with db.connection() as tx:
        await tx.execute("alter table orders add column later text")
    with pytest.raises(asyncpg.InvalidCachedStatementError):
        async with db.transaction() as tx:
            await lock_order(tx)
    async with db.connection() as tx:
        await tx.execute("alter table orders drop column later")
    assert await db.run(lock_order) == order
