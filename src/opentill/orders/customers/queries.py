"""SQL about customers, which are not stored: a customer is the orders with one email address.

`refunded_minor` is what a customer got back: refunds, and by a lost dispute the rest of a payment.
"""

from typing import Final

from opentill.db.query import Query
from opentill.orders.customers.model import (
    CustomerMethod,
    CustomerOrder,
    CustomerSums,
    CustomerTotal,
    OrderCustomer,
    RecentOrders,
)
from opentill.orders.model import Order

# The newest `:limit` orders of a merchant by email address and currency: the newest order of each,
# and the totals. `oldest_at` and `oldest_id` are those of the last of these orders, null if the
# merchant has fewer; `has_more`: the merchant has more.
RECENT: Final = Query(
    RecentOrders,
    """
    with newest as materialized (
        select customer_email as email, customer_name as name, id as order_id, created_at, status,
            amount_minor, currency, refunded_minor, gross_settled_minor, paid_at,
            row_number() over (order by created_at desc, id desc) as position
        from orders where merchant_id = :merchant_id
        order by created_at desc, id desc limit :limit::bigint + 1
    )
    select n.email, n.name, n.order_id, n.created_at, n.status, n.amount_minor, n.currency,
        total.orders, total.payments, total.paid_minor, total.refunded_minor, total.settled_minor,
        total.first_paid_at, total.last_paid_at, oldest.created_at as oldest_at,
        oldest.order_id as oldest_id,
        exists (select from newest where position > :limit) as has_more
    from (
        select min(position) as position, count(*) as orders, count(paid_at) as payments,
            coalesce(sum(amount_minor) filter (where paid_at is not null), 0)::bigint
                as paid_minor,
            coalesce(sum(case status when 'CHARGEBACK' then amount_minor else refunded_minor end)
                filter (where paid_at is not null), 0)::bigint as refunded_minor,
            coalesce(sum(case when status = 'CHARGEBACK' then 0
                when refunded_minor = 0 then gross_settled_minor else round(
                gross_settled_minor::numeric * (amount_minor - refunded_minor) / amount_minor
            ) end) filter (where paid_at is not null), 0)::bigint as settled_minor,
            min(paid_at) as first_paid_at, max(paid_at) as last_paid_at
        from newest where email <> '' and position <= :limit group by email, currency
    ) total
    join newest n using (position)
    left join newest oldest on oldest.position = :limit
    """,
)
# The newest indexed order of each email address. Orders with ids in `:apart` are ignored, because
# their index rows are outdated.
NEWEST_OF: Final = Query(
    CustomerOrder,
    """
    select o.customer_email as email, o.customer_name as name, o.id as order_id, o.created_at,
        o.status, o.amount_minor, o.currency, o.paid_at as last_paid_at
    from unnest(:term::text[], :place::text[]) as bucket (term, place)
    cross join lateral (
        select t.order_id from search_terms t
        where t.merchant_id = :merchant_id and t.term = bucket.term and t.place = bucket.place
            and t.order_id <> all (:apart::text[])
        order by t.created_at desc, t.order_id desc limit 1
    ) hit
    join orders o on o.merchant_id = :merchant_id and o.id = hit.order_id
    """,
)
# The newest `:limit` orders of a customer. Orders are read from the index, except the orders in
# `:apart`, whose index rows are outdated; the pending orders in `:id` are added to them.
_OF_CUSTOMER: Final = """
    from (
        select id from (
            select hit.order_id as id, hit.created_at
            from unnest(:term::text[], :place::text[]) as bucket (term, place)
            cross join lateral (
                select t.order_id, t.created_at from search_terms t
                where t.merchant_id = :merchant_id and t.term = bucket.term
                    and t.place = bucket.place and t.order_id <> all (:apart::text[])
                order by t.created_at desc, t.order_id desc limit :limit
            ) hit
            union all
            select * from unnest(:id::text[], :created_at::bigint[]) as beside (id, created_at)
        ) orders_of_customer
        order by created_at desc, id desc limit :limit
    ) newest
    join orders o on o.merchant_id = :merchant_id and o.id = newest.id
"""
# A customer's payments and refunds by currency.
SUMS: Final = Query(
    CustomerSums,
    f"""
    select o.currency, count(*) as orders, count(o.paid_at) as payments,
        coalesce(sum(o.amount_minor) filter (where o.paid_at is not null), 0)::bigint as paid_minor,
        sum(case o.status when 'CHARGEBACK' then o.amount_minor else o.refunded_minor end)::bigint
            as refunded_minor,
        count(*) filter (where o.status in ('DISPUTED', 'CHARGEBACK')) as disputed,
        min(o.paid_at) as first_paid_at, max(o.paid_at) as last_paid_at
{_OF_CUSTOMER}    group by o.currency order by o.currency
    """,
)
# The payment methods and cards with which a customer has paid, the last used one first.
METHODS: Final = Query(
    CustomerMethod,
    f"""
    select a.method, coalesce(a.card_brand, '') as card_brand,
        coalesce(a.card_last4, '') as card_last4, count(*) as payments,
        max(o.paid_at) as last_paid_at
{_OF_CUSTOMER}
    join payment_attempts a on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
    where o.paid_at is not null
    group by 1, 2, 3 order by last_paid_at desc, 1, 2, 3 limit :methods
    """,
)
# The newest orders of a customer.
NEWEST_ORDERS: Final = Query(
    Order, f"select o.* {_OF_CUSTOMER} order by o.created_at desc, o.id desc"
)
# The paid orders of several customers by currency, over at most the newest `:most` orders of each
# that were created before the order with `:before_at` and `:before_id`. As in SUMS, orders in
# `:apart` are not read from the index, and the orders in `:id`, each with the email address of its
# customer, are added.
TOTALS: Final = Query(
    CustomerTotal,
    """
    select customer.term, o.currency, count(*) as payments,
        sum(o.amount_minor)::bigint as paid_minor,
        sum(case o.status when 'CHARGEBACK' then o.amount_minor else o.refunded_minor end)::bigint
            as refunded_minor,
        sum(case o.status when 'CHARGEBACK' then 0 else round(
            o.gross_settled_minor::numeric * (o.amount_minor - o.refunded_minor) / o.amount_minor
        ) end)::bigint as settled_minor,
        min(o.paid_at) as first_paid_at, max(o.paid_at) as last_paid_at
    from (
        select bucket.term, hit.order_id as id
        from unnest(:term::text[], :place::text[], :most::bigint[]) as bucket (term, place, most)
        cross join lateral (
            select t.order_id from search_terms t
            where t.merchant_id = :merchant_id and t.term = bucket.term
                and t.place = bucket.place and t.order_id <> all (:apart::text[])
                and (t.created_at, t.order_id) < (:before_at::bigint, :before_id::text)
            order by t.created_at desc, t.order_id desc limit bucket.most
        ) hit
        union all
        select * from unnest(:email::text[], :id::text[]) as beside (email, id)
    ) customer
    cross join lateral (
        select * from orders where merchant_id = :merchant_id and id = customer.id limit 1
    ) o
    where o.paid_at is not null
    group by customer.term, o.currency order by customer.term, o.currency
    """,
)
# The customers of some orders, of any merchants.
OF_ORDERS: Final = Query(
    OrderCustomer,
    """
    select o.merchant_id, o.id as order_id, o.customer_name as name, o.customer_email as email
    from unnest(:merchant_id::text[], :order_id::text[]) as listed (merchant_id, order_id)
    join orders o on o.merchant_id = listed.merchant_id and o.id = listed.order_id
    """,
)
