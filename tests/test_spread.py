"""The shape of the schema that lets a cluster of Citus hold it: placement.py and the catalogue."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from opentill.db import connection, migrations
from opentill.db.placement import PLACES
from test_queries import STATEMENTS

RECIPE: Final = Path(__file__).parents[1] / "docs" / "recipes" / "go-past-one-machine.md"
FUNCTIONS: Final = migrations.folder() / "distributed" / "triggers.sql"
DISTRIBUTED: Final = {name for name, place in PLACES.items() if place == "distributed"}


@pytest.fixture(scope="module")
def catalogue(postgres_url: str, template: str) -> Callable[[str], list[dict[str, Any]]]:
    """Ask the migrated database something."""
    url = postgres_url.replace("@/opentill?", f"@/{template}?")

    def ask(statement: str) -> list[dict[str, Any]]:
        async def run() -> list[dict[str, Any]]:
            one = await connection.connect(url)
            try:
                return [dict(row) for row in await one.fetch(statement)]
            finally:
                await one.close()

        return asyncio.run(run())

    return ask


def test_every_table_has_a_place(catalogue: Any) -> None:
    tables = catalogue(
        "select relname from pg_class where relkind in ('r', 'p')"
        " and relnamespace = 'public'::regnamespace"
    )
    assert {row["relname"] for row in tables} == set(PLACES)


def test_every_unique_key_of_a_distributed_table_has_the_merchant(catalogue: Any) -> None:
    rows = catalogue(
        """
        select t.relname as table, i.relname as index, exists (
            select from pg_attribute a where a.attrelid = t.oid and a.attname = 'merchant_id'
                and a.attnum = any (x.indkey)) as has, x.indimmediate as immediate,
            x.indexprs is not null as computed
        from pg_index x join pg_class t on t.oid = x.indrelid
        join pg_class i on i.oid = x.indexrelid
        where (x.indisunique or x.indisprimary) and t.relnamespace = 'public'::regnamespace
        """
    )
    found = [row for row in rows if row["table"] in DISTRIBUTED]
    assert {row["table"] for row in found} == DISTRIBUTED - {
        "list_changes",
        "search_changes",
    }  # they have none
    for row in found:
        assert row["has"], row["index"]
        assert row["immediate"], f"{row['index']} is deferrable, which Citus has not"
        assert not row["computed"], row["index"]


def test_no_exclusion_constraint_and_no_inheritance(catalogue: Any) -> None:
    assert catalogue("select 1 from pg_constraint where contype = 'x'") == []
    assert catalogue("select inhrelid::regclass from pg_inherits") == []


def test_foreign_keys_stay_on_one_shard_or_lead_to_a_reference_table(catalogue: Any) -> None:
    rows = catalogue(
        """
        select c.conname as name, t.relname as table, r.relname as target,
            array_position(c.conkey, (select attnum from pg_attribute
                where attrelid = t.oid and attname = 'merchant_id')) as here,
            array_position(c.confkey, (select attnum from pg_attribute
                where attrelid = r.oid and attname = 'merchant_id')) as there
        from pg_constraint c join pg_class t on t.oid = c.conrelid
        join pg_class r on r.oid = c.confrelid where c.contype = 'f'
        """
    )
    assert rows
    for row in rows:
        way = (PLACES[row["table"]], PLACES[row["target"]])
        allowed = {("distributed", "distributed"), ("distributed", "reference")}
        allowed |= {("reference", "reference"), ("coordinator", "coordinator")}
        assert way in allowed, row["name"]
        if way == ("distributed", "distributed"):
            assert row["here"] is not None, row["name"]
            assert row["here"] == row["there"], row["name"]


def test_triggers_refuse_or_count(catalogue: Any) -> None:
    """One that read or wrote another merchant's rows would look on the wrong shard."""
    rows = catalogue(
        "select distinct p.proname, p.prosrc from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
        " where not t.tgisinternal"
    )
    counting = {
        "count_new_order", "count_deleted_orders", "count_changed_orders",
        "check_and_count_entries", "note_changed_email", "note_late_payment", "sum_paid_uses",
    }  # fmt: skip
    refusing = {
        "refuse_change", "refuse_history_change", "refuse_payout_transition", "refuse_removal",
    }  # fmt: skip
    assert {row["proname"] for row in rows} == refusing | counting
    for row in (row for row in rows if row["proname"] in refusing):
        assert not re.search(r"\b(select|insert|update|delete from|perform|execute)\b",
                             re.sub(r"'[^']*'", "", row["prosrc"])), row["proname"]  # fmt: skip


# The functions that read transition tables as the migrations have them: what triggers.sql makes
# of each is to do the same. Whoever changes one changes the other, and then the digest.
TRANSITIONS: Final = {
    "check_and_count_entries": "b79c4cc6f96d30ab7fc72f15d8f274a9",
    "count_changed_orders": "ffb272f9a5426204cf9e0c7f173c4133",
    "count_deleted_orders": "bc1b8bd99ad0537b55c9245e3c1266a9",
    "sum_paid_uses": "7451a684d5fdb4677c0a666bccb8f5e1",
}


def test_what_reads_a_transition_table_has_a_form_for_a_cluster(catalogue: Any) -> None:
    """Citus cannot plan a statement that reads one together with a distributed table."""
    rows = catalogue(
        "select distinct p.proname, md5(p.prosrc) as digest from pg_trigger t"
        " join pg_proc p on p.oid = t.tgfoid"
        " where not t.tgisinternal and (t.tgoldtable is not null or t.tgnewtable is not null)"
    )
    assert {row["proname"]: row["digest"] for row in rows} == TRANSITIONS
    made = re.findall(r"create or replace function (\w+)\(", FUNCTIONS.read_text())
    assert sorted(made) == sorted(TRANSITIONS)


def test_what_is_written_with_a_merchant_s_rows_is_known_to_the_cluster() -> None:
    """Otherwise one could be committed without the other."""
    plain = {name for name, place in PLACES.items() if place == "plain"}
    assert plain == {"rate_limit_windows", "schema_migrations"}
    for name, statement in STATEMENTS:
        tables = set(re.findall(r"(?:insert into|update|delete from) (\w+)", statement.sql))
        assert not (tables & DISTRIBUTED and tables & plain), name
