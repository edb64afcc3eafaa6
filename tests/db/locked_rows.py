"""For each statement that locks rows: a row that it locks, and a change of it."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import asyncpg

from opentill.core.ids import new_id
from support import world

Row = asyncpg.Record
LATE: Final = world.NOW * 2


class Case(NamedTuple):
    """A row that a statement locks, and the change that another session makes to it."""

    table: str
    values: Callable[[Row], dict[str, Any]]  # returns the statement's parameters for the row
    change: str = "updated_at = updated_at + 1"
    changed_column: str | None = "updated_at"  # a column of the result that shows the change
    where: str = "true"
    # Whether other sessions may insert rows that refer to the locked one.
    allows_references: bool = False


def by_id(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"], "id": row["id"]}


def by_ids(row: Row) -> dict[str, Any]:
    return {"merchant_id": [row["merchant_id"]], "id": [row["id"]]}


def by_balance(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"], "currency": row["currency"]}


def by_merchant(row: Row) -> dict[str, Any]:
    return {"merchant_id": row["merchant_id"]}


PROCESSING: Final = "status = 'PROCESSING'"
CLAIM: Final = {
    "now": LATE, "lease_until": LATE, "limit": 1000, "gateways": None, "included": True,
}  # fmt: skip
IDLE: Final = Case(
    "orders",
    lambda row: {
        "merchant_id": row["merchant_id"],
        "payment_link_id": row["payment_link_id"],
        "before": LATE,
    },
    changed_column=None,
    where="payment_link_id is not null",
)
MERCHANT: Final = Case(
    "merchants", lambda row: {"merchant_id": row["id"]}, changed_column=None, allows_references=True
)
# Statements that change the rows that they lock.
CHANGING: Final = tuple(
    f"orders.transition_queries.SUBMITTED_{name}"
    for name in ("WITHIN_LIMIT", "PREPAID", "PREPAID_WITHIN_LIMIT")
)


def by_submission(row: Row) -> dict[str, Any]:
    return {
        "merchant_id": row["merchant_id"], "order_id": row["id"], "source": row["status"],
        "history_number": row["history_number"], "target": "CREATING", "event": "submitted",
        "cause": "", "customer_email": "", "customer_name": None, "payer_ip": "",
        "attempt_id": new_id("att"), "gateway": "gat_1", "method": "CREDIT_CARD",
        "amount_minor": 1, "currency": row["currency"], "locale": "en", "check_at": LATE,
        "now": LATE, "limit_day": 0, "route": None, "prepaid_minor": 0,
    }  # fmt: skip


def by_prepaid_submission(row: Row) -> dict[str, Any]:
    return {**by_submission(row), "settled_currency": row["settled_currency"]}


CASES: Final = {
    "orders.queries.LOCKED": Case("orders", by_id),
    "orders.transition_queries.SUBMITTED_WITHIN_LIMIT": Case(
        "orders", by_submission, changed_column=None, where="status = 'PENDING'"
    ),
    **dict.fromkeys(CHANGING[1:], Case(
        "orders", by_prepaid_submission, changed_column=None,
        where="status = 'PENDING' and merchant_id in (select merchant_id from balances)",
    )),
    "orders.payments.queries.LOCK_MANY": Case("orders", by_ids),
    "orders.payments.queries.LOCK_NUMBER": Case(
        "orders", by_id, changed_column=None, where="id in (select order_id from epay_orders)"
    ),
    "orders.settlement.queries.LOCK_SETTLEABLE": Case(
        "orders", by_id, where="settle_at is not null"
    ),
    "orders.settlement.queries.LOCK_DUE": Case(
        "orders",
        lambda row: {"merchant_id": row["merchant_id"], "until": LATE, "limit": 1000},
        where="settle_at is not null",
    ),
    "orders.payments.queries.CLAIM_ATTEMPTS": Case(
        "payment_attempts", lambda _: CLAIM, where="check_at is not null"
    ),
    "refunds.queries.SENDING": Case("refunds", by_id, "sent = not sent", "sent", PROCESSING),
    "refunds.queries.CLAIM": Case(
        "refunds", lambda _: CLAIM, where=PROCESSING
    ),
    "disputes.queries.LOCKED": Case("disputes", by_id),
    "disputes.queries.UNMATCHED": Case(
        "unmatched_disputes",
        lambda row: {name: row[name] for name in ("merchant_id", "gateway", "gateway_ref")},
    ),
    "refunds.queries.CASE": Case(
        "refund_cases",
        lambda row: {name: row[name] for name in ("merchant_id", "gateway", "gateway_ref")},
    ),
    "refunds.queries.CLAIM_UNMATCHED": Case(
        "refund_cases", lambda _: {"now": LATE, "limit": 1000}, where="kind = 'UNMATCHED'"
    ),
    "disputes.queries.CLAIM_UNMATCHED": Case(
        "unmatched_disputes", lambda _: {"now": LATE, "limit": 1000}
    ),
    "ledger.queries.LOCK_MANY": Case(
        "balances",
        lambda row: {name: [value] for name, value in by_balance(row).items()},
        "available = available + 1, bank = bank - 1",
        "available",
    ),
    "payouts.queries.LOCK_AVAILABLE": Case(
        "balances",
        by_balance,
        "available = available + 1, bank = bank - 1",
        "available",
    ),
    "payouts.queries.RUN_LOCKED": Case(
        "payout_runs", lambda row: {"id": row["id"]}, "reason = reason || '!'", "reason"
    ),
    "merchants.queries.LOCK": MERCHANT,
    "merchants.queries.LOCKED": MERCHANT._replace(changed_column="updated_at"),
    "merchants.queries.LOCK_FOR_UPDATE": MERCHANT._replace(
        changed_column="updated_at", allows_references=False
    ),
    "merchants.queries.LOCK_AUDIT_HEAD": Case(
        "audit_head", lambda _: {}, "number = number + 1", "number"
    ),
    "merchants.queries.LOCKED_KEY": Case(
        "api_keys",
        lambda row: {"id": row["id"]},
        "replaced_by = 'key_2'",
        "replaced_by",
        allows_references=True,
    ),
    "products.queries.LOCKED": Case("products", by_id),
    "payment_links.queries.LOCKED": Case("payment_links", by_id),
    "payment_links.queries.LOCK_IDLE": IDLE,
    "payment_links.queries.AWAIT_IDLE": IDLE,
    "epay.queries.LOCKED": Case("epay_credentials", by_merchant, allows_references=True),
    "epay.queries.CLAIM_NOTICES": Case(
        "epay_notifications",
        lambda _: {
            "now": LATE, "lease_until": LATE, "limit": 1000, "per_merchant": 50,
            "merchant_id": [], "notices": [],
        },
    ),
    "epay.queries.PRUNE_REQUESTS": Case(
        "epay_refunds", lambda _: {"until": LATE}, "created_at = created_at + 1", None
    ),
    "epay.queries.PRUNE_SIGNATURES": Case(
        "epay_signatures", lambda _: {"until": LATE}, "created_at = created_at + 1", None
    ),
    "orders.search.queries.LOCK_HEAD": Case(
        "search_heads", by_merchant, "merchant_id = merchant_id", None
    ),
    "webhooks.catchup_queries.LOCK_HEAD": Case(
        "event_heads", by_merchant, "number = number + 1", "number"
    ),
    "webhooks.queries.LOCKED": Case("webhook_endpoints", by_id),
    "webhooks.dispatch_queries.TAKE_LEASES": Case(
        "endpoint_leases",
        lambda _: {
            "now": LATE, "real_now": LATE, "owner": "me", "until": LATE, "limit": 1000,
            "failing_limit": 1000, "full_hosts": [], "per_host": 1000,
        },
        "failing_since = coalesce(failing_since, 0) + 1",
        "failing_since",
    ),
    "db.queries.PRUNE_WINDOWS": Case(
        "rate_limit_windows",
        lambda _: {
            "before": LATE, "before_hourly": LATE, "before_daily": LATE, "after": LATE,
        },
        "last_at = last_at + 1",
        None,
    ),
    "figures.queries.LOCK_HEAD": Case(
        "figure_heads", by_balance, "number = number + 1", "number"
    ),
    "figures.attempt_queries.LOCK_ATTEMPTS": Case(
        "attempt_figures", by_merchant, "failed = failed + 1", None, "since = 0"
    ),
    "orders.payments.queries.COUNT_FAILED": Case(
        "payment_attempts",
        lambda row: {**by_merchant(row), "limit": 1000},
        where="status = 'DECLINED' and counted_at is null",
    ),
    "orders.payments.direct_queries.COUNT_DIRECT": Case(
        "payment_attempts",
        lambda row: {**by_merchant(row), "limit": 1000},
        where="status = 'SUCCEEDED' and prepaid_minor is not null",
    ),
    "people.queries.LOCKED": Case("persons", lambda row: {"id": row["id"]}, allows_references=True),
    "people.queries.LOCK_REFRESHED": Case(
        "logins",
        lambda row: {"token_sha256": row["token_sha256"]},
        "used_at = used_at + 1",
        "used_at",
    ),
    "people.queries.LOCK_ADMINS": Case(
        "staff", lambda _: {}, "created_at = created_at + 1", "created_at"
    ),
    "http.queries.PRUNE": Case(
        "idempotency_keys", lambda _: {"before": LATE}, "created_at = created_at + 1", None
    ),
    "http.queries.PRUNE_REFUSED": Case(
        "refused_requests", lambda _: {"until": LATE}, "code = code + 1", None
    ),
    "mail.queries.CLAIM": Case(
        "mails", lambda _: {"now": LATE, "lease_until": LATE, "limit": 1000},
        where="status = 'WAITING'",
    ),
    "mail.queries.EXPIRE_LEASES": Case(
        "mails", lambda _: {"now": LATE, "limit": 1000, "result": "unknown"},
        changed_column=None, where="status = 'SENDING'",
    ),
    "mail.queries.GIVE_UP": Case(
        "mails", lambda _: {"now": LATE, "limit": 1000, "before": LATE},
        changed_column=None, where="status = 'WAITING'",
    ),
    "mail.queries.LOCK_HEAD": Case(
        "mail_heads", by_merchant, "number = number + 1", "number"
    ),
    "mail.queries.LOCK_PREPAID_NOTICE": Case(
        "prepaid_notices", by_balance, "number = number + 1", "number"
    ),
    "deposits.queries.LOCK_DUE": Case(
        "deposit_sums", lambda row: {"address": row["address"]}, "received = received + 1",
        "received",
    ),
    "http.queries.PRUNE_IGNORED": Case(
        "ignored_fields", lambda _: {"until": LATE}, "requests = requests + 1", None
    ),
    "merchants.queries.UPDATE_LAST_USED": Case(
        "api_keys",
        lambda row: {"id": [row["id"]], "used_at": [LATE // 60_000 * 60_000]},
        "hint = hint",
        None,
    ),
}  # fmt: skip
