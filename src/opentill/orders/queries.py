"""All SQL about orders, their history and their attempts."""

from opentill.core.db import Command, Query, Value
from opentill.orders.model import (
    Attempt,
    Confirmed,
    DueMerchant,
    Forgotten,
    Line,
    Order,
    PaidThrough,
)
from opentill.totals import lists

MERCHANT_OF = Value(str, "select merchant_id from directory where id = $1")
BY_ID = Query(Order, "select * from orders where merchant_id = $1 and id = $2")
LOCKED = Query(Order, "select * from orders where merchant_id = $1 and id = $2 for update")

# Many orders, in the order in which everybody locks them: $1 merchants, $2 ids.
LOCK_MANY = Query(
    Order,
    """
    select o.* from unnest($1::text[], $2::text[]) as wanted (merchant_id, id)
    join orders o on o.merchant_id = wanted.merchant_id and o.id = wanted.id
    order by o.merchant_id, o.id for update of o
    """,
)
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
# $12 e-mail, $13 customer name ('': none), $14 payer address, $15 when it is due to settle; the
# fee, which may depend on the method: $16 rate, $17 fee, $18 net; $19 the rate to HKD or null; $20
# whether the money is real. A disputed order does not settle; one that came back, or lost what was
# not settled yet, is seen to when it is due.
STEP = Query(
    Order,
    """
    with moved as (
        update orders set status = $4, steps = steps + 1, updated_at = greatest(updated_at, $5),
            paid_at = coalesce($9, paid_at), payment_method = coalesce($10, payment_method),
            paid_attempt_id = coalesce($11, paid_attempt_id),
            customer_email = coalesce($12, customer_email),
            customer_name = nullif(coalesce($13, customer_name), ''),
            payer_ip = coalesce($14, payer_ip),
            due_at = coalesce($15, due_at), platform_fee_rate = coalesce($16, platform_fee_rate),
            platform_fee_minor = coalesce($17, platform_fee_minor),
            net_settled_minor = coalesce($18, net_settled_minor),
            hkd_exchange_rate = coalesce($19, hkd_exchange_rate),
            livemode = coalesce($20, livemode),
            settle_at = case
                when $4 = 'DISPUTED' then null
                when $4 in ('PAID', 'CHARGEBACK') and settled_at is null
                    then coalesce($15::bigint, due_at)
                else settle_at end
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
    ), notified as (
        -- Who placed it through the Epay door is told, see epay/jobs.py.
        insert into order_notices (merchant_id, order_id, state, due_at, tries, answer, created_at,
            updated_at)
        select merchant_id, id, 'WAITING', $5, 0, '', $5, $5 from moved
        where source = 'EPAY' and $6 = 'confirmed'
    ), released as (
        -- Nobody is to pay it elsewhere any more: gateways hear that at once.
        update attempts set check_at = $5::bigint, checks = 0
        where merchant_id = $1 and order_id = $2 and status = 'ACTION_REQUIRED'
            and check_at > $5::bigint and $3 in ('CREATING', 'PENDING')
            and $4 not in ('CREATING', 'PENDING')
    )
    select * from moved
    """,
)
# Confirm many orders that are locked: $1 now, then arrays: $2 merchants, $3 orders, $4 the status
# each has, $5 its session's new status or null, $6 the attempts that paid, $7 the status each has,
# $8 the provider's names, $9 reasons, $10 methods, $11 payer addresses, $12 when each settles; the
# fee, which may depend on the method: $13 rates, $14 fees, $15 nets; $16 causes; $17 whether its
# money is real. Returns those
# whose attempt had that status. What belongs to an order is carried along, not joined again.
CONFIRM = Query(
    Confirmed,
    """
    with paid as (
        select * from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
            $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::numeric[],
            $14::bigint[], $15::bigint[], $16::text[], $17::boolean[])
            as p (merchant_id, order_id, before, session, attempt_id, attempt_before, provider_ref,
                reason, method, payer_ip, due_at, fee_rate, fee, net, cause, livemode)
    ), taken as (
        update attempts a set status = 'SUCCEEDED', reason = p.reason, check_at = null,
            provider_ref = case p.provider_ref when '' then a.provider_ref else p.provider_ref end,
            updated_at = greatest(a.updated_at, $1::bigint)
        from paid p
        where a.merchant_id = p.merchant_id and a.id = p.attempt_id and a.status = p.attempt_before
        returning p.*
    ), moved as (
        update orders o set status = 'PAID', steps = o.steps + 1, paid_at = $1::bigint,
            updated_at = greatest(o.updated_at, $1::bigint), payment_method = p.method,
            paid_attempt_id = p.attempt_id, payer_ip = p.payer_ip, due_at = p.due_at,
            settle_at = p.due_at, platform_fee_rate = p.fee_rate, platform_fee_minor = p.fee,
            net_settled_minor = p.net, livemode = coalesce(p.livemode, o.livemode)
        from taken p
        where o.merchant_id = p.merchant_id and o.id = p.order_id and o.status = p.before
        returning o.merchant_id, o.id, o.steps, o.updated_at, o.source, o.checkout_id, p.before,
            p.session, p.attempt_id, p.cause
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, steps, updated_at, 'confirmed', before, 'PAID', cause from moved
    ), followed as (
        update checkouts c set status = m.session, updated_at = $1::bigint
        from moved m
        where c.merchant_id = m.merchant_id and c.id = m.checkout_id and c.status = 'OPEN'
            and m.session is not null
    ), notified as (
        -- Who placed them through the Epay door is told, see epay/jobs.py.
        insert into order_notices (merchant_id, order_id, state, due_at, tries, answer, created_at,
            updated_at)
        select merchant_id, id, 'WAITING', $1::bigint, 0, '', $1::bigint, $1::bigint from moved
        where source = 'EPAY'
    ), released as (
        -- Nobody is to pay them elsewhere any more: gateways hear that at once.
        update attempts a set check_at = $1::bigint, checks = 0
        from moved m
        where a.merchant_id = m.merchant_id and a.order_id = m.id and a.id <> m.attempt_id
            and a.status = 'ACTION_REQUIRED' and a.check_at > $1::bigint
            and m.before in ('CREATING', 'PENDING')
    )
    select merchant_id, id from moved
    """,
)
# Settle many orders of one merchant that are locked: $2 now, then arrays: $3 ids, $4 the status
# each has, $5 the one it gets, $6 reserves, $7 when each is released or null, $8 events;
# $9 the cause.
SETTLE = Command(
    """
    with settled as (
        update orders o set status = m.after, steps = o.steps + 1, settle_at = null,
            settled_at = case m.event when 'settled' then $2::bigint else o.settled_at end,
            reserve_minor = case when m.reserve > 0 then m.reserve else o.reserve_minor end,
            reserve_status = case when m.reserve > 0 then 'HELD' else o.reserve_status end,
            reserve_release_at = coalesce(m.release_at, o.reserve_release_at),
            updated_at = greatest(o.updated_at, $2::bigint)
        from unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[])
            as m (id, before, after, reserve, release_at, event)
        where o.merchant_id = $1 and o.id = m.id and o.status = m.before
        returning o.id, o.steps, o.updated_at, m.event, m.before, m.after
    )
    insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
        cause)
    select $1, id, steps, updated_at, event, before, after, $9 from settled
    """,
)
DUE_MERCHANTS = Query(
    DueMerchant,
    """
    select merchant_id, count(*) as orders from orders
    where settle_at <= $1 and ($2::text is null or merchant_id = $2)
    group by merchant_id order by merchant_id
    """,
)
LOCK_DUE = Query(
    Order,
    """
    select * from orders where merchant_id = $1 and settle_at <= $2
    order by settle_at limit $3 for update skip locked
    """,
)
# What is there to settle until $1: of all merchants or one ($2), all orders or one ($3).
SETTLEABLE = Query(
    Order,
    """
    select * from orders
    where settle_at <= $1 and ($2::text is null or merchant_id = $2)
        and ($3::text is null or id = $3)
    order by merchant_id, settle_at, id
    """,
)
LOCK_SETTLEABLE = Query(
    Order,
    """
    select * from orders where merchant_id = $1 and id = $2 and settle_at is not null for update
    """,
)
RESERVES_DUE = Query(
    Order,
    """
    select * from orders
    where reserve_status = 'HELD' and status <> 'DISPUTED' and reserve_release_at <= $1
    order by reserve_release_at limit $2
    """,
)
SET_RESERVE = Query(
    Order,
    """
    update orders set reserve_status = $3, updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and id = $2
    returning *
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
    update orders set customer_email = case $3 when '' then customer_email else $3 end,
        customer_name = $4
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

LIST = lists(Order, "orders")
LIST_BY_STATUS = lists(Order, "orders", "status")
LIST_BY_PRODUCT = lists(Order, "orders", "product_id")
LIST_BY_BOTH = lists(Order, "orders", "product_id", "status")
HAS_PRODUCT = Value(bool, "select exists (select from products where merchant_id = $1 and id = $2)")

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
# Through which gateways attempts of a merchant went: $2 their ids.
PAID_THROUGH = Query(
    PaidThrough,
    "select id, gateway from attempts where merchant_id = $1 and id = any ($2::text[])",
)
ATTEMPT = Query(Attempt, "select * from attempts where merchant_id = $1 and id = $2")
# Attempts of any merchants, each if it went through the gateway that speaks of it: $1 gateways, $2
# ids. The transaction then waits half a second for a lock, lest one merchant's hold up the others'.
ATTEMPTS_OF_GATEWAYS = Query(
    Attempt,
    """
    with patience as materialized (select set_config('lock_timeout', '500ms', true))
    select a.* from patience cross join unnest($1::text[], $2::text[]) as wanted (gateway, id)
    join directory d on d.id = wanted.id
    join attempts a on a.merchant_id = d.merchant_id and a.id = d.id and a.gateway = wanted.gateway
    """,
)
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
# What waits for the operator to see the money: the latest one by the gateway that is a person.
BY_HAND = Query(
    Attempt,
    """
    select * from attempts where merchant_id = $1 and order_id = $2 and gateway = 'manual'
        and status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING')
    order by created_at desc, id desc limit 1
    """,
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
# Claim attempts whose gateway is to be asked: whoever claims has them until the time in $2. With $4
# only those of these gateways, or, if $5 is false, of all others.
CLAIM_ATTEMPTS = Query(
    Attempt,
    """
    update attempts a set check_at = $2, checks = checks + 1
    from (
        select merchant_id, id from attempts
        where check_at <= $1 and ($4::text[] is null or (gateway = any($4)) = $5::boolean)
        order by check_at limit $3 for update skip locked
    ) due
    where a.merchant_id = due.merchant_id and a.id = due.id
    returning a.*
    """,
)
# Duplicates: committed before the gateway is asked to give one back, so that it is known whether it
# may have been; taken back only if it surely did not hear of it.
GIVING_BACK = Command(
    """
    update attempts set reason = 'giving_back'
    where merchant_id = $1 and id = $2 and status = 'DUPLICATE' and reason <> 'giving_back'
    """,
)
NOT_GIVEN_BACK = Command(
    "update attempts set reason = '' where merchant_id = $1 and id = $2 and status = 'DUPLICATE'",
)
# Not if it became something else, or another time was set, since it was claimed until $5.
ASK_AGAIN = Command(
    """
    update attempts set check_at = $4
    where merchant_id = $1 and id = $2 and status = $3 and check_at = $5
    """,
)
STOP_GIVING_BACK = Command(
    """
    update attempts set check_at = null, reason = $3, updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and id = $2
    """,
)
# Orders that are CREATING since $1 or before while no gateway will be asked about any attempt.
FORGOTTEN = Query(
    Forgotten,
    """
    select o.merchant_id, o.id from orders o
    where o.status = 'CREATING' and o.updated_at <= $1 and not exists (
        select from attempts a where a.merchant_id = o.merchant_id and a.order_id = o.id
            and (a.check_at is not null or a.updated_at > $1))
    order by o.updated_at limit $2
    """,
)
STUCK = Value(
    int,
    """
    select count(*) from (
        select from orders where status = 'CREATING' and updated_at <= $1 limit 10000) stuck
    """,
)
ASK_NOW = Command(
    """
    update attempts set check_at = $3, updated_at = greatest(updated_at, $3)
    where merchant_id = $1 and id = $2 and check_at is null
    """,
)
WAKE = Command("update attempts set check_at = $1 where check_at > $1")

# Retention, see jobs.prune_history: the trigger of the table asks for the word.
PRUNES_HISTORY = Command("set local opentill.prunes_history = 'yes'")
PRUNE_HISTORY = Command(
    """
    with limits as (  -- business time may be ahead of what the trigger goes by
        select least($1, extract(epoch from now())::bigint * 1000 - 365 * 86400000::bigint)
            as before
    ), old as (
        select merchant_id, order_id from order_history, limits where number = 1 and at < before
        order by at limit $2
    )
    delete from order_history h using old, orders o, limits
    where h.merchant_id = old.merchant_id and h.order_id = old.order_id and h.at < before
        and o.merchant_id = old.merchant_id and o.id = old.order_id and h.number < o.steps
    """,
)
