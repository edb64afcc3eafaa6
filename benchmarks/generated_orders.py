"""Generate many orders with their sessions, attempts, history and ledger entries.

The rows are copies of orders that the services created (``seed.Seed``), made one table at a time by
``insert … select``. Of twenty orders six are settled, two are paid and due to settle, eight are
closed, two are revoked and two wait for their customer. Every second order is of the merchant's
second product. Window sums over the generated entries, added to the existing balances, are the
running balances, so that the ledger passes the integrity rules.
"""

import time
from typing import Final

import msgspec

from benchmarks.seed import SQL_IDS, Seed
from opentill.db.clock import now_ms
from opentill.db.database import Tx

ORDERS_OF_20: Final = {"SETTLED": 6, "PAID": 2, "CLOSED": 8, "REVOKED": 2, "PENDING": 2}
# The position of the first order in each status, among each twenty generated orders.
_FIRST_PAID: Final = ORDERS_OF_20["SETTLED"]
_FIRST_CLOSED: Final = _FIRST_PAID + ORDERS_OF_20["PAID"]
_FIRST_REVOKED: Final = _FIRST_CLOSED + ORDERS_OF_20["CLOSED"]
_FIRST_PENDING: Final = _FIRST_REVOKED + ORDERS_OF_20["REVOKED"]
INTERVAL_MS: Final = 15_000  # the time between two orders
SECOND_PRODUCT: Final = 500_000  # the number of a merchant's second product is this plus its index
_LAST_ORDER_AGE_MS: Final = 10 * 24 * 3600 * 1000
_TIMEOUT_S: Final = 600


class GeneratedOrders(msgspec.Struct, frozen=True):
    """The orders ``first`` to ``first + count - 1``, which belong to the merchants in turn."""

    first: int
    count: int
    seconds: float

    @property
    def due(self) -> int:
        """The number of orders that are due to settle."""
        return self.count * ORDERS_OF_20["PAID"] // 20


def time_range(count: int) -> tuple[int, int]:
    """Return the times at which the first and last of ``count`` generated orders are opened."""
    end = now_ms() - _LAST_ORDER_AGE_MS
    return end - count * INTERVAL_MS, end


async def create_second_products(tx: Tx) -> None:
    """Create a second product of each merchant, so that lists can be filtered by product."""
    first = SQL_IDS["product"].format("b.merchant_index")
    second = SQL_IDS["product"].format(f"b.merchant_index + {SECOND_PRODUCT}")
    columns = (
        "merchant_id, {0}, name, description, image, price_minor, currency, status, metadata,"
        " created_at, updated_at"
    )
    await tx.execute(
        f"insert into products ({columns.format('id')}) select {columns.format(second)}"  # noqa: S608 - constants
        " from bench_merchants b join products using (merchant_id)"
        f" where id = {first}"
    )


async def generate(seed: Seed, count: int, merchant_indexes: range) -> GeneratedOrders:
    """Add ``count`` orders, of these merchants in turn. Creating one takes 10 to 100 µs."""
    started = time.perf_counter()
    first = seed.reserve_orders(count)
    values = (first, count, merchant_indexes.start, len(merchant_indexes), time_range(count)[0])
    async with seed.db.transaction() as tx:
        await tx.execute("set local synchronous_commit = off")
        await tx.execute("set local work_mem = '256MB'")
        # The rows fulfil all foreign keys, and checking each one would take half of the time.
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(_PLAN, *values, timeout=_TIMEOUT_S)
        await tx.execute("create index on bench_plan (n)", timeout=_TIMEOUT_S)
        await tx.execute("analyze bench_plan", timeout=_TIMEOUT_S)
        for table, (expressions, where) in _COPIES.items():
            columns = seed.columns(table)
            selected = ", ".join(expressions.get(column, f"t.{column}") for column in columns)
            await tx.execute(
                f"insert into {table} ({', '.join(columns)}) select {selected} from bench_plan p"  # noqa: S608 - constants
                f" join {table} t on t.merchant_id = p.merchant_id and t.{where} order by p.n",
                timeout=_TIMEOUT_S,
            )
        for statement in (*_DIRECTORY_AND_HISTORY, *_ENTRIES, *_LIST_COUNTS):
            await tx.execute(statement, timeout=_TIMEOUT_S)
        await tx.execute("drop table bench_plan, bench_moves")
    async with seed.db.connection() as tx:
        await tx.execute("vacuum analyze", timeout=_TIMEOUT_S)
        await tx.execute("checkpoint", timeout=_TIMEOUT_S)
    return GeneratedOrders(first, count, time.perf_counter() - started)


# $1 first order number, $2 number of orders, $3 first merchant index, $4 number of merchants,
# $5 time of the first order.
_PLAN: Final = f"""
create unlogged table bench_plan as
select n, b.merchant_id, b.order_id as template_order, b.session_id as template_session,
    b.attempt_id as template_attempt, $5::bigint + (n - $1::bigint) * {INTERVAL_MS} as at,
    case when (n - $1::bigint) / $4::bigint % 20 < {_FIRST_PAID} then 'SETTLED'
        when (n - $1::bigint) / $4::bigint % 20 < {_FIRST_CLOSED} then 'PAID'
        when (n - $1::bigint) / $4::bigint % 20 < {_FIRST_REVOKED}
            then 'CLOSED'
        when (n - $1::bigint) / $4::bigint % 20 < {_FIRST_PENDING} then 'REVOKED'
        else 'PENDING' end as status,
    b.merchant_index + (n - $1::bigint) / $4::bigint % 2 * {SECOND_PRODUCT} as product
from generate_series($1::bigint, $1::bigint + $2::bigint - 1) n
join bench_merchants b on b.merchant_index = $3::bigint + (n - $1::bigint) % $4::bigint
"""  # noqa: S608 - constants
_SESSION, _ORDER, _ATTEMPT = (
    SQL_IDS[name].format("p.n") for name in ("session", "order", "attempt")
)
_PRODUCT: Final = SQL_IDS["product"].format("p.product")
_IS_PAID: Final = "p.status in ('PAID', 'SETTLED')"
_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_TIMES: Final = {"created_at": "p.at", "updated_at": "p.at + 3000"}
# Table → SQL of the columns that differ from the copied row, and the condition for that row.
_COPIES: Final = {
    "checkouts": (
        {
            "id": _SESSION,
            "order_id": _ORDER,
            "product_id": _PRODUCT,
            "status": f"case when p.status = 'PENDING' then 'OPEN' when {_IS_PAID} then 'COMPLETE'"
            " else 'EXPIRED' end",
            "expires_at": f"t.expires_at + {_WEEK_MS}",
            **_TIMES,
        },
        "id = p.template_session",
    ),
    "orders": (
        {
            "id": _ORDER,
            "checkout_id": _SESSION,
            "product_id": _PRODUCT,
            "status": "p.status",
            "history_number": "case p.status when 'PENDING' then 1 when 'PAID' then 3"
            " when 'SETTLED' then 4 else 2 end",
            "paid_at": f"case when {_IS_PAID} then p.at + 2000 end",
            "due_at": f"case when {_IS_PAID} then p.at + 3000 end",
            "settle_at": "case p.status when 'PAID' then p.at + 3000 end",
            "settled_at": "case p.status when 'SETTLED' then p.at + 3000 end",
            "payment_method": f"case when {_IS_PAID} then 'ALIPAY' end",
            "paid_attempt_id": f"case when {_IS_PAID} then {_ATTEMPT} end",
            # The money is not real, as in payments through the sandbox bank.
            "livemode": f"case when {_IS_PAID} then false end",
            **_TIMES,
        },
        "id = p.template_order",
    ),
    "payment_attempts": (
        {
            "id": _ATTEMPT,
            "order_id": _ORDER,
            "status": "'SUCCEEDED'",
            "check_at": "null",
            "provider_ref": _ATTEMPT,
            "created_at": "p.at + 1000",
            "updated_at": "p.at + 2000",
        },
        f"id = p.template_attempt and {_IS_PAID}",
    ),
}
_DIRECTORY_AND_HISTORY: Final = (
    f"""
    insert into directory (id, merchant_id)
    select {_SESSION}, merchant_id from bench_plan p
    union all select {_ATTEMPT}, merchant_id from bench_plan p where {_IS_PAID}
    """,  # noqa: S608 - constants
    f"""
    insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
        cause)
    select p.merchant_id, {_ORDER}, s.number, p.at + s.number * 1000 - 1000, s.event, s.source,
        s.target, 'generated'
    from bench_plan p join (values
        (1, 'opened', null, 'PENDING', '{{PENDING,PAID,SETTLED,CLOSED,REVOKED}}'::text[]),
        (2, 'submitted', 'PENDING', 'CREATING', '{{PAID,SETTLED}}'),
        (2, 'expired', 'PENDING', 'CLOSED', '{{CLOSED}}'),
        (2, 'voided', 'PENDING', 'REVOKED', '{{REVOKED}}'),
        (3, 'confirmed', 'CREATING', 'PAID', '{{PAID,SETTLED}}'),
        (4, 'settled', 'PAID', 'SETTLED', '{{SETTLED}}')
    ) s (number, event, source, target, statuses) on p.status = any (s.statuses)
    order by p.n, s.number
    """,  # noqa: S608 - constants
)
_ENTRIES: Final = (
    f"""
    create unlogged table bench_moves as
    select m.*,
        row_number() over running as number,
        sum(pending) over running as pending_sum, sum(available) over running as available_sum
    from (
        select p.merchant_id, o.settled_currency as currency, p.n, s.position, {_ORDER} as order_id,
            p.at + s.position * 1000 as at, s.type, s.source, s.target, s.sign,
            case s.type when 'PAYMENT' then o.gross_settled_minor
                when 'FEE' then o.gross_settled_minor - o.net_settled_minor
                else o.net_settled_minor end as amount,
            case s.type when 'PAYMENT' then o.gross_settled_minor
                when 'FEE' then o.net_settled_minor - o.gross_settled_minor
                else -o.net_settled_minor end as pending,
            case s.type when 'SETTLEMENT' then o.net_settled_minor else 0 end as available
        from bench_plan p
        join orders o on o.merchant_id = p.merchant_id and o.id = p.template_order
        join (values (1, 'PAYMENT', 'gateway', 'pending', 1, '{{PAID,SETTLED}}'::text[]),
            (2, 'FEE', 'pending', 'platform', -1, '{{PAID,SETTLED}}'),
            (3, 'SETTLEMENT', 'pending', 'available', 1, '{{SETTLED}}')
        ) s (position, type, source, target, sign, statuses) on p.status = any (s.statuses)
    ) m
    where amount > 0
    window running as (partition by merchant_id, currency order by n, position)
    """,  # noqa: S608 - constants
    """
    insert into balances (merchant_id, currency, pending, available, frozen, reserve, gateway, bank,
        platform, entries, last_at)
    select distinct merchant_id, currency, 0, 0, 0, 0, 0, 0, 0, 0, 0 from bench_moves
    on conflict (merchant_id, currency) do nothing
    """,
    """
    insert into entries (merchant_id, currency, number, id, type, from_account, to_account,
        amount_minor, shown_minor, pending_after, available_after, frozen_after, reserve_after,
        source_type, source_id, description, created_at)
    select m.merchant_id, m.currency, b.entries + m.number,
        'txn_' || lpad(to_hex(greatest(b.last_at, m.at)), 12, '0')
            || lpad(to_hex(b.entries + m.number), 10, '0') || '0000',
        m.type, m.source, m.target, m.amount, m.sign * m.amount, b.pending + m.pending_sum,
        b.available + m.available_sum, b.frozen, b.reserve, 'order', m.order_id, 'generated',
        greatest(b.last_at, m.at)
    from bench_moves m join balances b using (merchant_id, currency)
    order by m.n, m.position
    """,
    """
    update balances b set pending = b.pending + s.pending, available = b.available + s.available,
        gateway = b.gateway - s.paid, platform = b.platform + s.fees, entries = b.entries + s.count,
        last_at = greatest(b.last_at, s.at)
    from (
        select merchant_id, currency, count(*) as count, max(at) as at, sum(pending) as pending,
            sum(available) as available,
            coalesce(sum(amount) filter (where type = 'PAYMENT'), 0) as paid,
            coalesce(sum(amount) filter (where type = 'FEE'), 0) as fees
        from bench_moves group by merchant_id, currency
    ) s
    where b.merchant_id = s.merchant_id and b.currency = s.currency
    """,
)
# Computes all list counts anew, because the triggers that count inserted rows were off.
_LIST_COUNTS: Final = (
    "delete from list_changes",
    "delete from list_counts",
    """
    insert into list_counts (merchant_id, list, part, span, since, kind, rows)
    select merchant_id, list, c.part, span, c.since, kind, sum(rows)
    from (
        select merchant_id, 'orders' as list, product_id as part,
            created_at / 3600000 * 3600000 as hour, status as kind, count(*) as rows
        from orders group by 1, 3, 4, 5
        union all
        select merchant_id, 'entries', '', created_at / 3600000 * 3600000, type, count(*)
        from entries group by 1, 4, 5
    ) as there
    cross join lateral (
        select p.part, s.span, s.since
        from (select there.part union select '') as p (part)
        cross join (values ('all', 0), ('day', hour / 86400000 * 86400000), ('hour', hour))
            as s (span, since)
    ) as c
    group by merchant_id, list, c.part, span, c.since, kind
    """,
)
