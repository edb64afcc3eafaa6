"""A migration that fills a long table runs in batches, beside writers, and can be interrupted."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opentill.db import batches
from opentill.db.migrations import SchemaMismatch, folder, migrate, migrations
from support.pooler import connect

ROWS = 2000
TABLES = f"""
create table a (merchant_id text, id text, n int, primary key (merchant_id, id));
insert into a select 'm' || i % 3, lpad(i::text, 8, '0'), case when i % 10 > 0 then 0 end
from generate_series(1, {ROWS}) i;
"""
# Every tenth row has nothing to fill in, as orders that ended in time.
FILL = """-- in batches
-- A comment; with a semicolon.
with batch as materialized (
    select merchant_id, id, n from a where (merchant_id, id) > ($1, $2) and n is distinct from 1
    order by merchant_id, id limit 100
), filled as (
    update a set n = 1 from batch b where a.merchant_id = b.merchant_id and a.id = b.id
        and b.n = 0
)
select merchant_id, id from batch order by merchant_id desc, id desc limit 1;
create table done (n int);
"""
# The digest of 0079 when it was one statement.
EARLIER = "6e110be7da88549e4b3bb3d96196fc4610e32a42bafd7a46634546af32a33b7b"
UNFILLED = "select count(*) from a where n is distinct from 1"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A table and a migration that fills it in batches."""
    (tmp_path / "0001_first.sql").write_text(TABLES)
    (tmp_path / "0002_fill.sql").write_text(FILL)
    return tmp_path


async def _value(url: str, statement: str) -> object:
    connection = await connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_batches_fill_every_row_once(empty_database_url: str, files: Path) -> None:
    url = empty_database_url
    assert await migrate(url, files) == ["0001_first", "0002_fill"]
    assert await _value(url, UNFILLED) == ROWS // 10
    transactions = "select count(distinct xmin::text) from a where n = 1"
    assert await _value(url, transactions) == ROWS // 100
    assert await _value(url, "select count(*) from done") == 0
    assert await migrate(url, files) == []


async def test_a_locked_row_delays_only_its_batch(empty_database_url: str, files: Path) -> None:
    url = empty_database_url
    last = f"id = '{ROWS - 1:08}'"  # a row of the last batch
    holder, customer = [await connect(url) for _ in range(2)]
    try:
        await holder.execute(TABLES)
        (files / "0001_first.sql").write_text("select 1")
        async with holder.transaction():
            await holder.execute(f"select from a where {last} for update")
            task = asyncio.create_task(migrate(url, files))
            async with asyncio.timeout(30):
                while await _value(url, UNFILLED) == ROWS:
                    await asyncio.sleep(0.01)
                while not await customer.fetchval(
                    "select exists (select from pg_stat_activity where wait_event_type = 'Lock'"
                    " and query like 'with batch%')"
                ):
                    await asyncio.sleep(0.01)
            # Rows of batches that are done, and of those to come, can be written.
            await customer.execute("update a set n = 1 where id = '00000003'", timeout=10)
            await asyncio.sleep(0.7)  # longer than a batch waits
            assert not task.done()
        assert await task == ["0001_first", "0002_fill"]
        assert await _value(url, UNFILLED) == ROWS // 10
    finally:
        await customer.close()
        await holder.close()


async def test_an_interrupted_file_continues(empty_database_url: str, files: Path) -> None:
    url = empty_database_url
    broken = FILL.replace("create table done", "create table nowhere.done")
    (files / "0002_fill.sql").write_text(broken)
    with pytest.raises(SchemaMismatch, match="0002_fill stopped, and goes on where"):
        await migrate(url, files)
    assert await _value(url, UNFILLED) == ROWS // 10  # the batches before are committed
    (files / "0002_fill.sql").write_text(FILL)
    assert await migrate(url, files) == ["0002_fill"]


async def test_a_process_that_is_killed_in_the_last_batch_is_continued(
    empty_database_url: str, files: Path
) -> None:
    url = empty_database_url
    last = f"id = '{ROWS:08}'"  # the last row of all
    program = (
        "import asyncio, pathlib, sys; from opentill.db.migrations import migrate;"
        " asyncio.run(migrate(sys.argv[1], pathlib.Path(sys.argv[2])))"
    )
    holder = await connect(url)
    try:
        await holder.execute(TABLES.replace("case when i % 10 > 0 then 0 end", "0"))
        (files / "0001_first.sql").write_text("select 1")
        async with holder.transaction():
            await holder.execute(f"select from a where {last} for update")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, url, str(files)
            )
            async with asyncio.timeout(60):
                while await _value(url, UNFILLED) != 100:  # only the last batch is left, and waits
                    await asyncio.sleep(0.02)
            process.kill()
            assert await process.wait() == -signal.SIGKILL
        assert await _value(url, UNFILLED) == 100
        assert await migrate(url, files) == ["0002_fill"]
        assert await _value(url, UNFILLED) == 0
        assert await _value(url, "select count(*) from done") == 0
    finally:
        await holder.close()


@pytest.mark.parametrize("statement", ["update a set n = 1", "update a set n = 1 where id > $1"])
def test_a_file_without_a_repeated_statement_is_refused(files: Path, statement: str) -> None:
    (files / "0002_fill.sql").write_text(f"{batches.MARK}\n{statement};")
    with pytest.raises(SchemaMismatch, match="0002_fill: a file with the mark `-- in batches`"):
        migrations(files)


def test_an_update_of_all_orders_runs_in_batches() -> None:
    """Files before 0079 were applied before there were orders to speak of."""
    for migration in migrations(folder())[78:]:
        if migration.batches is None:
            assert "update orders" not in _outside_functions(migration.sql), migration.name


def _outside_functions(sql: str) -> str:
    return "".join(sql.split("$$")[::2])


async def test_a_database_with_the_earlier_text_of_a_file_is_not_refused(
    make_database: Callable[[], str],
) -> None:
    url = make_database()
    await _value(url, f"update schema_migrations set sha256 = '{EARLIER}' where version = 79")
    assert await migrate(url) == []
    await _value(url, f"update schema_migrations set sha256 = '{EARLIER}' where version = 78")
    with pytest.raises(SchemaMismatch, match="0078_closed_as_index was altered"):
        await migrate(url)
