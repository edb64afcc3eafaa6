"""The statements by which reported payments are found and their orders locked."""

import msgspec

from opentill.db.query import Query, Value
from opentill.orders.model import Order, PaymentAttempt


class OfMerchant(msgspec.Struct, frozen=True):
    """Whose a public id is."""

    id: str
    merchant_id: str


class SharedNumber(msgspec.Struct, frozen=True):
    """An order whose number has other orders, too."""

    merchant_id: str
    id: str


# Attempts of any merchants, each if it went through the gateway that speaks of it. The
# transaction then waits half a second for a lock, lest one merchant's hold up the others'. One plan
# serves for any number (decision 0111).
ATTEMPTS_OF_GATEWAYS = Query(
    PaymentAttempt,
    """
    with patience as materialized (select set_config('lock_timeout', '500ms', true))
    select a.* from patience
    cross join unnest((select :gateway::text[]), :id::text[]) as wanted (gateway, id)
    join directory d on d.id = wanted.id
    join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.id
        and a.gateway = wanted.gateway
    """,
)
# The same of one merchant, where tables are distributed: a batch there is of one (decision 0118).
ATTEMPTS_OF_MERCHANT = Query(
    PaymentAttempt,
    """
    select a.* from unnest(:gateway::text[], :id::text[]) as wanted (gateway, id)
    join payment_attempts a on a.merchant_id = :merchant_id and a.id = wanted.id
        and a.gateway = wanted.gateway
    """,
)
MERCHANTS_OF = Query(
    OfMerchant, "select id, merchant_id from directory where id = any (:ids::text[])"
)
# Many orders, in the order in which everybody locks them. The subquery hides how many they are from
# PostgreSQL, so that it keeps one plan (decision 0111).
LOCK_MANY = Query(
    Order,
    """
    select o.*
    from unnest((select :merchant_id::text[]), :id::text[]) as wanted (merchant_id, id)
    join orders o on o.merchant_id = wanted.merchant_id and o.id = wanted.id
    order by o.merchant_id, o.id for update of o
    """,
    # All of one merchant there: rows are locked on one node only.
    distributed="""
    select * from orders where merchant_id = (:merchant_id::text[])[1] and id = any (:id::text[])
    order by id for update
    """,
)

# ── Orders that share a number of an Epay shop ──

_OF_NUMBER = """
    from epay_orders e
    join epay_orders b on b.merchant_id = e.merchant_id and b.out_trade_no = e.out_trade_no
    join orders o on o.merchant_id = b.merchant_id and o.id = b.order_id
    where e.merchant_id = :merchant_id and e.order_id = :id
"""
# Oldest first, as `epay.queries.ORDERS_OF_NUMBER` has them: two that lock cannot deadlock.
LOCK_NUMBER = Query(
    SharedNumber,
    f"select o.merchant_id, o.id {_OF_NUMBER} order by b.submission for update of o",
)
PAID_BESIDE = Value(
    str,
    f"select o.id {_OF_NUMBER} and o.id <> e.order_id and o.paid_at is not null limit 1",
)
SHARED_NUMBERS = Query(
    SharedNumber,
    """
    select e.merchant_id, e.order_id as id
    from unnest(:merchant_id::text[], :id::text[]) as wanted (merchant_id, id)
    join epay_orders e on e.merchant_id = wanted.merchant_id and e.order_id = wanted.id
    where exists (
        select from epay_orders b
        where b.merchant_id = e.merchant_id and b.out_trade_no = e.out_trade_no
            and b.submission <> e.submission
    )
    """,
)
