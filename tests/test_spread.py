"""The schema allows a merchant to move to another server (decision 0145)."""

import re
from typing import Any

from support.catalogue import catalogue
from support.tables import MERCHANT_TABLES, TABLES

__all__ = ["catalogue"]


def test_every_table_is_classified(catalogue: Any) -> None:
    tables = catalogue(
        "select relname from pg_class where relkind in ('r', 'p')"
        " and relnamespace = 'public'::regnamespace"
    )
    assert {row["relname"] for row in tables} == set(TABLES)


def test_every_unique_key_of_a_merchants_table_contains_the_merchant(catalogue: Any) -> None:
    rows = catalogue(
        """
        select t.relname as table, i.relname as index, exists (
            select from pg_attribute a where a.attrelid = t.oid and a.attname = 'merchant_id'
                and a.attnum = any (x.indkey)) as has_merchant, x.indimmediate as immediate,
            x.indexprs is not null as computed
        from pg_index x join pg_class t on t.oid = x.indrelid
        join pg_class i on i.oid = x.indexrelid
        where (x.indisunique or x.indisprimary) and t.relnamespace = 'public'::regnamespace
        """
    )
    keys = [row for row in rows if row["table"] in MERCHANT_TABLES]
    without_keys = {"list_changes", "search_changes"}
    assert {row["table"] for row in keys} == MERCHANT_TABLES - without_keys
    for row in keys:
        assert row["has_merchant"], row["index"]
        assert row["immediate"], f"{row['index']} is deferrable"
        assert not row["computed"], row["index"]


def test_the_schema_has_no_exclusion_constraint_and_no_inheritance(catalogue: Any) -> None:
    assert catalogue("select 1 from pg_constraint where contype = 'x'") == []
    assert catalogue("select inhrelid::regclass from pg_inherits") == []


def test_a_merchants_foreign_keys_refer_to_its_own_or_shared_rows(catalogue: Any) -> None:
    rows = catalogue(
        """
        select c.conname as name, t.relname as table, r.relname as target,
            array_position(c.conkey, (select attnum from pg_attribute
                where attrelid = t.oid and attname = 'merchant_id')) as position,
            array_position(c.confkey, (select attnum from pg_attribute
                where attrelid = r.oid and attname = 'merchant_id')) as target_position
        from pg_constraint c join pg_class t on t.oid = c.conrelid
        join pg_class r on r.oid = c.confrelid where c.contype = 'f'
        """
    )
    assert rows
    for row in rows:
        places = (TABLES[row["table"]].place, TABLES[row["target"]].place)
        allowed = {("merchant", "merchant"), ("merchant", "shared")}
        allowed |= {("shared", "shared"), ("server", "server")}
        assert places in allowed, row["name"]
        if places == ("merchant", "merchant"):
            assert row["position"] is not None, row["name"]
            assert row["position"] == row["target_position"], row["name"]


def test_triggers_only_refuse_or_count(catalogue: Any) -> None:
    """Other triggers could need another merchant's rows, which may be on another server."""
    rows = catalogue(
        "select distinct p.proname, p.prosrc from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
        " where not t.tgisinternal"
    )
    counting = {
        "count_new_order", "count_deleted_orders", "count_changed_orders",
        "check_and_count_entries", "note_changed_email", "note_failed_refund", "note_late_payment",
        "note_closed_as", "note_late_decline", "note_failed_attempt",
        "clear_failed_attempt", "sum_paid_uses",
        "refuse_change_of_evidence",  # reads the dispute of the file, by its merchant
    }  # fmt: skip
    refusing = {
        "refuse_change", "refuse_history_change", "refuse_payout_transition", "refuse_removal",
    }  # fmt: skip
    assert {row["proname"] for row in rows} == refusing | counting
    for row in (row for row in rows if row["proname"] in refusing):
        assert not re.search(r"\b(select|insert|update|delete from|perform|execute)\b",
                             re.sub(r"'[^']*'", "", row["prosrc"])), row["proname"]  # fmt: skip


def test_triggers_do_not_fire_while_a_merchant_is_moved(catalogue: Any) -> None:
    """A move also copies the rows that triggers wrote, so they must not write them again."""
    assert catalogue("select tgname from pg_trigger where tgenabled in ('A', 'R')") == []


def test_no_column_has_a_sequence_or_generated_value(catalogue: Any) -> None:
    rows = catalogue(
        """
        select relname as name from pg_class
        where relkind = 'S' and relnamespace = 'public'::regnamespace
        union all
        select a.attrelid::regclass || '.' || a.attname from pg_attribute a
        join pg_class t on t.oid = a.attrelid and t.relnamespace = 'public'::regnamespace
        where a.attidentity <> '' or a.attgenerated <> ''
        """
    )
    assert rows == []
