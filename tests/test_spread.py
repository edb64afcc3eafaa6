"""The shape of the schema that keeps the way to an engine that spreads tables open.

Not a promise that one works: the recipe says that none is supported. Its table of what would go
where is held against the catalogue.
"""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from opentill.db import connection
from test_queries import STATEMENTS

RECIPE: Final = Path(__file__).parents[1] / "docs" / "recipes" / "go-past-one-machine.md"
KINDS: Final = ("distributed", "reference", "local")


def _listed() -> dict[str, str]:
    """Return the recipe's tables with their kind."""
    rows = re.findall(r"^\| (`.*) \| (\w+)", RECIPE.read_text(), re.MULTILINE)
    return {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}


LISTED: Final = _listed()
DISTRIBUTED: Final = {name for name, kind in LISTED.items() if kind == "distributed"}


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


def test_the_recipe_places_every_table(catalogue: Any) -> None:
    tables = catalogue(
        "select relname from pg_class where relkind in ('r', 'p')"
        " and relnamespace = 'public'::regnamespace"
    )
    assert {row["relname"] for row in tables} == set(LISTED)
    assert set(LISTED.values()) == set(KINDS)


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
        way = (LISTED[row["table"]], LISTED[row["target"]])
        allowed = {("distributed", "distributed"), ("distributed", "reference")}
        assert way in allowed | {("reference", "reference"), ("local", "local")}, row["name"]
        if way == ("distributed", "distributed"):
            assert row["here"] is not None, row["name"]
            assert row["here"] == row["there"], row["name"]


def test_the_recipe_promises_no_such_engine() -> None:
    text = RECIPE.read_text()
    assert "is not supported yet" in text
    assert "create_distributed_table" not in text
    others = [path for path in RECIPE.parents[2].glob("*.md") if "Citus" in path.read_text()]
    assert others == []


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
    refusing = {"refuse_change", "refuse_history_change", "refuse_removal"}
    assert {row["proname"] for row in rows} == refusing | counting
    assert all(f"`{name}`" in RECIPE.read_text() for name in counting)
    for row in (row for row in rows if row["proname"] in refusing):
        assert not re.search(r"\b(select|insert|update|delete from|perform|execute)\b",
                             re.sub(r"'[^']*'", "", row["prosrc"])), row["proname"]  # fmt: skip


def test_the_recipe_names_what_writes_to_two_places() -> None:
    local = {name for name, kind in LISTED.items() if kind == "local"}
    wanted = set()
    for name, statement in STATEMENTS:
        tables = set(re.findall(r"(?:insert into|update|delete from) (\w+)", statement.sql))
        if tables & DISTRIBUTED and tables & local:
            wanted.add(f"{name.split('.')[0]}.{name.split('.')[-1]}")
    assert wanted == {
        "orders.PLACE", "orders.INSERT_ATTEMPT", "payment_links.INSERT",
        "webhooks.TAKE_LEASES", "figures.COUNT",
    }  # fmt: skip
    assert all(f"`{name}`" in RECIPE.read_text() for name in wanted)
