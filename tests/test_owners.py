"""Each table is written by the feature that owns it, and by nobody else (decision 0049).

What a statement writes is what PostgreSQL plans to modify, also inside ``with``.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import pytest

from support.statements import EVERYWHERE

OWNERS: Final = {
    "adjustments": "adjustments",
    "approval_requests": "approvals",
    "solo_movements": "merchants",
    "agreement_acceptances": "agreement",
    "api_keys": "merchants",
    "audit_head": "merchants",
    "audit_log": "merchants",
    "attempt_figures": "figures",
    "awaited_figures": "figures",
    "balances": "ledger",
    "bank_account_confirmations": "payouts",
    "bank_accounts": "payouts",
    "begun_logins": "people",
    "business_clock": "db",
    "checkouts": "orders",  # a session's row is made with its order's, and its status follows it
    "delivery_attempts": "webhooks",
    "dispute_evidence": "disputes",
    "dispute_notes": "disputes",
    "disputes": "disputes",
    "endpoint_leases": "webhooks",
    "entries": "ledger",
    "epay_credentials": "epay",
    "epay_notifications": "epay",
    "epay_orders": "epay",
    "epay_products": "epay",
    "epay_refunds": "epay",
    "event_heads": "webhooks",
    "events": "webhooks",
    "exchange_rates": "rates",
    "rate_days": "rates",
    "figure_heads": "figures",
    "figures": "figures",
    "gateway_figures": "figures",
    "gateway_tests": "checkouts",
    "host_leases": "webhooks",
    "idempotency_keys": "http",
    "ignored_fields": "http",
    "ledger_checks": "ledger",
    "late_payments": "orders",
    "list_changes": "list_counts",
    "login_limits": "people",
    "logins": "people",
    "mail_events_put_aside": "mail",
    "mail_heads": "mail",
    "mail_preferences": "mail",
    "mails": "mail",
    "members": "people",
    "person_links": "people",
    "factor_resets": "people",
    "persons": "people",
    "staff": "people",
    "staff_visits": "people",
    "list_counts": "list_counts",
    "merchant_applications": "merchants",
    "merchant_history": "merchants",
    "merchant_logos": "merchants",
    "merchant_terms": "merchants",
    "merchants": "merchants",
    "order_history": "orders",
    "order_notes": "orders",
    "orders": "orders",
    "passkey_challenges": "people",
    "passkeys": "people",
    "payment_attempts": "orders",
    "payment_links": "payment_links",
    "payment_link_sales": "payment_links",
    "payment_link_uses": "payment_links",
    "payout_runs": "payouts",
    "payout_transfers": "payouts",
    "payout_requests": "payouts",
    "payouts": "payouts",
    "products": "products",
    "rate_limit_windows": "db",
    "reconciliation_differences": "reconciliation",
    "reconciliation_files": "reconciliation",
    "recovery_codes": "people",
    "refund_cases": "refunds",
    "refunds": "refunds",
    "refused_requests": "http",
    "schema_migrations": "db",
    "search_changes": "orders",
    "search_counts": "orders",
    "search_heads": "orders",
    "search_terms": "orders",
    "secret_key": "db",
    "unmatched_disputes": "disputes",
    "webhook_deliveries": "webhooks",
    "webhook_endpoints": "webhooks",
}
# Of all features: each lists the public ids that it makes.
SHARED: Final = frozenset({"directory"})
# A row for another feature to work on, written in the transaction of what it is about.
HANDED_OVER: Final = {
    # The Epay shop is notified of a paid order.
    ("orders.transition_queries.TRANSITION", "epay_notifications"),
    ("orders.transition_queries.CONFIRMATIONS", "epay_notifications"),
    # Caller and rate limit are one statement, since every request has them.
    ("merchants.queries.AUTHENTICATE_LIMITED", "rate_limit_windows"),
}


def _modified(node: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that a plan modifies."""
    if node.get("Node Type") == "ModifyTable":
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from _modified(child)


async def _plan(connection: asyncpg.Connection, sql: str) -> dict[str, Any]:
    prepared = await connection.prepare(sql)
    values = ", ".join(["null"] * len(prepared.get_parameters()))
    execute = f"execute {prepared.get_name()}" + (f" ({values})" if values else "")
    plan = json.loads(await connection.fetchval(f"explain (format json) {execute}"))[0]
    return {} if plan == "Utility Statement" else plan["Plan"]


@pytest.fixture(scope="module")
def written(postgres_url: str, template: str) -> dict[str, set[str]]:
    """The tables that each statement of the product writes, and every table there is."""

    async def explain() -> dict[str, set[str]]:
        connection = await asyncpg.connect(postgres_url.replace("@/opentill?", f"@/{template}?"))
        try:
            tables = await connection.fetch(
                "select relname from pg_class where relkind in ('r', 'p')"
                " and relnamespace = 'public'::regnamespace and not relispartition"
            )
            plans = {
                name: set(_modified(await _plan(connection, statement.sql)))
                for name, statement in EVERYWHERE.items()
            }
            return {**plans, "": {row["relname"] for row in tables}}
        finally:
            await connection.close()

    return asyncio.run(explain())


def test_every_table_has_an_owner(written: dict[str, set[str]]) -> None:
    assert written[""] == {*OWNERS, *SHARED}


def test_a_table_is_written_by_its_owner_alone(written: dict[str, set[str]]) -> None:
    foreign = {
        (name, table)
        for name, tables in written.items()
        for table in tables - SHARED
        if name and name.split(".")[0] != OWNERS[table]
    }
    assert foreign == HANDED_OVER


def test_every_owner_writes_its_table(written: dict[str, set[str]]) -> None:
    # Of migrations, which are no statements of a feature, and of triggers.
    by_hand = {"schema_migrations", "late_payments", "payment_link_sales"}
    writes = {(table, name.split(".")[0]) for name in written if name for table in written[name]}
    assert set(OWNERS.items()) - writes <= {(table, OWNERS[table]) for table in by_hand}
