"""All SQL about Epay credentials, orders and notices."""

from opentill.db.query import Command, Query, Value
from opentill.epay.model import (
    Credentials,
    EpayMerchant,
    EpayOrder,
    EpayProduct,
    Notice,
    NoticeOfOrder,
    NumberedOrder,
    PaidCounts,
    PaidSums,
    PaidTwice,
    PlatformKey,
)

# The merchant of a pid; `:id` is "pid_" followed by the pid.
MERCHANT_OF_PID = Query(
    EpayMerchant,
    """
    select c.*, coalesce(m.display_name, m.name) as name, m.settlement_currency, m.ip_allowlist,
        m.status, m.charge_off
    from directory d
    join epay_credentials c on c.merchant_id = d.merchant_id
    join merchants m on m.id = d.merchant_id
    where d.id = :id
    """,
)
LIST_PID = Command(
    "insert into directory (id, merchant_id) values (:id, :merchant_id) on conflict do nothing"
)
INSERT = Query(
    Credentials,
    """
    insert into epay_credentials (merchant_id, pid, sealed_key, state, created_at, rotated_at,
        updated_at)
    values (:merchant_id, :pid, :sealed_key, 'ENABLED', :now, null, :now)
    returning *
    """,
)
OF_MERCHANT = Query(Credentials, "select * from epay_credentials where merchant_id = :merchant_id")
LOCKED = Query(
    Credentials, "select * from epay_credentials where merchant_id = :merchant_id for no key update"
)
SET_STATE = Query(
    Credentials,
    """
    update epay_credentials set state = :state, updated_at = :now where merchant_id = :merchant_id
    returning *
    """,
)
SET_KEY = Query(
    Credentials,
    """
    update epay_credentials set sealed_key = :sealed_key, rotated_at = :now, updated_at = :now
    where merchant_id = :merchant_id
    returning *
    """,
)
SET_VERSIONS = Query(
    Credentials,
    """
    update epay_credentials set versions = :versions, updated_at = :now
    where merchant_id = :merchant_id
    returning *
    """,
)
SET_PUBLIC_KEY = Query(
    Credentials,
    """
    update epay_credentials set public_key = :public_key, public_key_at = :now, updated_at = :now
    where merchant_id = :merchant_id
    returning *
    """,
)
ALL = Query(Credentials, "select * from epay_credentials order by merchant_id")
ANY = Query(Credentials, "select * from epay_credentials limit 1")

PLATFORM_KEY = Query(PlatformKey, "select * from epay_platform_keys order by number desc limit 1")
# Add a platform key. Of concurrent statements with one number, all but one do nothing.
INSERT_PLATFORM_KEY = Command(
    """
    insert into epay_platform_keys (number, public_key, sealed_key, created_at)
    values (:number, :public_key, :sealed_key, :now)
    on conflict (number) do nothing
    """
)
# Record on which path a signature is used and return the path of its first use. The update changes
# nothing; it makes a concurrent statement wait for the first one and return its row.
USE_SIGNATURE = Value(
    str,
    """
    insert into epay_signatures (merchant_id, signature, path, created_at)
    values (:merchant_id, :signature, :path, :now)
    on conflict (merchant_id, signature) do update set path = epay_signatures.path
    returning path
    """,
)
PRUNE_SIGNATURES = Command(
    """
    delete from epay_signatures where created_at <= :until and (merchant_id, signature) in (
        select merchant_id, signature from epay_signatures where created_at <= :until
        order by created_at limit 1000 for update skip locked)
    """,
)

PRODUCT = Value(
    str,
    """
    select product_id from epay_products
    where merchant_id = :merchant_id and currency = :currency
    """,
)
PRODUCTS = Query(
    EpayProduct, "select product_id from epay_products where merchant_id = :merchant_id"
)
INSERT_PRODUCT = Command(
    """
    insert into epay_products (merchant_id, currency, product_id)
    values (:merchant_id, :currency, :product_id)
    """,
)
INSERT_ORDER = Command(
    """
    insert into epay_orders (merchant_id, out_trade_no, submission, order_id, checkout_id, type,
        name, money, money_type, notify_url, return_url, param, created_at, requested_type, version)
    values (:merchant_id, :out_trade_no, :submission, :order_id, :checkout_id, :type, :name, :money,
        :money_type, :notify_url, :return_url, :param, :now, :requested_type, :version)
    """,
)
SET_TYPE = Command(
    """
    update epay_orders set type = :type, requested_type = :requested_type, version = :version
    where merchant_id = :merchant_id and order_id = :order_id
    """,
)

_EPAY_ORDERS = """
    select e.*, o.status, o.amount_minor, o.paid_at, o.payment_method, o.customer_email,
        o.refunded_minor,
        coalesce((select provider_ref from payment_attempts a
            where a.merchant_id = :merchant_id and a.id = o.paid_attempt_id), '') as provider_ref
    from epay_orders e
    join orders o on o.merchant_id = e.merchant_id and o.id = e.order_id
"""
# The current order of an out_trade_no: one that is paid, else one that was paid, else the newest.
BY_NUMBER = Query(
    EpayOrder,
    f"""
    {_EPAY_ORDERS} where e.merchant_id = :merchant_id and e.out_trade_no = :out_trade_no
    order by o.status in ('PAID', 'SETTLED') desc, o.paid_at is not null desc, e.submission desc
    limit 1
    """,
)
# An imported order, found by its number of the old server.
BY_OLD_NUMBER = Query(
    EpayOrder,
    f"{_EPAY_ORDERS} where e.merchant_id = :merchant_id and e.old_trade_no = :number",
)
# The orders of an out_trade_no, in the order in which they were placed and must be locked.
ORDERS_OF_NUMBER = Query(
    NumberedOrder,
    """
    select order_id, checkout_id from epay_orders
    where merchant_id = :merchant_id and out_trade_no = :out_trade_no
    order by submission
    """,
)
# Whether a payment of an order with this out_trade_no is in progress, with an unknown outcome.
IS_BEING_PAID = Value(
    bool,
    """
    select exists (
        select from epay_orders e
        join payment_attempts a on a.merchant_id = e.merchant_id and a.order_id = e.order_id
        where e.merchant_id = :merchant_id and e.out_trade_no = :out_trade_no
            and a.status in ('SUBMITTED', 'PENDING')
    )
    """,
)
# The orders that can still be paid under the out_trade_no of the paid order `:order_id`.
UNPAID_SIBLINGS = Query(
    NumberedOrder,
    """
    select e.order_id, e.checkout_id from epay_orders e
    join orders o on o.merchant_id = e.merchant_id and o.id = e.order_id
    where e.merchant_id = :merchant_id and e.out_trade_no = :out_trade_no
        and e.order_id <> :order_id and o.status in ('PENDING', 'CREATING')
    order by e.submission
    """,
)
# Each out_trade_no of any merchant with two paid orders, neither of them refunded, of which the
# newer one was placed since `:since`.
PAID_TWICE = Query(
    PaidTwice,
    """
    select e.merchant_id, e.out_trade_no, e.order_id, o.amount_minor, o.currency,
        greatest(o.paid_at, before.paid_at) as paid_at, before.order_id as order_before
    from epay_orders e
    join orders o on o.merchant_id = e.merchant_id and o.id = e.order_id
    cross join lateral (
        select b.order_id, p.paid_at from epay_orders b
        join orders p on p.merchant_id = b.merchant_id and p.id = b.order_id
        where b.merchant_id = e.merchant_id and b.out_trade_no = e.out_trade_no
            and b.submission < e.submission and p.status in ('PAID', 'SETTLED')
        order by b.submission desc limit 1
    ) before
    where e.submission > 1 and e.created_at >= :since and o.status in ('PAID', 'SETTLED')
    order by e.created_at desc, e.order_id desc limit :limit
    """,
)
BY_ORDER = Query(
    EpayOrder,
    f"{_EPAY_ORDERS} where e.merchant_id = :merchant_id and e.order_id = :order_id",
)
LIST = Query(
    EpayOrder,
    f"""
    {_EPAY_ORDERS} where e.merchant_id = :merchant_id
    order by e.created_at desc, e.order_id desc limit :limit offset :offset
    """,
)
# Sorted by columns of `orders`, so that the index by status can be used. An order's row in
# `epay_orders` has the same creation time.
LIST_BY_STATUS = Query(
    EpayOrder,
    f"""
    {_EPAY_ORDERS} where o.merchant_id = :merchant_id and e.merchant_id = :merchant_id
        and o.status = any(:statuses::text[])
    order by o.created_at desc, o.id desc limit :limit offset :offset
    """,
)
# `:yesterday` and `:today` are the starts of the days. The conditions repeat those of the partial
# index, so that PostgreSQL can use it.
COUNTS = Query(
    PaidCounts,
    """
    select (select count(*) from orders where merchant_id = :merchant_id and created_at >= :today
            and source = 'EPAY' and status in ('PAID', 'SETTLED')) as paid_today,
        (select count(*) from orders where merchant_id = :merchant_id and created_at >= :yesterday
            and created_at < :today
            and source = 'EPAY' and status in ('PAID', 'SETTLED')) as paid_yesterday
    """,
)
# The same for `merchant/info` of V2, with the sums of the orders in `:currency`.
COUNTS_AND_SUMS = Query(
    PaidSums,
    """
    select count(*) filter (where created_at >= :today) as paid_today,
        count(*) filter (where created_at < :today) as paid_yesterday,
        coalesce(sum(amount_minor) filter (where created_at >= :today and currency = :currency), 0)
            ::bigint as money_today,
        coalesce(sum(amount_minor) filter (where created_at < :today and currency = :currency), 0)
            ::bigint as money_yesterday
    from orders
    where merchant_id = :merchant_id and created_at >= :yesterday
        and source = 'EPAY' and status in ('PAID', 'SETTLED')
    """,
)

# The refund that an earlier, identical request created.
REFUND_OF_REQUEST = Value(
    str,
    """
    select refund_id from epay_refunds
    where merchant_id = :merchant_id and request = :request and created_at > :after
    """,
)
# Record the refund that a request created. It replaces the refund of an identical request if that
# was recorded at `:stale_until` or before. Of two concurrent statements one returns no row.
RECORD_REQUEST = Value(
    str,
    """
    insert into epay_refunds (merchant_id, request, refund_id, created_at)
    values (:merchant_id, :request, :refund_id, :now)
    on conflict (merchant_id, request) do update set refund_id = :refund_id, created_at = :now
    where epay_refunds.created_at <= :stale_until
    returning refund_id
    """,
)
PRUNE_REQUESTS = Command(
    """
    delete from epay_refunds where created_at <= :until and (merchant_id, request) in (
        select merchant_id, request from epay_refunds where created_at <= :until
        order by created_at limit 1000 for update skip locked)
    """,
)

# Claim due notices until `:lease_until`. A merchant has at most `:per_merchant` notices in flight;
# `:notices` are the numbers in flight now, by `:merchant_id`. The statement visits each merchant
# once, whatever the length of its queue; merchants with the fewest notices in flight come first.
CLAIM_NOTICES = Query(
    Notice,
    """
    with recursive waiting as (
        (select merchant_id, due_at from epay_notifications where due_at is not null
            and (select min(due_at) from epay_notifications) <= :now  -- else nothing is due
            order by merchant_id, due_at limit 1)
        union all
        select following.merchant_id, following.due_at from waiting cross join lateral (
            select merchant_id, due_at from epay_notifications
            where due_at is not null and merchant_id > waiting.merchant_id
            order by merchant_id, due_at limit 1
        ) following
    ), ranked as (
        select oldest.merchant_id, oldest.order_id, coalesce(busy.notices, 0)
            + row_number() over (partition by waiting.merchant_id order by oldest.due_at) as place
        from waiting
        left join unnest(:merchant_id::text[], :notices::integer[]) as busy (merchant_id, notices)
            using (merchant_id)
        cross join lateral (
            select n.order_id, n.merchant_id, n.due_at from epay_notifications n
            where n.merchant_id = waiting.merchant_id and n.due_at <= :now
            order by n.due_at limit :per_merchant
        ) oldest
        where waiting.due_at <= :now
    ), due as (
        select n.merchant_id, n.order_id from epay_notifications n
        join (
            select * from ranked where place <= :per_merchant order by place, random() limit :limit
        ) chosen using (merchant_id, order_id)
        where n.due_at <= :now for update of n skip locked
    )
    update epay_notifications n set due_at = :lease_until, sending_until = :lease_until from due
    where n.merchant_id = due.merchant_id and n.order_id = due.order_id
    returning n.merchant_id, n.order_id, state, due_at, tries, answer as result, fault,
        created_at, updated_at
    """,
)
# Record the result of a try. `:tries` is the number of earlier tries, so that two overlapping tries
# that fail are counted once.
RECORD_DELIVERY = Command(
    """
    update epay_notifications set state = 'DELIVERED', due_at = null, sending_until = null,
        tries = tries + 1,
        answer = :result, fault = :fault, updated_at = :now
    where merchant_id = :merchant_id and order_id = :order_id and state = 'WAITING'
    """,
)
RECORD_FAILURE = Command(
    """
    update epay_notifications set tries = tries + 1, answer = :result, fault = :fault,
        updated_at = :now,
        due_at = :due_at::bigint, sending_until = null,
        state = case when :due_at::bigint is null then 'FAILED' else 'WAITING' end
    where merchant_id = :merchant_id and order_id = :order_id and state = 'WAITING'
        and tries = :tries
    """,
)
NOTICE = Query(
    Notice,
    """
    select merchant_id, order_id, state, due_at, tries, answer as result, fault, created_at,
        updated_at
    from epay_notifications where merchant_id = :merchant_id and order_id = :order_id
    """,
)
RESEND = Query(
    Notice,
    """
    update epay_notifications set state = 'WAITING', due_at = :now::bigint, tries = 0,
        sent_early_failures = null, sending_until = null,
        updated_at = :now::bigint
    where merchant_id = :merchant_id and order_id = :order_id
    returning merchant_id, order_id, state, due_at, tries, answer as result, fault, created_at,
        updated_at
    """,
)
NEWEST_NOTICES = Query(
    NoticeOfOrder,
    """
    select merchant_id, order_id, state, due_at, tries, answer as result, fault, created_at,
        updated_at,
        (select out_trade_no from epay_orders e
            where e.merchant_id = :merchant_id and e.order_id = n.order_id) as out_trade_no
    from epay_notifications n
    where merchant_id = :merchant_id and (:state::text is null or state = :state)
    order by created_at desc, order_id desc limit :limit
    """,
)
# Failed notices of all merchants since a time, newest first.
FAILED_NOTICES = Query(
    Notice,
    """
    select merchant_id, order_id, state, due_at, tries, answer as result, fault, created_at,
        updated_at
    from epay_notifications where state = 'FAILED' and created_at >= :since
    order by created_at desc, order_id desc limit :limit
    """,
)
MAKE_NOTICES_DUE = Command("update epay_notifications set due_at = :now where due_at > :now")
COUNT_NOTICES = Value(
    int,
    """
    select count(*) from (
        select 1 from epay_notifications where due_at <= :now limit 10000
    ) due
    """,
)
OLDEST_NOTICE = Value(int, "select min(due_at) from epay_notifications where due_at is not null")
# Fail the pending notices of all merchants after a restore: they may have been sent already.
SKIP_NOTICES = Command(
    """
    update epay_notifications set state = 'FAILED', due_at = null, updated_at = :now
    where state = 'WAITING'
    """
)
