"""Much data: orders in every state with all that belongs to them, so that the books agree.

Copies of what went through the services (``seed.Seed``), a table at a time by ``insert … select``:
of twenty orders six are settled, two are paid and due to settle, eight were closed, two revoked and
two wait for their customer. Every second is of a second product. The running balances are window
sums over what is generated, on top of the balances that are there.
"""

import time
from typing import Final

import msgspec

from benchmarks.seed import SQL_IDS, Seed
from opentill.db.clock import now_ms
from opentill.db.database import Tx

OF_20: Final = {"SETTLED": 6, "PAID": 2, "CLOSED": 8, "REVOKED": 2, "PENDING": 2}
APART_MS: Final = 15_000  # between one order and the next
SECOND_PRODUCT: Final = 500_000  # added to a merchant's place
_AGO_MS: Final = 10 * 24 * 3600 * 1000  # so long ago was the last
_TIMEOUT_S: Final = 600


class Filled(msgspec.Struct, frozen=True):
    """What was made: orders ``first`` to ``first + count - 1``, of the merchants in turn."""

    first: int
    count: int
    seconds: float

    @property
    def due(self) -> int:
        """How many orders are due to settle."""
        return self.count * OF_20["PAID"] // 20


def times(count: int) -> tuple[int, int]:
    """Return when the first and the last of so many orders were opened, if made now."""
    end = now_ms() - _AGO_MS
    return end - count * APART_MS, end


async def second_products(tx: Tx) -> None:
    """Give each merchant a second product, to have something to filter by."""
    first, second = SQL_IDS["product"], SQL_IDS["product"].format(f"b.place + {SECOND_PRODUCT}")
    columns = (
        "merchant_id, {0}, name, description, image, price_minor, currency, status, metadata,"
        " created_at, updated_at"
    )
    await tx.execute(
        f"insert into products ({columns.format('id')}) select {columns.format(second)}"  # noqa: S608 - ours
        " from bench_tenants b join products using (merchant_id)"
        f" where id = {first.format('b.place')}"
    )


async def fill(seed: Seed, count: int, places: range) -> Filled:
    """Add so many orders of the merchants at these places, in turn. Takes 10 µs to 100 µs each."""
    started = time.perf_counter()
    first = seed.reserve(count)
    values = (first, count, places.start, len(places), times(count)[0])
    async with seed.db.transaction() as tx:
        await tx.execute("set local synchronous_commit = off")
        await tx.execute("set local work_mem = '256MB'")
        # The rows refer to each other by how they are made; examining each costs half of the time.
        await tx.execute("set local session_replication_role = replica")
        await tx.execute(_PLAN, *values, timeout=_TIMEOUT_S)
        await tx.execute("create index on bench_plan (n)", timeout=_TIMEOUT_S)
        await tx.execute("analyze bench_plan", timeout=_TIMEOUT_S)
        for table, (changes, where) in _COPIES.items():
            columns = seed.columns(table)
            chosen = ", ".join(changes.get(column, f"t.{column}") for column in columns)
            await tx.execute(
                f"insert into {table} ({', '.join(columns)}) select {chosen} from bench_plan p"  # noqa: S608 - ours
                f" join {table} t on t.merchant_id = p.merchant_id and t.{where} order by p.n",
                timeout=_TIMEOUT_S,
            )
        for statement in (*_PLAIN, *_ENTRIES, *_COUNTS):
            await tx.execute(statement, timeout=_TIMEOUT_S)
        await tx.execute("drop table bench_plan, bench_moves")
    async with seed.db.connection() as tx:
        await tx.execute("vacuum analyze", timeout=_TIMEOUT_S)
        await tx.execute("checkpoint", timeout=_TIMEOUT_S)
    return Filled(first, count, time.perf_counter() - started)


# $1 the first number, $2 how many, $3 the first place, $4 how many places, $5 when it begins.
_PLAN: Final = f"""
create unlogged table bench_plan as
select n, b.merchant_id, b.place, b.order_id as template_order, b.session_id as template_session,
    b.attempt_id as template_attempt, $5::bigint + (n - $1::bigint) * {APART_MS} as at,
    case when (n - $1::bigint) / $4::bigint % 20 < {OF_20["SETTLED"]} then 'SETTLED'
        when (n - $1::bigint) / $4::bigint % 20 < {OF_20["SETTLED"] + OF_20["PAID"]} then 'PAID'
        when (n - $1::bigint) / $4::bigint % 20 < {20 - OF_20["REVOKED"] - OF_20["PENDING"]}
            then 'CLOSED'
        when (n - $1::bigint) / $4::bigint % 20 < {20 - OF_20["PENDING"]} then 'REVOKED'
        else 'PENDING' end as status,
    b.place + (n - $1::bigint) / $4::bigint % 2 * {SECOND_PRODUCT} as product
from generate_series($1::bigint, $1::bigint + $2::bigint - 1) n
join bench_tenants b on b.place = $3::bigint + (n - $1::bigint) % $4::bigint
"""  # noqa: S608 - ours
_SESSION, _ORDER, _ATTEMPT = (
    SQL_IDS[name].format("p.n") for name in ("session", "order", "attempt")
)
_PRODUCT: Final = SQL_IDS["product"].format("p.product")
_IS_PAID: Final = "p.status in ('PAID', 'SETTLED')"
_FAR: Final = 7 * 24 * 3600 * 1000
_TIMES: Final = {"created_at": "p.at", "updated_at": "p.at + 3000"}
# By table: what its copied columns become, and which row is copied.
_COPIES: Final = {
    "checkouts": (
        {
            "id": _SESSION,
            "order_id": _ORDER,
            "product_id": _PRODUCT,
            "status": f"case when p.status = 'PENDING' then 'OPEN' when {_IS_PAID} then 'COMPLETE'"
            " else 'EXPIRED' end",
            "expires_at": f"t.expires_at + {_FAR}",
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
            "livemode": f"case when {_IS_PAID} then false end",  # as the sandbox bank's payments
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
_PLAIN: Final = (
    f"""
    insert into directory (id, merchant_id)
    select {_SESSION}, merchant_id from bench_plan p
    union all select {_ATTEMPT}, merchant_id from bench_plan p where {_IS_PAID}
    """,  # noqa: S608 - ours
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
    """,  # noqa: S608 - ours
)
_ENTRIES: Final = (
    f"""
    create unlogged table bench_moves as
    select m.*,
        row_number() over following as number,
        sum(pending) over following as pending_sum, sum(available) over following as available_sum
    from (
        select p.merchant_id, o.settled_currency as currency, p.n, s.place, {_ORDER} as order_id,
            p.at + s.place * 1000 as at, s.type, s.source, s.target, s.sign,
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
        ) s (place, type, source, target, sign, statuses) on p.status = any (s.statuses)
    ) m
    where amount > 0
    window following as (partition by merchant_id, currency order by n, place)
    """,  # noqa: S608 - ours
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
    order by m.n, m.place
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
# How many rows the lists have, which triggers count where rows come one by one; of all there are.
_COUNTS: Final = (
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
