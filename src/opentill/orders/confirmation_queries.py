"""The statements by which a batch of reported payments is found and locked."""

import msgspec

from opentill.db.query import Query
from opentill.orders.model import Order, PaymentAttempt


class OfMerchant(msgspec.Struct, frozen=True):
    """Whose a public id is."""

    id: str
    merchant_id: str


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
