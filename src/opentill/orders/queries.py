"""SQL about orders, their history, notes and attempts; the subpackages have their own."""

from typing import Annotated, Final

from msgspec import Meta

from opentill.db.query import Command, Query, Value
from opentill.http.paging import PeriodQuery
from opentill.list_counts import lists
from opentill.orders.model import (
    Forgotten,
    HistoryPart,
    HistoryRow,
    Order,
    OrderNote,
    PaidThrough,
    PaymentAttempt,
    ProductSum,
)
from opentill.orders.statuses import Status

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

# Needs no lock, because the caller has placed the order in the same transaction.
SET_PAYMENT_LINK = Command(
    """
    update orders set payment_link_id = :payment_link_id
    where merchant_id = :merchant_id and id = :id
    """,
)
SET_METHOD = Command(
    "update checkouts set method = :method where merchant_id = :merchant_id and id = :checkout_id"
)
HISTORY = Query(
    HistoryRow,
    """
    select number, at, event, from_status, to_status, cause from order_history
    where merchant_id = :merchant_id and order_id = :order_id order by number
    """,
)
NOTES = Query(
    OrderNote,
    """
    select * from order_notes
    where merchant_id = :merchant_id and order_id = :order_id order by number
    """,
)
# The caller must hold the order's lock.
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
        created_at, updated_at, limit_day, route, prepaid_minor)
    values (:merchant_id, :id, :order_id, :gateway, :method, :status, :amount_minor, :currency, '',
        '', '', '', :locale, :payer_ip, :check_at, 0, :now, :now, :limit_day, :route,
        :prepaid_minor)
    returning *
    """,
)
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
# Of each order the attempt with the given id or, if that is null, the last one.
ATTEMPTS_OF_ORDERS = Query(
    PaymentAttempt,
    """
    select a.* from unnest(:order_id::text[], :attempt_id::text[]) as o (order_id, attempt_id)
    cross join lateral (
        select * from payment_attempts
        where merchant_id = :merchant_id and order_id = o.order_id
            and (o.attempt_id is null or id = o.attempt_id)
        order by created_at desc, id desc limit 1
    ) a
    """,
)
ATTEMPTS = Query(
    PaymentAttempt,
    """
    select * from payment_attempts
    where merchant_id = :merchant_id and order_id = :order_id order by created_at, id
    """,
)
# Store an attempt's card, unless it has one already.
STORE_CARD = Command(
    """
    update payment_attempts set card_brand = :brand, card_last4 = :last4
    where merchant_id = :merchant_id and id = :id and card_last4 is null
    """
)
# Queues an order for the search index, since its search terms have changed (`search/queries.py`).
REINDEX = Command(
    "insert into search_changes (merchant_id, order_id, was) values (:merchant_id, :order_id, :was)"
)
# Orders that have been CREATING for long though none of their attempts is to be queried.
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

# Condition: an order's history may be pruned (jobs.HistoryPruner). The trigger that protects
# history compares with real time. Business time may be ahead of real time, so this condition
# compares with both.
_OLD: Final = """
    o.updated_at < least(
        :before::bigint, floor(extract(epoch from now()) * 1000)::bigint - 365 * 86400000::bigint)
    """
LAST_MERCHANT = Value(str, "select max(id) from merchants")
MERCHANT_AFTER = Value(str, "select min(id) from merchants where id > :after")
# The next part of a merchant's history. An old order has rows to delete if the part has several of
# its rows. The last order of the part may have rows to delete even if only one is in this part,
# because its other rows may be in the next part.
OLD_HISTORY = Query(
    HistoryPart,
    f"""
    with part as materialized (
        select order_id from order_history
        where merchant_id = :merchant_id and order_id > :after
        order by order_id, number limit :limit
    ), counted as (
        select order_id, count(*) as rows from part group by order_id
    )
    select
        coalesce((select sum(rows) from counted), 0)::bigint as rows,
        coalesce((select max(order_id) from counted), '') as last,
        array(
            select order_id from counted
            where (rows > 1 or order_id = (select max(order_id) from counted)) and (
                select {_OLD} from orders o
                where o.merchant_id = :merchant_id and o.id = counted.order_id)
            order by order_id
        ) as old
    """,  # noqa: S608 - interpolates constants of this program only
)
PRUNES_HISTORY = Command("set local opentill.prunes_history = 'yes'")
PRUNE_HISTORY = Command(
    f"""
    delete from order_history h using orders o
    where h.merchant_id = :merchant_id and h.order_id = any (:order_id::text[])
        and o.merchant_id = :merchant_id and o.id = any (:order_id::text[]) and o.id = h.order_id
        and h.number < o.history_number and {_OLD}
    """,  # noqa: S608 - interpolates constants of this program only
)
# What was paid for a product: at most `:limit` of the newest orders of each status.
PRODUCT_SUMS: Final = Query(
    ProductSum,
    """
    select newest.currency, count(*) as orders, sum(newest.amount_minor)::bigint as amount_minor
    from unnest(:status::text[]) as s (status) cross join lateral (
        select o.currency, o.amount_minor from orders o
        where o.merchant_id = :merchant_id and o.product_id = :product_id and o.status = s.status
            and o.created_at >= :since
        order by o.created_at desc, o.id desc limit :limit
    ) newest
    group by newest.currency
    order by orders desc, newest.currency
    """,
)
