"""A plain payment: five statements on tables like OpenTill's, and one commit per payment.

The schema ``plain`` has copies of OpenTill's tables with their columns, indexes and checks, but no
foreign keys, directory or outbox. The FastAPI peer uses it, and so does pgbench with the statements
that most teams would write to confirm a payment: lock and read the order, change it, write its
history, change the balance, and write the ledger entries.
"""

from typing import Final

from benchmarks.seed import SQL_IDS
from opentill.db.database import Tx

SCHEMA: Final = "plain"
_TABLES: Final = (
    "merchants",
    "api_keys",
    "products",
    "checkouts",
    "orders",
    "order_history",
    "payment_attempts",
    "balances",
    "entries",
)
_COPIED_TABLES: Final = ("merchants", "api_keys", "products", "balances")


async def create_schema(tx: Tx) -> None:
    """Create the schema and copy merchants, keys, products and balances into it."""
    await tx.execute(f"create schema {SCHEMA}")
    for table in _TABLES:
        like = f"(like public.{table} including all)"
        await tx.execute(f"create table {SCHEMA}.{table} {like}")
    # The callback names the attempt but not the merchant, so that an index by id alone is needed.
    await tx.execute(
        f"create unique index payment_attempts_by_id on {SCHEMA}.payment_attempts (id)"
    )
    for table in _COPIED_TABLES:
        await tx.execute(f"insert into {SCHEMA}.{table} select * from public.{table}")  # noqa: S608 - constants


_ORDER: Final = SQL_IDS["order"].format(":i")
SCRIPT: Final = rf"""
\set n :n + 1
\set i :first + :n * :clients + :client_id
\set m (:i - :first) % :merchants
begin;
select merchant_id, history_number + 1 as number, settled_currency as currency,
    gross_settled_minor as gross, gross_settled_minor - net_settled_minor as fee,
    (extract(epoch from now()) * 1000)::bigint as at
from {SCHEMA}.orders
where merchant_id = (select merchant_id from public.bench_merchants where merchant_index = :m)
    and id = {_ORDER} and status = 'PENDING'
for update
\gset
update {SCHEMA}.orders set status = 'PAID', history_number = :number, paid_at = :at,
    updated_at = :at, payment_method = 'ALIPAY', paid_attempt_id = 'att_1',
    due_at = :at::bigint + 604800000, settle_at = :at::bigint + 604800000
where merchant_id = :merchant_id and id = {_ORDER};
insert into {SCHEMA}.order_history (merchant_id, order_id, number, at, event, from_status,
    to_status, cause)
values (:merchant_id, {_ORDER}, :number, :at, 'confirmed', 'PENDING', 'PAID', 'confirmed');
update {SCHEMA}.balances set pending = pending + :gross::bigint - :fee::bigint,
    gateway = gateway - :gross::bigint, platform = platform + :fee::bigint, entries = entries + 2,
    last_at = greatest(last_at, :at)
where merchant_id = :merchant_id and currency = :currency
returning pending, available, frozen, reserve, entries, last_at
\gset
insert into {SCHEMA}.entries (merchant_id, currency, number, id, type, from_account, to_account,
    amount_minor, shown_minor, pending_after, available_after, frozen_after, reserve_after,
    source_type, source_id, description, created_at)
values
    (:merchant_id, :currency, :entries::bigint - 1,
        'txn_a' || lpad((:entries::bigint - 1)::text, 25, '0'), 'PAYMENT', 'gateway', 'pending',
        :gross, :gross, :pending::bigint + :fee::bigint, :available, :frozen, :reserve, 'order',
        {_ORDER}, 'Payment', :last_at),
    (:merchant_id, :currency, :entries, 'txn_a' || lpad((:entries)::text, 25, '0'), 'FEE',
        'pending', 'platform', :fee, -:fee::bigint, :pending, :available, :frozen, :reserve,
        'order', {_ORDER}, 'Platform fee', :last_at);
commit;
"""  # noqa: S608 - constants
