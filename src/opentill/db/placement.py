"""Where each table is on a cluster of Citus: one row for each table (decision 0118).

What is a merchant's is spread by merchant, so that a statement about one merchant is one node's.
What all statements join, and is small and seldom written, is on every node. The rest is on the
coordinator: what is written together with a merchant's rows is known to Citus, so that both are
committed or neither is.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Place = Literal["distributed", "reference", "coordinator", "plain"]
BY: Final = "merchant_id"

PLACES: Final[Mapping[str, Place]] = MappingProxyType({
    # distributed by merchant_id, all of a merchant's rows on one node
    "adjustments": "distributed",
    "agreement_acceptances": "distributed",
    "approval_requests": "distributed",
    "attempt_figures": "distributed",
    "awaited_figures": "distributed",
    "balances": "distributed",
    "bank_accounts": "distributed",
    "checkouts": "distributed",
    "delivery_attempts": "distributed",
    "dispute_evidence": "distributed",
    "dispute_notes": "distributed",
    "disputes": "distributed",
    "endpoint_leases": "distributed",
    "entries": "distributed",
    "epay_notifications": "distributed",
    "epay_orders": "distributed",
    "epay_products": "distributed",
    "epay_refunds": "distributed",
    "event_heads": "distributed",
    "events": "distributed",
    "figure_heads": "distributed",
    "figures": "distributed",
    "gateway_tests": "distributed",
    "idempotency_keys": "distributed",
    "ignored_fields": "distributed",
    "late_payments": "distributed",
    "ledger_checks": "distributed",
    "list_changes": "distributed",
    "list_counts": "distributed",
    "mail_events_put_aside": "distributed",
    "mail_heads": "distributed",
    "mails": "distributed",
    "merchant_history": "distributed",
    "merchant_logos": "distributed",
    "merchant_terms": "distributed",
    "order_history": "distributed",
    "order_notes": "distributed",
    "orders": "distributed",
    "payment_attempts": "distributed",
    "payment_link_sales": "distributed",
    "payment_link_uses": "distributed",
    "payment_links": "distributed",
    "payout_requests": "distributed",
    "payout_transfers": "distributed",
    "payouts": "distributed",
    "products": "distributed",
    "refund_cases": "distributed",
    "refunds": "distributed",
    "refused_requests": "distributed",
    "search_changes": "distributed",
    "search_counts": "distributed",
    "search_heads": "distributed",
    "search_terms": "distributed",
    "solo_movements": "distributed",
    "unmatched_disputes": "distributed",
    "webhook_deliveries": "distributed",
    "webhook_endpoints": "distributed",
    # on every node
    "api_keys": "reference",
    "begun_logins": "reference",
    "business_clock": "reference",
    "epay_credentials": "reference",
    "factor_resets": "reference",
    "exchange_rates": "reference",
    "logins": "reference",
    "members": "reference",
    "mail_preferences": "reference",
    "merchant_applications": "reference",
    "merchants": "reference",
    "passkey_challenges": "reference",
    "passkeys": "reference",
    "person_links": "reference",
    "persons": "reference",
    "rate_days": "reference",
    "recovery_codes": "reference",
    "secret_key": "reference",
    "staff": "reference",
    "staff_visits": "reference",
    # on the coordinator, in one transaction with what is elsewhere
    "audit_head": "coordinator",
    "audit_log": "coordinator",
    "directory": "coordinator",
    "gateway_figures": "coordinator",
    "host_leases": "coordinator",
    "login_limits": "coordinator",
    "payout_runs": "coordinator",
    "reconciliation_differences": "coordinator",
    "reconciliation_files": "coordinator",
    # on the coordinator and not known to Citus: written by themselves, or worth nothing afterwards
    "rate_limit_windows": "plain",
    "schema_migrations": "plain",
})  # fmt: skip
