"""Placing tables on a cluster: all or none, once, and what a later migration makes as well."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opentill import checkouts
from opentill.cli.survey_order import PaidOrder
from opentill.db import clock, distribution, distribution_queries, migrations
from opentill.db.database import Db
from opentill.db.distribution import CannotDistribute
from opentill.db.placement import PLACES
from opentill.db.query import split_sql
from support import citus
from support.commands import Commands, opentill

__all__ = ["opentill"]

# What merchants and operators do beside orders also writes to tables of all nodes.
OPERATORS = ("make an endpoint", "make a product", "pay out")
# What Citus calls our places.
KINDS = {"distributed": "distributed", "reference": "reference", "coordinator": "local"}
PLACED = {name: KINDS[place] for name, place in PLACES.items() if place != "plain"}


async def test_one_machine_is_told_what_is_missing(database_url: str) -> None:
    with pytest.raises(CannotDistribute, match="does not have Citus: install it on every node"):
        await migrations.distribute(database_url)


def test_a_file_is_split_where_its_statements_end() -> None:
    text = """
        create table a (n int); -- one; more
        create function f() returns int language sql as $$ select 1; $$;
        /* ; */ insert into a values (';');
        -- the end;
    """
    assert [one.split()[0] for one in split_sql(text)] == ["create", "--", "/*"]


@pytest.fixture
async def empty() -> AsyncIterator[str]:
    """Address of an empty database on the cluster."""
    async with citus.database() as url:
        yield url


async def _kinds(url: str) -> dict[str, str]:
    rows = await citus.run(url, distribution_queries.PLACED)
    return {row["name"]: row["kind"] for row in rows}


@citus.needed
async def test_all_tables_are_placed_once(empty: str) -> None:
    applied, placed = await migrations.distribute(empty)
    assert (len(applied), set(placed)) == (len(migrations.migrations()), set(PLACED))
    assert await _kinds(empty) == PLACED
    assert await migrations.distribute(empty) == ([], [])
    (colocated,) = await citus.run(
        empty,
        "select count(distinct colocation_id) as groups from citus_tables"
        " where citus_table_type = 'distributed'",
    )
    assert colocated["groups"] == 1
    (keys,) = await citus.run(
        empty,
        "select count(*) from pg_constraint"
        " where contype = 'f' and conrelid in ('orders'::regclass, 'checkouts'::regclass)",
    )
    assert keys["count"] == 4
    assert await citus.run(empty, distribution_queries.UNMOVABLE) == []


@citus.needed
async def test_who_is_ended_meanwhile_has_placed_nothing(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrations.migrate(empty)
    begun = asyncio.Event()
    place = distribution._place

    async def slowly(connection: object, name: str) -> None:
        await place(connection, name)  # type: ignore[arg-type]
        if name == "refunds":
            begun.set()
            await asyncio.sleep(60)

    monkeypatch.setattr(distribution, "_place", slowly)
    task = asyncio.create_task(migrations.distribute(empty))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await _kinds(empty) == {}
    monkeypatch.undo()
    assert set((await migrations.distribute(empty))[1]) == set(PLACED)


@citus.needed
async def test_a_table_that_is_placed_otherwise_is_named(empty: str) -> None:
    await migrations.migrate(empty)
    await citus.run(empty, "select create_reference_table('exchange_rates')",
                    "select create_distributed_table('list_changes', 'list')")  # fmt: skip
    problem = "list_changes is distributed by list and should be distributed by merchant_id"
    with pytest.raises(CannotDistribute, match=problem):
        await migrations.distribute(empty)


@citus.needed
async def test_a_cluster_without_nodes_is_refused() -> None:
    async with citus.database(registered=False) as url:
        with pytest.raises(CannotDistribute, match="does not have Citus"):
            await migrations.distribute(url)
        await citus.run(url, "create extension citus")
        with pytest.raises(CannotDistribute, match="citus_set_coordinator_host"):
            await migrations.distribute(url)


@citus.needed
async def test_a_later_migration_places_what_it_makes(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrations.distribute(empty)
    for file in migrations.folder().glob("[0-9]*.sql"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    number = len(migrations.migrations())
    (tmp_path / f"{number + 1:04}_more.sql").write_text("""
        -- [orders] More of an order; it says what.
        create table more (
            merchant_id text not null,
            order_id    text not null,
            said        text not null default ';',
            primary key (merchant_id, order_id),
            foreign key (merchant_id, order_id) references orders (merchant_id, id)
        );
        create trigger more_is_final before update or delete on more
            for each row execute function refuse_change();
        alter table orders add column more text;
        alter table orders add constraint orders_more check (length(more) < 9) not valid;
        insert into more (merchant_id, order_id)
        select merchant_id, id from orders where created_at > 0;
    """)
    (tmp_path / f"{number + 2:04}_index.sql").write_text(
        "-- concurrently\ncreate index concurrently orders_more_due on orders (more);"
    )
    monkeypatch.setattr(distribution, "PLACES", {**PLACES, "more": "distributed"})
    assert len(await migrations.migrate(empty, tmp_path)) == 2
    assert (await _kinds(empty))["more"] == "distributed"
    (valid,) = await citus.run(
        empty, "select indisvalid from pg_index where indexrelid = 'orders_more_due'::regclass"
    )
    assert valid["indisvalid"]


@citus.needed
async def test_who_is_ended_after_a_file_leaves_its_triggers_to_the_next(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file writes the form of one machine; that of a cluster is written after the last file."""
    function = "select prosrc from pg_proc where proname = 'count_deleted_orders'"
    await migrations.distribute(empty)
    (before,) = await citus.run(empty, function)
    for file in migrations.folder().glob("[0-9]*.sql"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    number = len(migrations.migrations())
    (tmp_path / f"{number + 1:04}_more.sql").write_text("""
        create or replace function count_deleted_orders() returns trigger language plpgsql as $$
        begin return null; end $$;
    """)

    async def ended(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(distribution, "set_up", ended)
        with pytest.raises(asyncio.CancelledError):
            await migrations.migrate(empty, tmp_path)
    (between,) = await citus.run(empty, function)
    assert between != before
    assert await migrations.migrate(empty, tmp_path) == []
    assert await citus.run(empty, function) == [before]


@citus.needed
async def test_every_statement_runs_there_and_doctor_finds_nothing(
    opentill: Commands, empty: str
) -> None:
    opentill.environ["OPENTILL_DATABASE_URL"] = empty
    assert len(opentill.json("migrate", "--distributed")["placed"]) == len(PLACED)
    statements = opentill.json("doctor", "--statements")
    assert [one for feature in statements["features"] for one in feature["failures"]] == []
    assert statements["order"] == []
    checks = json.loads(opentill.run("doctor", "--json").stdout)
    assert [one["level"] for one in checks if one["subject"] == "cluster"] == ["ok"], checks


@citus.needed
async def test_a_coordinator_with_shards_is_named(opentill: Commands, empty: str) -> None:
    opentill.environ["OPENTILL_DATABASE_URL"] = empty
    await migrations.distribute(empty)
    (node,) = await citus.run(
        empty, "select nodename, nodeport from pg_dist_node where groupid = 0"
    )
    place = f"'{node['nodename']}', {node['nodeport']}"

    def shard_checks() -> list[tuple[str, str]]:
        checks = json.loads(opentill.run("doctor", "--json").stdout)
        return [(one["level"], one["text"]) for one in checks if one["subject"] == "cluster"]

    await citus.run(
        empty,
        f"select citus_set_node_property({place}, 'shouldhaveshards', true)",
        f"select citus_move_shard_placement(shardid, nodename, nodeport, {place}, 'block_writes')"
        " from citus_shards where table_name = 'orders'::regclass limit 1",
    )
    (_, (level, text)) = shard_checks()
    assert (level, f"`select citus_drain_node({place})`" in text) == ("fail", True), text
    await citus.run(empty, f"select citus_drain_node({place}, 'block_writes')")
    assert [level for level, _ in shard_checks()] == ["ok"]


async def _all_said(db: Db) -> None:
    """Wait for the notices of what was done: they come before the response to a later statement."""
    async with db.connection() as tx:
        await tx.fetchval("select 1")
    await asyncio.sleep(0)  # listeners are called by the loop


@citus.needed
async def test_an_order_needs_the_coordinator_and_its_own_node_alone(empty: str) -> None:
    """So a merchant goes on while another's node is away; and what is written there is prepared.

    Citus forgets that it wrote to a node where it copied rows after having read from it in the same
    transaction: such a transaction could be committed here and lost there.
    """
    await migrations.distribute(empty)
    commands: list[tuple[str, str]] = []  # node and command
    with citus.distributed_forms():
        db = await Db.connect(empty, 1)
        try:
            async with db.connection() as tx:
                tx.add_log_listener(
                    lambda _, message: commands.append((message.detail or "", str(message)))
                )
                await tx.execute("set citus.log_remote_commands = on")
            make_merchant, *actions = PaidOrder(clock.now_ms()).actions()
            await db.run(make_merchant[1])  # to all nodes, as what is read everywhere
            await _all_said(db)
            nodes: set[str] = set()
            for name, act in actions:
                commands.clear()
                await db.run(act)
                await _all_said(db)
                places = [(detail.partition(" connectionId")[0], text) for detail, text in commands]
                if name not in OPERATORS:
                    nodes |= {place for place, _ in places if place}
                copied = {place for place, text in places if "issuing COPY public." in text}
                prepared = {place for place, text in places if "PREPARE TRANSACTION" in text}
                assert copied <= prepared, name
            assert len(nodes) == 1, nodes
            async with db.connection() as tx:
                session_id = await tx.fetchval("select id from checkouts limit 1")
            await _all_said(db)
            commands.clear()
            assert await checkouts.find_page_view(db, session_id) is not None
            await _all_said(db)
            nodes_asked = {detail.partition(" connectionId")[0] for detail, _ in commands} - {""}
            assert nodes_asked == nodes, "a customer needs no other merchant's node"
        finally:
            await db.close()
