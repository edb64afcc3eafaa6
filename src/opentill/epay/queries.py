"""All SQL about Epay credentials, orders and notices."""

from opentill.core.db import Command, Query, Value
from opentill.epay.model import Caller, Counts, Credentials, Kept, Notice, StandIn

# Which merchant has a pid; $1 is pid_<number>.
CALLER = Query(
    Caller,
    """
    select c.*, m.name, m.settlement_currency, m.ip_allowlist from directory d
    join epay_credentials c on c.merchant_id = d.merchant_id
    join merchants m on m.id = d.merchant_id
    where d.id = $1
    """,
)
LIST_PID = Command("insert into directory (id, merchant_id) values ($2, $1) on conflict do nothing")
INSERT = Query(
    Credentials,
    """
    insert into epay_credentials (merchant_id, pid, sealed_key, state, created_at, rotated_at,
        updated_at)
    values ($1, $2, $3, 'ENABLED', $4, null, $4)
    returning *
    """,
)
OF_MERCHANT = Query(Credentials, "select * from epay_credentials where merchant_id = $1")
LOCKED = Query(
    Credentials, "select * from epay_credentials where merchant_id = $1 for no key update"
)
SET_STATE = Query(
    Credentials,
    """
    update epay_credentials set state = $2, updated_at = $3 where merchant_id = $1
    returning *
    """,
)
SET_KEY = Query(
    Credentials,
    """
    update epay_credentials set sealed_key = $2, rotated_at = $3, updated_at = $3
    where merchant_id = $1
    returning *
    """,
)
ALL = Query(Credentials, "select * from epay_credentials order by merchant_id")
ANY = Query(Credentials, "select * from epay_credentials limit 1")

PRODUCT = Value(
    str, "select product_id from epay_products where merchant_id = $1 and currency = $2"
)
PRODUCTS = Query(StandIn, "select product_id from epay_products where merchant_id = $1")
INSERT_PRODUCT = Command(
    "insert into epay_products (merchant_id, currency, product_id) values ($1, $2, $3)"
)
INSERT_ORDER = Command(
    """
    insert into epay_orders (merchant_id, out_trade_no, order_id, checkout_id, type, name, money,
        money_type, notify_url, return_url, param, created_at, requested_type)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    """,
)
SET_TYPE = Command(
    """
    update epay_orders set type = $3, requested_type = $4
    where merchant_id = $1 and out_trade_no = $2
    """,
)

_KEPT = """
    select e.*, o.status, o.amount_minor, o.paid_at, o.payment_method, o.customer_email,
        coalesce((select provider_ref from attempts a
            where a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id), '') as provider_ref
    from epay_orders e
    join orders o on o.merchant_id = e.merchant_id and o.id = e.order_id
"""
BY_NUMBER = Query(
    Kept,
    f"{_KEPT} where e.merchant_id = $1 and e.out_trade_no = $2",
)
BY_ORDER = Query(
    Kept,
    f"{_KEPT} where e.merchant_id = $1 and e.order_id = $2",
)
LIST = Query(
    Kept,
    f"""
    {_KEPT} where e.merchant_id = $1
    order by e.created_at desc, e.order_id desc limit $2 offset $3
    """,
)
# In the order of the index over statuses; both rows of an order are made at the same time.
LIST_BY_STATUS = Query(
    Kept,
    f"""
    {_KEPT} where o.merchant_id = $1 and e.merchant_id = $1 and o.status = any($4::text[])
    order by o.created_at desc, o.id desc limit $2 offset $3
    """,
)
# $2 and $3: when yesterday and today began. What counts as paid is as the index has it.
COUNTS = Query(
    Counts,
    """
    select (select count(*) from orders where merchant_id = $1 and created_at >= $3
            and source = 'EPAY' and status in ('PAID', 'SETTLED')) as paid_today,
        (select count(*) from orders where merchant_id = $1 and created_at >= $2
            and created_at < $3
            and source = 'EPAY' and status in ('PAID', 'SETTLED')) as paid_yesterday
    """,
)

# The refund that a request was for, asked for after $3.
REFUND_OF_REQUEST = Value(
    str,
    """
    select refund_id from epay_refunds
    where merchant_id = $1 and request = $2 and created_at > $3
    """,
)
# Say which refund a request is for ($4 now, $5 until when an earlier one was that is over). One of
# two that do this at once gets nothing back.
KEEP_REQUEST = Value(
    str,
    """
    insert into epay_refunds (merchant_id, request, refund_id, created_at)
    values ($1, $2, $3, $4)
    on conflict (merchant_id, request) do update set refund_id = $3, created_at = $4
    where epay_refunds.created_at <= $5
    returning refund_id
    """,
)
PRUNE_REQUESTS = Command(
    """
    delete from epay_refunds where (merchant_id, request) in (
        select merchant_id, request from epay_refunds where created_at <= $1
        order by created_at limit 1000 for update skip locked)
    """
)

# Claim notices that are due at $1: whoever claims has them until the time in $2. At most $3, and of
# one merchant $4 at a time; $5 and $6: merchants and how many of theirs are on the way. It goes
# from merchant to merchant, whatever their queues hold, and those with the fewest come first.
CLAIM_NOTICES = Query(
    Notice,
    """
    with recursive waiting as (
        (select merchant_id, due_at from order_notices where due_at is not null
            and (select min(due_at) from order_notices) <= $1  -- otherwise nothing is due at all
            order by merchant_id, due_at limit 1)
        union all
        select following.merchant_id, following.due_at from waiting cross join lateral (
            select merchant_id, due_at from order_notices
            where due_at is not null and merchant_id > waiting.merchant_id
            order by merchant_id, due_at limit 1
        ) following
    ), ranked as (
        select oldest.merchant_id, oldest.order_id, coalesce(busy.notices, 0)
            + row_number() over (partition by waiting.merchant_id order by oldest.due_at) as place
        from waiting
        left join unnest($5::text[], $6::integer[]) as busy (merchant_id, notices)
            using (merchant_id)
        cross join lateral (
            select n.order_id, n.merchant_id, n.due_at from order_notices n
            where n.merchant_id = waiting.merchant_id and n.due_at <= $1
            order by n.due_at limit $4
        ) oldest
        where waiting.due_at <= $1
    ), due as (
        select n.merchant_id, n.order_id from order_notices n
        join (
            select * from ranked where place <= $4 order by place, random() limit $3
        ) chosen using (merchant_id, order_id)
        where n.due_at <= $1 for update of n skip locked
    )
    update order_notices n set due_at = $2 from due
    where n.merchant_id = due.merchant_id and n.order_id = due.order_id
    returning n.*
    """,
)
# What a try came to: $3 how many tries there were before it, so that two that overlap count once.
DELIVERED = Command(
    """
    update order_notices set state = 'DELIVERED', due_at = null, tries = tries + 1, answer = $3,
        updated_at = $4
    where merchant_id = $1 and order_id = $2 and state = 'WAITING'
    """,
)
TRIED = Command(
    """
    update order_notices set tries = tries + 1, answer = $4, updated_at = $5, due_at = $6::bigint,
        state = case when $6::bigint is null then 'FAILED' else 'WAITING' end
    where merchant_id = $1 and order_id = $2 and state = 'WAITING' and tries = $3
    """,
)
RESEND = Query(
    Notice,
    """
    update order_notices set state = 'WAITING', due_at = $3::bigint, tries = 0,
        updated_at = $3::bigint
    where merchant_id = $1 and order_id = $2
    returning *
    """,
)
NEWEST_NOTICES = Query(
    Notice,
    """
    select * from order_notices
    where merchant_id = $1 and ($2::text is null or state = $2)
    order by created_at desc, order_id desc limit $3
    """,
)
WAKE_NOTICES = Command("update order_notices set due_at = $1 where due_at > $1")
