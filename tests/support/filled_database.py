"""A merchant with many orders, each with its session, attempt, events and entries.

The services pay one order. ``insert … select`` copies its rows under other ids, with the numbers
and running balances that postings would have written, so that `ledger check` reports no violation.
"""

from typing import Final

from opentill.db.database import Tx
from opentill.orders import Order
from support import world

HOUR: Final = 3_600_000
# SQL that makes an id of the number n of a copy.
_ID: Final = "lpad(n::text, 26, '0')"
# Table → the columns whose values differ in a copy.
_COPIED: Final = {
    "checkouts": {"id": f"'cs_' || {_ID}", "order_id": f"'order_' || {_ID}"},
    "orders": {
        "id": f"'order_' || {_ID}",
        "checkout_id": f"'cs_' || {_ID}",
        "paid_attempt_id": f"'att_' || {_ID}",
        "created_at": "t.created_at - n * $3::bigint",
    },
    "payment_attempts": {"id": f"'att_' || {_ID}", "order_id": f"'order_' || {_ID}"},
    "order_history": {"order_id": f"'order_' || {_ID}"},
}


async def copy_order(tx: Tx, order: Order, copies: int, interval_ms: int = 2 * 60_000) -> None:
    """Copy a paid order of a merchant whose ledger contains only its payment.

    Each copy was created ``interval_ms`` before the previous one.
    """
    for table, changes in _COPIED.items():
        names = await tx.fetch(
            """
            select attname from pg_attribute
            where attrelid = $1::text::regclass and attnum > 0 and not attisdropped
            """,
            table,
        )
        columns = [row["attname"] for row in names]
        values = ", ".join(changes.get(column, f"t.{column}") for column in columns)
        key = "order_id" if "order_id" in columns else "id"
        sql = f"""
            insert into {table} ({", ".join(columns)})
            select {values} from {table} t, generate_series(1, $4::int) n
            where t.merchant_id = $1 and t.{key} = $2 and $3::bigint is not null
        """
        await tx.execute(sql, order.merchant_id, order.id, interval_ms, copies, timeout=600)
    await tx.execute(
        """
        insert into events (merchant_id, id, number, type, body, created_at)
        select merchant_id, id || '_' || n, null, type,
            replace(replace(body, $2, 'order_' || lpad(n::text, 26, '0')), id, id || '_' || n),
            created_at
        from events, generate_series(1, $3::int) n
        where merchant_id = $1 and type in ('order.paid', 'checkout.completed')
        """,
        order.merchant_id, order.id, copies, timeout=600,
    )  # fmt: skip
    gross, net = order.gross_settled_minor, order.net_settled_minor
    await tx.execute(
        """
        update balances set entries = entries + 2 * $2::int, pending = pending + $2 * $3::bigint,
            gateway = gateway - $2 * $4::bigint, platform = platform + $2 * $5::bigint
        where merchant_id = $1
        """,
        order.merchant_id, copies, net, gross, gross - net,
    )  # fmt: skip
    await tx.execute(
        """
        insert into entries (merchant_id, currency, number, id, type, from_account, to_account,
            amount_minor, shown_minor, pending_after, available_after, frozen_after, reserve_after,
            source_type, source_id, description, created_at)
        select e.merchant_id, e.currency, 2 * n + e.number,
            'txn_' || lpad(to_hex(e.created_at), 12, '0') || lpad(to_hex(2 * n + e.number), 10, '0')
                || '00000000',
            e.type, e.from_account, e.to_account, e.amount_minor, e.shown_minor,
            e.pending_after + n * $3::bigint, 0, 0, 0, e.source_type,
            'order_' || lpad(n::text, 26, '0'), e.description, e.created_at
        from generate_series(1, $2::int) n, entries e where e.merchant_id = $1 and e.number <= 2
        order by n, e.number
        """,
        order.merchant_id, copies, net, timeout=600,
    )  # fmt: skip


async def create_filled_merchant(
    tx: Tx, copies: int, interval_ms: int = 2 * 60_000, **terms: object
) -> Order:
    """Create a merchant with a paid order and copies of it; return the original."""
    order = await world.create_order_in(tx, "PAID", **terms)
    if copies:
        await copy_order(tx, order, copies, interval_ms)
    return order
