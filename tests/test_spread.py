"""The schema allows merchants to move to another server (decision 0145)."""

import re
from typing import Any, Final

from support.catalogue import catalogue

__all__ = ["catalogue"]

# The kinds of tables, for several servers (decision 0116): rows of a merchant move with it, shared
# tables are the same on all servers, and the others belong to the server that wrote them.
PLACES: Final = {
    name: place
    for place, names in {
        "merchant": """
        adjustments agreement_acceptances approval_requests attempt_figures awaited_figures
        balances bank_account_confirmations bank_accounts checkouts delivery_attempts
        dispute_evidence dispute_notes disputes endpoint_leases entries epay_notifications
        epay_orders epay_products epay_refunds event_heads events figure_heads figures
        gateway_tests idempotency_keys ignored_fields late_payments ledger_checks
        list_changes list_counts mail_events_put_aside mail_heads mails merchant_history
        merchant_logos merchant_terms order_history order_notes orders payment_attempts
        payment_link_sales payment_link_uses payment_links payout_requests payout_transfers
        payouts products refund_cases refunds refused_requests search_changes search_counts
        search_heads search_terms solo_movements unmatched_disputes webhook_deliveries
        webhook_endpoints
        """,
        "shared": """
        api_keys begun_logins business_clock epay_credentials exchange_rates factor_resets
        logins mail_preferences members merchant_applications merchants passkey_challenges
        passkeys person_links persons rate_days recovery_codes secret_key staff staff_visits
        """,
        "server": """
        audit_head audit_log directory gateway_figures host_leases login_limits payout_runs
        rate_limit_windows reconciliation_differences reconciliation_files schema_migrations
        """,
    }.items()
    for name in names.split()
}
OF_MERCHANTS: Final = {name for name, place in PLACES.items() if place == "merchant"}


def test_every_table_has_a_place(catalogue: Any) -> None:
    tables = catalogue(
        "select relname from pg_class where relkind in ('r', 'p')"
        " and relnamespace = 'public'::regnamespace"
    )
    assert {row["relname"] for row in tables} == set(PLACES)


def test_every_unique_key_of_a_merchants_table_has_the_merchant(catalogue: Any) -> None:
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
    keys = [row for row in rows if row["table"] in OF_MERCHANTS]
    without_keys = {"list_changes", "search_changes"}
    assert {row["table"] for row in keys} == OF_MERCHANTS - without_keys
    for row in keys:
        assert row["has"], row["index"]
        assert row["immediate"], f"{row['index']} is deferrable"
        assert not row["computed"], row["index"]


def test_no_exclusion_constraint_and_no_inheritance(catalogue: Any) -> None:
    assert catalogue("select 1 from pg_constraint where contype = 'x'") == []
    assert catalogue("select inhrelid::regclass from pg_inherits") == []


def test_foreign_keys_stay_within_a_merchant_or_lead_to_a_shared_table(catalogue: Any) -> None:
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
        allowed = {("merchant", "merchant"), ("merchant", "shared")}
        allowed |= {("shared", "shared"), ("server", "server")}
        assert way in allowed, row["name"]
        if way == ("merchant", "merchant"):
            assert row["here"] is not None, row["name"]
            assert row["here"] == row["there"], row["name"]


def test_triggers_refuse_or_count(catalogue: Any) -> None:
    """A trigger that read or wrote another merchant's rows would find them on one server only."""
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


def test_triggers_do_not_fire_for_rows_that_arrive(catalogue: Any) -> None:
    """A move copies the rows that triggers wrote; with ``enable always`` they would be doubled."""
    assert catalogue("select tgname from pg_trigger where tgenabled in ('A', 'R')") == []


def test_no_value_comes_from_a_counter_of_one_server(catalogue: Any) -> None:
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
