"""All SQL about orders, their history and their attempts."""

from typing import Annotated, Final

from msgspec import Meta

from opentill.db.query import Command, Query, Value, waiting
from opentill.http.paging import PeriodQuery
from opentill.list_counts import lists
from opentill.orders.failed_attempts_model import FailedAttempts, UncountedMerchant
from opentill.orders.model import (
    DueMerchant,
    Forgotten,
    HistoryPart,
    HistoryRow,
    Order,
    PaidThrough,
    PaymentAttempt,
    Status,
)
from opentill.orders.note_model import OrderNote

MERCHANT_OF = Value(str, "select merchant_id from directory where id = :id")
BY_ID = Query(Order, "select * from orders where merchant_id = :merchant_id and id = :id")
OF_IDS = Query(
    Order, "select * from orders where merchant_id = :merchant_id and id = any (:ids::text[])"
)
NEWEST = Query(
    Order,
    """
    select * from orders where merchant_id = :merchant_id
    order by created_at desc, id desc limit :limit
    """,
)
LOCKED = Query(
    Order, "select * from orders where merchant_id = :merchant_id and id = :id for update"
)

# For the operator, who has only the order's id: one index lookup for each merchant.
ANYWHERE = Query(
    Order,
    """
    select o.* from merchants m
    cross join lateral (select * from orders where merchant_id = m.id and id = :id) o
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
# A link opens its session in one transaction: nobody has seen the order before.
SET_PAYMENT_LINK = Command(
    """
    update orders set payment_link_id = :payment_link_id
    where merchant_id = :merchant_id and id = :id
    """,
)
# The only method that a session can be paid by; null: the customer chooses.
SET_METHOD = Command(
    "update checkouts set method = :method where merchant_id = :merchant_id and id = :checkout_id"
)
SET_CUSTOMER = Command(
    """
    update orders set customer_name = :customer_name,
        customer_email = case when :customer_email = '' then customer_email else :customer_email end
    where merchant_id = :merchant_id and id = :id
    """,
)
HISTORY = Query(
    HistoryRow,
    """
    select number, at, event, from_status, to_status, cause from order_history
    where merchant_id = :merchant_id and order_id = :order_id order by number
    """,
)


# Its order is locked by whoever adds one.
NOTES = Query(
    OrderNote,
    """
    select * from order_notes
    where merchant_id = :merchant_id and order_id = :order_id order by number
    """,
)
ADD_NOTE = Command(
    """
    insert into order_notes (merchant_id, order_id, number, at, who, note, by_merchant)
    values (:merchant_id, :order_id, :number, :at, :who, :note, :by_merchant)
    """,
)


class ListQuery(PeriodQuery, frozen=True, rename="camel"):
    """Which orders to list."""

    status: (
        Annotated[Status, Meta(description="an order status such as PENDING, PAID or REFUNDED")]
        | None
    ) = None
    product_id: Annotated[str, Meta(description="the id of one of your products")] | None = None


LISTS = lists(Order, "orders", ListQuery)
# Orders that were paid after their sessions had expired.
COUNT_LATE = Value(
    int,
    """
    select count(*) from late_payments
    where merchant_id = :merchant_id and created_at between :since and :until
        and (:product_id::text is null or product_id = :product_id)
    """,
)
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
    insert into payment_attempts (merchant_id, id, order_id, gateway, method, status, amount_minor,
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
    """
    select id, gateway from payment_attempts
    where merchant_id = :merchant_id and id = any (:ids::text[])
    """,
)
ATTEMPT = Query(
    PaymentAttempt, "select * from payment_attempts where merchant_id = :merchant_id and id = :id"
)
LAST_ATTEMPT = Query(
    PaymentAttempt,
    """
    select * from payment_attempts where merchant_id = :merchant_id and order_id = :order_id
    order by created_at desc, id desc limit 1
    """,
)
ATTEMPTS = Query(
    PaymentAttempt,
    """
    select * from payment_attempts
    where merchant_id = :merchant_id and order_id = :order_id order by created_at, id
    """,
)
# The latest attempt that the operator is to confirm: its gateway is `manual`.
MANUAL_ATTEMPT = Query(
    PaymentAttempt,
    """
    select * from payment_attempts where merchant_id = :merchant_id and order_id = :order_id
        and gateway = 'manual' and status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING')
    order by created_at desc, id desc limit 1
    """,
)
UPDATE_ATTEMPT = Query(
    PaymentAttempt,
    """
    update payment_attempts set status = :status,
        provider_ref = case when :provider_ref = '' then provider_ref else :provider_ref end,
        action_url = case when :action_url = '' then action_url else :action_url end,
        qr_text = case when :qr_text = '' then qr_text else :qr_text end,
        reason = :reason, check_at = :check_at, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# The card of an attempt, written once; the count says whether it was.
KEEP_CARD = Command(
    """
    update payment_attempts set card_brand = :brand, card_last4 = :last4
    where merchant_id = :merchant_id and id = :id and card_last4 is null
    """
)
# Have orders indexed anew, since what they are found by has changed: see `search_queries.py`.
INDEX_ANEW = Command(
    """
    insert into search_changes (merchant_id, order_id, was)
    select * from unnest(:merchant_id::text[], :order_id::text[], :was::text[])
    """
)
# Claim attempts whose gateway is to be asked: whoever claims has them until `:lease_until`. With
# `:gateways` only those of these, or, if they are not `:included`, of all others.
_CLAIM_ATTEMPTS = """
    update payment_attempts a set check_at = :lease_until, checks = checks + 1
    from (
        select merchant_id, id from payment_attempts
        where check_at <= :now and (:gateways::text[] is null
            or (gateway = any(:gateways)) = :included::boolean)
        order by check_at limit :limit for update skip locked
    ) due
    where a.merchant_id = due.merchant_id and a.id = due.id and a.check_at <= :now
    returning a.*
    """
CLAIM_ATTEMPTS = Query(PaymentAttempt, _CLAIM_ATTEMPTS, distributed=waiting(_CLAIM_ATTEMPTS))
# Duplicates: committed before the gateway is asked to give one back, so that it is known whether it
# may have been; taken back only if the request surely did not reach it.
GIVING_BACK = Command(
    """
    update payment_attempts set reason = 'giving_back'
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
        and reason <> 'giving_back'
    """,
)
NOT_GIVEN_BACK = Command(
    """
    update payment_attempts set reason = ''
    where merchant_id = :merchant_id and id = :id and status = 'DUPLICATE'
    """,
)
# Second payments of all merchants that have not gone back, the oldest first: an attempt that has
# become one was changed last when it did.
DUPLICATES = Query(
    PaymentAttempt,
    """
    select * from payment_attempts where status = 'DUPLICATE' and updated_at <= :until
    order by updated_at, id limit :limit
    """,
)
# Not if it became something else, or another time was set, since it was claimed.
ASK_AGAIN = Command(
    """
    update payment_attempts set check_at = :check_at
    where merchant_id = :merchant_id and id = :id and status = :status and check_at = :claimed_until
    """,
)
STOP_GIVING_BACK = Command(
    """
    update payment_attempts set check_at = null, reason = :reason
    where merchant_id = :merchant_id and id = :id
    """,
)
# The money of a second payment that had gone back came back: as STOP_GIVING_BACK.
CAME_BACK = Command(
    """
    update payment_attempts
    set status = 'DUPLICATE', check_at = null, reason = :reason,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'GIVEN_BACK'
    """,
)
# Take the turn to ask a gateway about an attempt, unless the last one was taken less than
# `:every_ms` ago. A time further ahead than that is from before the clock was set back.
TAKE_TURN = Command(
    """
    update payment_attempts set asked_at = :now::bigint
    where merchant_id = :merchant_id and id = :id
        and (asked_at is null or abs(:now::bigint - asked_at) >= :every_ms::bigint)
    """,
)
# Have the worker ask at the next turn, since something may have happened after the last one; not
# about an attempt that is not to be asked about any more. The coalesce keeps PostgreSQL from the
# index of all attempts that are due: the row is found by its id.
ASK_SOON = Command(
    """
    update payment_attempts set check_at = asked_at + :every_ms::bigint
    where merchant_id = :merchant_id and id = :id
        and coalesce(check_at, 0) - asked_at > :every_ms::bigint
    """,
)
# Orders that are CREATING for so long while no gateway will be asked about any attempt.
FORGOTTEN = Query(
    Forgotten,
    """
    select o.merchant_id, o.id from orders o
    where o.status = 'CREATING' and o.updated_at <= :since and not exists (
        select from payment_attempts a where a.merchant_id = o.merchant_id and a.order_id = o.id
            and (a.check_at is not null or a.updated_at > :since))
    order by o.updated_at limit :limit
    """,
)
STUCK = Value(
    int,
    """
    select count(*) from (
        select 1 from orders where status = 'CREATING' and updated_at <= :since limit 10000) stuck
    """,
)
STUCK_ORDERS = Query(
    Order,
    """
    select * from orders where status = 'CREATING' and updated_at <= :since
    order by updated_at limit :limit
    """,
)
ASK_NOW = Command(
    """
    update payment_attempts set check_at = :now, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and check_at is null
    """,
)
# Mark failed attempts as counted in the quarter hour of their end, and take the mark from those
# whose money arrived after all; see `failed_attempts.py`. Changes are returned with their sign.
COUNT_FAILED = Query(
    FailedAttempts,
    """
    with uncounted as materialized (
        select merchant_id, id, counted_at as was, case when status in ('DECLINED', 'REFUSED',
            'VOIDED') then updated_at / 900000 * 900000 end as at
        from payment_attempts
        where merchant_id = :merchant_id
            and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
        order by updated_at limit :limit for update skip locked
    ), marked as (
        update payment_attempts a set counted_at = u.at from uncounted u
        where a.merchant_id = :merchant_id and a.id = u.id
        returning coalesce(u.at, u.was) as since, a.gateway, a.method, a.currency,
            case when u.at is null then -1 else 1 end as failed
    )
    select since, gateway, method, currency, sum(failed) as failed, count(*) as attempts
    from marked group by since, gateway, method, currency order by since
    """,
)
# The next merchants after one that have attempts to be counted: a look into the index for each.
UNCOUNTED_MERCHANTS = Query(
    UncountedMerchant,
    """
    with recursive merchant (id) as (
        (select merchant_id from payment_attempts where merchant_id > :after
                and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
            order by merchant_id limit 1)
        union all
        select (select a.merchant_id from payment_attempts a where a.merchant_id > merchant.id
                and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
            order by a.merchant_id limit 1)
        from merchant where merchant.id is not null
    )
    select id as merchant_id from merchant where id is not null limit :limit
    """,
    distributed="""
    select distinct merchant_id from payment_attempts
    where merchant_id > :after
        and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
    order by merchant_id limit :limit
    """,
)
# When the first attempt of a merchant ended that is not counted, or whose count is out of date.
UNCOUNTED_SINCE = Value(
    int,
    """
    select min(updated_at) from payment_attempts where merchant_id = :merchant_id
        and (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null)
    """,
)
MAKE_DUE = Command("update payment_attempts set check_at = :now where check_at > :now")

# Retention, see jobs.HistoryPruner. Business time may be ahead of what the trigger goes by.
_OLD: Final = """
    o.updated_at < least(
        :before::bigint, floor(extract(epoch from now()) * 1000)::bigint - 365 * 86400000::bigint)
    """
LAST_MERCHANT = Value(str, "select max(id) from merchants")
MERCHANT_AFTER = Value(str, "select min(id) from merchants where id > :after")
# A part of a merchant's history, in the order of its key. An order of which two rows are seen has
# more than its last one, and the last order of the part may have.
OLD_HISTORY = Query(
    HistoryPart,
    f"""
    with seen as materialized (
        select order_id from order_history
        where merchant_id = :merchant_id and order_id > :after
        order by order_id, number limit :limit
    ), found as (
        select order_id, count(*) as rows from seen group by order_id
    )
    select
        coalesce((select sum(rows) from found), 0)::bigint as rows,
        coalesce((select max(order_id) from found), '') as last,
        array(
            select order_id from found
            where (rows > 1 or order_id = (select max(order_id) from found)) and (
                select {_OLD} from orders o
                where o.merchant_id = :merchant_id and o.id = found.order_id)
            order by order_id
        ) as old
    """,  # noqa: S608 - constants of ours
)
PRUNES_HISTORY = Command("set local opentill.prunes_history = 'yes'")
PRUNE_HISTORY = Command(
    f"""
    delete from order_history h using orders o
    where h.merchant_id = :merchant_id and h.order_id = any (:order_id::text[])
        and o.merchant_id = :merchant_id and o.id = any (:order_id::text[]) and o.id = h.order_id
        and h.number < o.history_number and {_OLD}
    """,  # noqa: S608 - constants of ours
)
COUNT_DUE = Value(
    int,
    "select count(*) from (select 1 from payment_attempts where check_at <= :now limit 10000) due",
)
# The oldest row of each queue: one look into its index.
OLDEST_CHECK = Value(int, "select min(check_at) from payment_attempts where check_at is not null")
OLDEST_SETTLEMENT = Value(int, "select min(settle_at) from orders where settle_at is not null")
OLDEST_RELEASE = Value(
    int,
    """
    select min(reserve_release_at) from orders
    where reserve_status = 'HELD' and status <> 'DISPUTED'
    """,
)
