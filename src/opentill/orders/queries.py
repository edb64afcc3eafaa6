"""All SQL about orders, their history and their attempts."""

from opentill.db.query import Command, Query, Value
from opentill.list_counts import lists
from opentill.orders.model import (
    DueMerchant,
    Forgotten,
    Line,
    Order,
    PaidThrough,
    PaymentAttempt,
    Transitioned,
)

MERCHANT_OF = Value(str, "select merchant_id from directory where id = :id")
BY_ID = Query(Order, "select * from orders where merchant_id = :merchant_id and id = :id")
LOCKED = Query(
    Order, "select * from orders where merchant_id = :merchant_id and id = :id for update"
)

# Many orders, in the order in which everybody locks them.
LOCK_MANY = Query(
    Order,
    """
    select o.* from unnest(:merchant_id::text[], :id::text[]) as wanted (merchant_id, id)
    join orders o on o.merchant_id = wanted.merchant_id and o.id = wanted.id
    order by o.merchant_id, o.id for update of o
    """,
)
# For the operator, who has only the order's id: one look into the index for each merchant.
ANYWHERE = Query(
    Order,
    """
    select o.* from merchants m
    cross join lateral (select * from orders where merchant_id = m.id and id = :id) o
    """,
)

# Place an order with its session, both as `model.NewOrder` says: two rows of one thing, so one
# statement writes them, with the first line of the history and the directory's entry.
PLACE = Command(
    """
    with listed as (
        insert into directory (id, merchant_id) values (:id, :merchant_id)
    ), session as (
        insert into checkouts (merchant_id, id, product_id, order_id, amount_minor, currency,
            status, success_url, cancel_url, customer_email, customer_name, display_merchant_name,
            expires_at, created_at, updated_at, method)
        values (:merchant_id, :id, :product_id, :order_id, :amount_minor, :currency, 'OPEN',
            :success_url, :cancel_url, :customer_email, :customer_name, :display_merchant_name,
            :expires_at, :now, :now, :method)
    ), placed as (
        insert into orders (merchant_id, id, checkout_id, product_id, product_name,
            product_description, product_image, source, status, steps, currency, amount_minor,
            platform_fee_rate, platform_fee_minor, settled_currency, exchange_rate,
            usd_exchange_rate, gross_settled_minor, net_settled_minor, refund_fee_policy,
            customer_email, customer_name, payer_ip, refunded_minor, refund_held_minor,
            refund_debit_minor, reserve_rate, reserve_minor, reserve_status, metadata, created_at,
            updated_at, terms_version, fees, settlement_delay_days, settlement_calendar,
            reserve_days, dispute_fee_minor)
        values (:merchant_id, :order_id, :id, :product_id, :product_name, :product_description,
            :product_image, :source, 'PENDING', 1, :currency, :amount_minor, :platform_fee_rate,
            :platform_fee_minor, :settled_currency, :exchange_rate, :usd_exchange_rate,
            :gross_settled_minor, :net_settled_minor, :refund_fee_policy, :customer_email,
            :customer_name, '', 0, 0, 0, :reserve_rate, 0, 'NONE', :metadata, :now, :now,
            :terms_version, :fees, :settlement_delay_days, :settlement_calendar, :reserve_days,
            :dispute_fee_minor)
    )
    insert into order_history (merchant_id, order_id, number, at, event, to_status, cause)
    values (:merchant_id, :order_id, 1, :now, 'opened', 'PENDING', :id)
    """,
)
# Take the transition of a locked order, a `transitions.Row`; returns nothing where the order, or
# the attempt that paid it, is no longer as the row says. One order by scalars, not as a batch of
# one: that is planned anew each time, and reads much while statistics are old (decision 0049).
TRANSITION = Query(
    Transitioned,
    """
    with taken as (
        update attempts set status = 'SUCCEEDED', reason = :reason, check_at = null,
            provider_ref = case :provider_ref::text when '' then provider_ref
                else :provider_ref::text end,
            updated_at = greatest(updated_at, :now::bigint)
        where merchant_id = :merchant_id and id = :attempt_id::text and status = :attempt_before
        returning id
    ), moved as (
        update orders set status = :target, steps = steps + 1,
            updated_at = greatest(updated_at, :now::bigint), customer_email = :customer_email,
            customer_name = :customer_name, payer_ip = :payer_ip, payment_method = :payment_method,
            paid_attempt_id = :paid_attempt_id, paid_at = :paid_at, due_at = :due_at,
            settle_at = :settle_at, settled_at = :settled_at,
            platform_fee_rate = :platform_fee_rate, platform_fee_minor = :platform_fee_minor,
            net_settled_minor = :net_settled_minor, hkd_exchange_rate = :hkd_exchange_rate,
            livemode = :livemode, charged_back_minor = :charged_back_minor,
            reserve_minor = :reserve_minor, reserve_status = :reserve_status,
            reserve_release_at = :reserve_release_at
        where merchant_id = :merchant_id and id = :order_id and status = :source and steps = :steps
            and (:attempt_id::text is null or exists (select from taken))
        returning merchant_id, id, steps, updated_at, source, checkout_id
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, steps, updated_at, :event, :source, :target, :cause from moved
    ), followed as (
        update checkouts set status = :session::text, updated_at = :now::bigint,
            expires_at = case :event when 'expired' then least(expires_at, :now::bigint)
                else expires_at end
        where merchant_id = :merchant_id and id = (select checkout_id from moved)
            and status = 'OPEN' and :session::text is not null
    ), notified as (
        -- The shop that placed it through the Epay API is notified, see epay/jobs.py.
        insert into order_notices (merchant_id, order_id, state, due_at, tries, answer, created_at,
            updated_at)
        select merchant_id, id, 'WAITING', :now::bigint, 0, '', :now::bigint, :now::bigint
        from moved where source = 'EPAY' and :event = 'confirmed'
    ), released as (
        -- Nobody is to pay it elsewhere any more: the gateways are asked to close their pages.
        update attempts set check_at = :now::bigint, checks = 0
        where merchant_id = :merchant_id and order_id = (select id from moved)
            and id is distinct from :attempt_id::text
            and status = 'ACTION_REQUIRED' and check_at > :now::bigint
            and :source in ('CREATING', 'PENDING') and :target not in ('CREATING', 'PENDING')
    )
    select merchant_id, id from moved
    """,
)
# The same for many orders. What belongs to an order is carried along, not joined again.
TRANSITIONS = Query(
    Transitioned,
    """
    with wanted as (
        select * from unnest(:merchant_id::text[], :order_id::text[], :steps::int[],
            :source::text[], :target::text[], :event::text[], :cause::text[],
            :session::text[], :attempt_id::text[], :attempt_before::text[],
            :provider_ref::text[], :reason::text[],
            :customer_email::text[], :customer_name::text[], :payer_ip::text[],
            :payment_method::text[], :paid_attempt_id::text[], :paid_at::bigint[],
            :due_at::bigint[], :settle_at::bigint[], :settled_at::bigint[],
            :platform_fee_rate::numeric[], :platform_fee_minor::bigint[],
            :net_settled_minor::bigint[], :hkd_exchange_rate::numeric[], :livemode::boolean[],
            :charged_back_minor::bigint[], :reserve_minor::bigint[], :reserve_status::text[],
            :reserve_release_at::bigint[])
            as w (merchant_id, order_id, steps, source, target, event, cause, session, attempt_id,
                attempt_before, provider_ref, reason, customer_email, customer_name, payer_ip,
                payment_method, paid_attempt_id, paid_at, due_at, settle_at, settled_at,
                platform_fee_rate, platform_fee_minor, net_settled_minor, hkd_exchange_rate,
                livemode, charged_back_minor, reserve_minor, reserve_status, reserve_release_at)
    ), taken as (
        update attempts a set status = 'SUCCEEDED', reason = w.reason, check_at = null,
            provider_ref = case w.provider_ref when '' then a.provider_ref else w.provider_ref end,
            updated_at = greatest(a.updated_at, :now::bigint)
        from wanted w
        where a.merchant_id = w.merchant_id and a.id = w.attempt_id and a.status = w.attempt_before
        returning a.merchant_id, a.id
    ), moved as (
        update orders o set status = w.target, steps = o.steps + 1,
            updated_at = greatest(o.updated_at, :now::bigint),
            customer_email = w.customer_email, customer_name = w.customer_name,
            payer_ip = w.payer_ip, payment_method = w.payment_method,
            paid_attempt_id = w.paid_attempt_id, paid_at = w.paid_at, due_at = w.due_at,
            settle_at = w.settle_at, settled_at = w.settled_at,
            platform_fee_rate = w.platform_fee_rate, platform_fee_minor = w.platform_fee_minor,
            net_settled_minor = w.net_settled_minor, hkd_exchange_rate = w.hkd_exchange_rate,
            livemode = w.livemode, charged_back_minor = w.charged_back_minor,
            reserve_minor = w.reserve_minor, reserve_status = w.reserve_status,
            reserve_release_at = w.reserve_release_at
        from wanted w
        where o.merchant_id = w.merchant_id and o.id = w.order_id and o.status = w.source
            and o.steps = w.steps
            and (w.attempt_id is null
                or (w.merchant_id, w.attempt_id) in (select merchant_id, id from taken))
        returning o.merchant_id, o.id, o.steps, o.updated_at, o.source as placed_by, o.checkout_id,
            w.source, w.target, w.event, w.cause, w.session, w.attempt_id
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, steps, updated_at, event, source, target, cause from moved
    ), followed as (
        update checkouts c set status = m.session, updated_at = :now::bigint,
            expires_at = case m.event when 'expired' then least(c.expires_at, :now::bigint)
                else c.expires_at end
        from moved m
        where c.merchant_id = m.merchant_id and c.id = m.checkout_id and c.status = 'OPEN'
            and m.session is not null
    ), notified as (
        -- The shop that placed it through the Epay API is notified, see epay/jobs.py.
        insert into order_notices (merchant_id, order_id, state, due_at, tries, answer, created_at,
            updated_at)
        select merchant_id, id, 'WAITING', :now::bigint, 0, '', :now::bigint, :now::bigint
        from moved where placed_by = 'EPAY' and event = 'confirmed'
    ), released as (
        -- Nobody is to pay it elsewhere any more: the gateways are asked to close their pages.
        update attempts a set check_at = :now::bigint, checks = 0
        from moved m
        where a.merchant_id = m.merchant_id and a.order_id = m.id
            and a.id is distinct from m.attempt_id
            and a.status = 'ACTION_REQUIRED' and a.check_at > :now::bigint
            and m.source in ('CREATING', 'PENDING') and m.target not in ('CREATING', 'PENDING')
    )
    select merchant_id, id from moved
    """,
)
DUE_MERCHANTS = Query(
    DueMerchant,
    """
    select merchant_id, count(*) as orders from orders
    where settle_at <= :now and (:merchant_id::text is null or merchant_id = :merchant_id)
    group by merchant_id order by merchant_id
    """,
)
LOCK_DUE = Query(
    Order,
    """
    select * from orders where merchant_id = :merchant_id and settle_at <= :until
    order by settle_at limit :limit for update skip locked
    """,
)
# What there is to settle, of all merchants or one, all orders or one.
SETTLEABLE = Query(
    Order,
    """
    select * from orders
    where settle_at <= :until and (:merchant_id::text is null or merchant_id = :merchant_id)
        and (:order_id::text is null or id = :order_id)
    order by merchant_id, settle_at, id
    """,
)
LOCK_SETTLEABLE = Query(
    Order,
    """
    select * from orders
    where merchant_id = :merchant_id and id = :id and settle_at is not null for update
    """,
)
RESERVES_DUE = Query(
    Order,
    """
    select * from orders
    where reserve_status = 'HELD' and status <> 'DISPUTED' and reserve_release_at <= :now
    order by reserve_release_at limit :limit
    """,
)
# Note what happened to an order that keeps its status. Amounts are added; null leaves the reserve.
NOTE = Query(
    Order,
    """
    with noted as (
        update orders set steps = steps + 1, updated_at = greatest(updated_at, :now::bigint),
            refund_held_minor = refund_held_minor + :refund_held_minor::bigint,
            refund_debit_minor = refund_debit_minor + :refund_debit_minor::bigint,
            refunded_minor = refunded_minor + :refunded_minor::bigint,
            reserve_status = coalesce(:reserve_status, reserve_status)
        where merchant_id = :merchant_id and id = :id
        returning *
    ), written as (
        insert into order_history (merchant_id, order_id, number, at, event, from_status, to_status,
            cause)
        select merchant_id, id, steps, updated_at, :event, status, status, :cause from noted
    )
    select * from noted
    """,
)
# The only method that a session can be paid by; null: the customer chooses.
SET_METHOD = Command(
    "update checkouts set method = :method where merchant_id = :merchant_id and id = :checkout_id"
)
SET_CUSTOMER = Command(
    """
    update orders set customer_name = :customer_name,
        customer_email = case :customer_email when '' then customer_email else :customer_email end
    where merchant_id = :merchant_id and id = :id
    """,
)
HISTORY = Query(
    Line,
    """
    select number, at, event, from_status, to_status, cause from order_history
    where merchant_id = :merchant_id and order_id = :order_id order by number
    """,
)

LIST = lists(Order, "orders")
LIST_BY_STATUS = lists(Order, "orders", "status")
LIST_BY_PRODUCT = lists(Order, "orders", "product_id")
LIST_BY_BOTH = lists(Order, "orders", "product_id", "status")
EXISTS = Value(
    bool, "select exists (select from orders where merchant_id = :merchant_id and id = :id)"
)
HAS_PRODUCT = Value(
    bool,
    "select exists (select from products where merchant_id = :merchant_id and id = :product_id)",
)

INSERT_ATTEMPT = Query(
    PaymentAttempt,
    """
    with listed as (insert into directory (id, merchant_id) values (:id, :merchant_id))
    insert into attempts (merchant_id, id, order_id, gateway, method, status, amount_minor,
        currency, provider_ref, action_url, qr_text, reason, locale, payer_ip, check_at, checks,
        created_at, updated_at)
    values (:merchant_id, :id, :order_id, :gateway, :method, :status, :amount_minor, :currency, '',
        '', '', '', :locale, :payer_ip, :check_at, 0, :now, :now)
    returning *
    """,
)
# Through which gateways attempts of a merchant went.
PAID_THROUGH = Query(
    PaidThrough,
    "select id, gateway from attempts where merchant_id = :merchant_id and id = any (:ids::text[])",
)
ATTEMPT = Query(
    PaymentAttempt, "select * from attempts where merchant_id = :merchant_id and id = :id"
)
# Attempts of any merchants, each if it went through the gateway that speaks of it. The
# transaction then waits half a second for a lock, lest one merchant's hold up the others'.
ATTEMPTS_OF_GATEWAYS = Query(
    PaymentAttempt,
    """
    with patience as materialized (select set_config('lock_timeout', '500ms', true))
    select a.* from patience
    cross join unnest(:gateway::text[], :id::text[]) as wanted (gateway, id)
    join directory d on d.id = wanted.id
    join attempts a on a.merchant_id = d.merchant_id and a.id = d.id and a.gateway = wanted.gateway
    """,
)
LAST_ATTEMPT = Query(
    PaymentAttempt,
    """
    select * from attempts where merchant_id = :merchant_id and order_id = :order_id
    order by created_at desc, id desc limit 1
    """,
)
ATTEMPTS = Query(
    PaymentAttempt,
    """
    select * from attempts
    where merchant_id = :merchant_id and order_id = :order_id order by created_at, id
    """,
)
# What waits for the operator to see the money: the latest one by the gateway that is a person.
BY_HAND = Query(
    PaymentAttempt,
    """
    select * from attempts where merchant_id = :merchant_id and order_id = :order_id
        and gateway = 'manual' and status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING')
    order by created_at desc, id desc limit 1
    """,
)
UPDATE_ATTEMPT = Query(
    PaymentAttempt,
    """
    update attempts set status = :status,
        provider_ref = case :provider_ref when '' then provider_ref else :provider_ref end,
        action_url = case :action_url when '' then action_url else :action_url end,
        qr_text = case :qr_text when '' then qr_text else :qr_text end,
        reason = :reason, check_at = :check_at, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# Claim attempts whose gateway is to be asked: whoever claims has them until `:lease_until`. With
# `:gateways` only those of these, or, if they are not `:included`, of all others.
CLAIM_ATTEMPTS = Query(
    PaymentAttempt,
    """
    update attempts a set check_at = :lease_until, checks = checks + 1
    from (
        select merchant_id, id from attempts
        where check_at <= :now and (:gateways::text[] is null
            or (gateway = any(:gateways)) = :included::boolean)
        order by check_at limit :limit for update skip locked
    ) due
    where a.merchant_id = due.merchant_id and a.id = due.id
    returning a.*
    """,
)
# Duplicates: committed before the gateway is asked to give one back, so that it is known whether it
# may have been; taken back only if the request surely did not reach it.
GIVING_BACK = Command(
    """
    update attempts set reason = 'giving_back'
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
        and reason <> 'giving_back'
    """,
)
NOT_GIVEN_BACK = Command(
    """
    update attempts set reason = ''
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
    """,
)
# Not if it became something else, or another time was set, since it was claimed.
ASK_AGAIN = Command(
    """
    update attempts set check_at = :check_at
    where merchant_id = :merchant_id and id = :id and status = :status and check_at = :claimed_until
    """,
)
STOP_GIVING_BACK = Command(
    """
    update attempts set check_at = null, reason = :reason, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    """,
)
# Orders that are CREATING for so long while no gateway will be asked about any attempt.
FORGOTTEN = Query(
    Forgotten,
    """
    select o.merchant_id, o.id from orders o
    where o.status = 'CREATING' and o.updated_at <= :since and not exists (
        select from attempts a where a.merchant_id = o.merchant_id and a.order_id = o.id
            and (a.check_at is not null or a.updated_at > :since))
    order by o.updated_at limit :limit
    """,
)
STUCK = Value(
    int,
    """
    select count(*) from (
        select from orders where status = 'CREATING' and updated_at <= :since limit 10000) stuck
    """,
)
ASK_NOW = Command(
    """
    update attempts set check_at = :now, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and check_at is null
    """,
)
MAKE_DUE = Command("update attempts set check_at = :now where check_at > :now")

# Retention, see jobs.prune_history: the trigger of the table asks for the word.
PRUNES_HISTORY = Command("set local opentill.prunes_history = 'yes'")
PRUNE_HISTORY = Command(
    """
    with limits as (  -- business time may be ahead of what the trigger goes by
        select least(:before, extract(epoch from now())::bigint * 1000 - 365 * 86400000::bigint)
            as before
    ), old as (
        select merchant_id, order_id from order_history, limits where number = 1 and at < before
        order by at limit :limit
    )
    delete from order_history h using old, orders o, limits
    where h.merchant_id = old.merchant_id and h.order_id = old.order_id and h.at < before
        and o.merchant_id = old.merchant_id and o.id = old.order_id and h.number < o.steps
    """,
)
