"""Every table of the schema: the feature that writes it, and to whom its rows belong."""

from typing import Final, Literal, NamedTuple

# Where a table's rows are if merchants move to other servers (decision 0116). Rows of a merchant
# move with it, shared rows are the same on all servers, and other rows belong to the server that
# wrote them.
Place = Literal["merchant", "shared", "server"]


class Table(NamedTuple):
    """A table's owner, its place, and why its keys do not begin with the merchant."""

    owner: str  # the only feature that writes the table (decision 0049); "" for the directory
    place: Place
    other_key: str = ""  # why some key does not begin with merchant_id; "" if all keys do


TABLES: Final = {
    "adjustments": Table("adjustments", "merchant"),
    "agreement_acceptances": Table("agreement", "merchant"),
    "api_keys": Table("merchants", "shared", "found by a key before the merchant is known"),
    "approval_requests": Table("approvals", "merchant"),
    "attempt_figures": Table("figures", "merchant"),
    "audit_head": Table("merchants", "server", "about the operator, one row"),
    "audit_log": Table("merchants", "server", "about the operator"),
    "awaited_figures": Table("figures", "merchant"),
    "balances": Table("ledger", "merchant"),
    "bank_account_confirmations": Table("payouts", "merchant"),
    "bank_accounts": Table("payouts", "merchant"),
    "begun_logins": Table("people", "shared", "about persons"),
    "brand_figures": Table("figures", "merchant"),
    "business_clock": Table("db", "shared", "about the deployment, one row"),
    # orders write sessions: a session is created with its order, and its status follows the order's
    "checkouts": Table("orders", "merchant"),
    "delivery_attempts": Table("webhooks", "merchant"),
    # several features write it: each adds the public ids that it creates
    "direct_figures": Table("figures", "merchant"),
    "directory": Table("", "server", "finds the merchant of a public id"),
    "deposit_addresses": Table("orders", "server", "found by an address of a chain"),
    "deposit_cases": Table("deposits", "server", "found by a transaction of a chain"),
    "deposit_keys": Table("orders", "server", "numbers of addresses, for all merchants"),
    "deposit_positions": Table("deposits", "server", "about accounts at gateways"),
    "deposit_refunds": Table("deposits", "server", "found by a transaction of a chain"),
    "deposit_sums": Table("deposits", "server", "found by an address of a chain"),
    "deposit_transfers": Table("deposits", "server", "found by a transaction of a chain"),
    "dispute_evidence": Table("disputes", "merchant"),
    "dispute_notes": Table("disputes", "merchant"),
    "disputes": Table("disputes", "merchant"),
    "endpoint_leases": Table("webhooks", "merchant"),
    "entries": Table("ledger", "merchant"),
    "environment_breakers": Table("gateways", "shared", "about the whole deployment"),
    "epay_credentials": Table("epay", "shared"),
    "epay_imports": Table("epay_import", "merchant"),
    "epay_notifications": Table("epay", "merchant"),
    "epay_orders": Table("epay", "merchant"),
    "epay_platform_keys": Table("epay", "shared", "about the whole deployment"),
    "epay_products": Table("epay", "merchant"),
    "epay_refunds": Table("epay", "merchant"),
    "epay_signatures": Table("epay", "merchant"),
    "event_heads": Table("webhooks", "merchant"),
    "event_resends": Table("webhooks", "merchant"),
    "events": Table("webhooks", "merchant"),
    "exchange_rates": Table("rates", "shared", "about the whole deployment"),
    "factor_resets": Table("people", "shared", "about persons"),
    "figure_heads": Table("figures", "merchant"),
    "figures": Table("figures", "merchant"),
    "gateway_account_costs": Table("gateways", "shared", "about the whole deployment"),
    "gateway_account_limits": Table("gateways", "shared", "about the whole deployment"),
    "gateway_accounts": Table("gateways", "shared", "may belong to the operator"),
    "gateway_day_totals": Table("orders", "server", "about all merchants together"),
    "gateway_figures": Table("figures", "server", "about all merchants together"),
    "gateway_tests": Table("checkouts", "merchant"),
    "host_leases": Table("webhooks", "server", "about hosts, which several merchants may share"),
    "idempotency_keys": Table("http", "merchant"),
    "ignored_fields": Table("http", "merchant"),
    "late_payments": Table("orders", "merchant"),
    "ledger_checks": Table("ledger", "merchant"),
    "list_changes": Table("list_counts", "merchant"),
    "list_counts": Table("list_counts", "merchant"),
    "login_limits": Table("people", "server", "counts addresses too"),
    "logins": Table("people", "shared", "about persons"),
    "mail_events_put_aside": Table("mail", "merchant"),
    "mail_heads": Table("mail", "merchant"),
    "mail_preferences": Table("mail", "shared"),
    "mails": Table("mail", "merchant"),
    "members": Table("people", "shared", "about persons, who may be members of several merchants"),
    "merchant_applications": Table("merchants", "shared"),
    "merchant_gateways": Table("gateways", "shared"),
    "merchant_history": Table("merchants", "merchant"),
    "merchant_logos": Table("merchants", "merchant"),
    "merchant_sellers": Table("merchants", "merchant"),
    "merchant_terms": Table("merchants", "merchant"),
    "merchants": Table("merchants", "shared", "is the list of merchants"),
    "order_history": Table("orders", "merchant"),
    "order_notes": Table("orders", "merchant"),
    "orders": Table("orders", "merchant"),
    "passkey_challenges": Table("people", "shared", "about persons, or nobody yet"),
    "passkeys": Table("people", "shared", "about persons, found by the credential"),
    "paused_gateways": Table("gateways", "shared", "about the whole deployment"),
    "payment_attempts": Table("orders", "merchant"),
    "payment_link_sales": Table("payment_links", "merchant"),
    "payment_link_uses": Table("payment_links", "merchant"),
    "payment_links": Table("payment_links", "merchant"),
    "payout_requests": Table("payouts", "merchant"),
    "payout_runs": Table("payouts", "server", "about payouts of many merchants"),
    "payout_transfers": Table("payouts", "merchant"),
    "payouts": Table("payouts", "merchant"),
    "person_links": Table("people", "shared", "found by a token; may be about the deployment"),
    "persons": Table("people", "shared", "may be members of several merchants"),
    "prepaid_notices": Table("mail", "merchant"),
    "product_images": Table("products", "merchant"),
    "products": Table("products", "merchant"),
    "rate_days": Table("rates", "shared", "about the whole deployment"),
    "rate_limit_windows": Table("db", "server", "counts addresses too; unlogged"),
    "reconciliation_differences": Table(
        "reconciliation", "server", "may belong to an unknown merchant"
    ),
    "reconciliation_files": Table("reconciliation", "server", "reports about many merchants"),
    "recovery_codes": Table("people", "shared", "about persons"),
    "refund_cases": Table("refunds", "merchant"),
    "refunds": Table("refunds", "merchant"),
    "refused_requests": Table("http", "merchant"),
    "routing_rule_head": Table("gateways", "shared", "about the whole deployment, one row"),
    "routing_rules": Table("gateways", "shared", "may be about all merchants"),
    "schema_migrations": Table("db", "server", "about the deployment"),
    "search_changes": Table("orders", "merchant"),
    "search_counts": Table("orders", "merchant"),
    "search_heads": Table("orders", "merchant"),
    "search_reindexing": Table("orders", "merchant"),
    "search_terms": Table("orders", "merchant"),
    "search_words": Table("orders", "merchant"),
    "secret_key": Table("db", "shared", "about the deployment, one row"),
    "solo_movements": Table("merchants", "merchant"),
    "staff": Table("people", "shared", "about the deployment"),
    "staff_visits": Table("people", "shared", "about staff"),
    "unmatched_disputes": Table("disputes", "merchant"),
    "webhook_deliveries": Table("webhooks", "merchant"),
    "webhook_endpoints": Table("webhooks", "merchant"),
}
# Tables all of whose keys begin with the merchant.
TENANT_TABLES: Final = {name for name, table in TABLES.items() if not table.other_key}
# Tables whose rows move with their merchant.
MERCHANT_TABLES: Final = {name for name, table in TABLES.items() if table.place == "merchant"}
