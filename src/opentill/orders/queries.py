"""All SQL about orders, their history and their attempts."""

from opentill.core.db import Command, Query, Value
from opentill.orders.model import Attempt, Line, Order

MERCHANT_OF = Value(str, "select merchant_id from directory where id = $1")
BY_ID = Query(Order, "select * from orders where merchant_id = $1 and id = $2")
LOCKED = Query(Order, "select * from orders where merchant_id = $1 and id = $2 for update")

# For the operator, who has only the order's id: one look into the index for each merchant.
ANYWHERE = Query(
    Order,
    """
    select o.* from merchants m
    cross join lateral (select * from orders where merchant_id = m.id and id = $1) o
    """,
)

# Take a step: $3 from, $4 to, $5 now, $6 event, $7 cause, $8 the session's new status or null;
# then what becomes known with it, null where nothing: $9 paid_at, $10 method, $11 paid attempt,
# $12 e-mail, $13 customer name, $14 payer address.
STEP = Query(
    Order,
    """
    with moved as (
        update orders set status = $4, steps = steps + 1, updated_at = greatest(updated_at, $5),
            paid_at = coalesce($9, paid_at), payment_method = coalesce($10, payment_method),
            paid_attempt_id = coalesce($11, paid_attempt_id),
            customer_email = coalesce($12, customer_email),
            customer_name = coalesce($13, customer_name), payer_ip = coalesce($14, payer_ip)
        where merchant_id = $1 and id = $2 and status = $3
        returning *
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select $1, $2, steps, updated_at, $6, $3, $4, $7 from moved
    ), followed as (
        -- A join would read all sessions of the merchant while the statistics are of a small table.
        update checkouts set status = $8::text, updated_at = $5::bigint
        where merchant_id = $1 and id = (select checkout_id from moved) and status = 'OPEN'
            and $8::text is not null
    )
    select * from moved
    """,
)
# Note something that happened without a step. $3 now, $4 event, $5 cause.
NOTE = Command(
    """
    with noted as (
        update orders set steps = steps + 1, updated_at = greatest(updated_at, $3)
        where merchant_id = $1 and id = $2
        returning steps, status, updated_at
    )
    insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
        cause)
    select $1, $2, steps, updated_at, $4, status, status, $5 from noted
    """,
)
SET_CUSTOMER = Command(
    """
    update orders set customer_email = $3, customer_name = coalesce($4, customer_name)
    where merchant_id = $1 and id = $2
    """,
)
HISTORY = Query(
    Line,
    """
    select number, at, event, from_status, to_status, cause from order_history
    where merchant_id = $1 and order_id = $2 order by number
    """,
)

LIST = Query(
    Order,
    """
    select * from orders
    where merchant_id = $1 and created_at between $4 and $5
    order by created_at desc, id desc limit $2 offset $3
    """,
)
LIST_BY_STATUS = Query(
    Order,
    """
    select * from orders
    where merchant_id = $1 and created_at between $4 and $5 and status = $6
    order by created_at desc, id desc limit $2 offset $3
    """,
)
LIST_BY_PRODUCT = Query(
    Order,
    """
    select * from orders
    where merchant_id = $1 and created_at between $4 and $5 and product_id = $6
        and ($7::text is null or status = $7)
    order by created_at desc, id desc limit $2 offset $3
    """,
)
COUNT = Value(
    int,
    "select count(*) from orders where merchant_id = $1 and created_at between $2 and $3",
)
COUNT_BY_STATUS = Value(
    int,
    """
    select count(*) from orders
    where merchant_id = $1 and created_at between $2 and $3 and status = $4
    """,
)
COUNT_BY_PRODUCT = Value(
    int,
    """
    select count(*) from orders
    where merchant_id = $1 and created_at between $2 and $3 and product_id = $4
        and ($5::text is null or status = $5)
    """,
)
HAS_PRODUCT = Value(
    bool, "select exists (select from products where merchant_id = $1 and id = $2)"
)
# $2 and $3: time and id of the last order of the batch before; $4 the last time, $5 how many.
EXPORT = Query(
    Order,
    """
    select * from orders
    where merchant_id = $1 and (created_at, id) > ($2::bigint, $3::text) and created_at <= $4
    order by created_at, id limit $5
    """,
)

INSERT_ATTEMPT = Query(
    Attempt,
    """
    with listed as (insert into directory (id, merchant_id) values ($2, $1))
    insert into attempts (merchant_id, id, order_id, gateway, method, status, amount_minor,
        currency, provider_ref, action_url, qr_text, reason, locale, payer_ip, check_at, checks,
        created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, '', '', '', '', $9, $10, $11, 0, $12, $12)
    returning *
    """,
)
ATTEMPT = Query(Attempt, "select * from attempts where merchant_id = $1 and id = $2")
LAST_ATTEMPT = Query(
    Attempt,
    """
    select * from attempts where merchant_id = $1 and order_id = $2
    order by created_at desc, id desc limit 1
    """,
)
ATTEMPTS = Query(
    Attempt,
    "select * from attempts where merchant_id = $1 and order_id = $2 order by created_at, id",
)
UPDATE_ATTEMPT = Query(
    Attempt,
    """
    update attempts set status = $3,
        provider_ref = case $4 when '' then provider_ref else $4 end,
        action_url = case $5 when '' then action_url else $5 end,
        qr_text = case $6 when '' then qr_text else $6 end,
        reason = $7, check_at = $8, updated_at = greatest(updated_at, $9)
    where merchant_id = $1 and id = $2
    returning *
    """,
)
# Claim attempts whose gateway is to be asked: whoever claims has them until the time in $2.
CLAIM_ATTEMPTS = Query(
    Attempt,
    """
    update attempts a set check_at = $2, checks = checks + 1
    from (
        select merchant_id, id from attempts where check_at <= $1
        order by check_at limit $3 for update skip locked
    ) due
    where a.merchant_id = due.merchant_id and a.id = due.id
    returning a.*
    """,
)
# Not if it became something else since it was claimed: then that says when to ask.
ASK_AGAIN = Command(
    """
    update attempts set check_at = $4
    where merchant_id = $1 and id = $2 and status = $3 and check_at is not null
    """,
)
STOP_GIVING_BACK = Command(
    """
    update attempts set check_at = null, reason = $3, updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and id = $2
    """,
)
