"""SQL about orders that are due to settle and reserves that are due for release."""

from opentill.db.query import Query, Value
from opentill.orders.model import DueMerchant, Order

COUNT_SETTLEMENTS = Value(
    int, "select count(*) from (select 1 from orders where settle_at <= :now limit 10000) due"
)
COUNT_RELEASES = Value(
    int,
    """
    select count(*) from (
        select 1 from orders where reserve_status = 'HELD' and status <> 'DISPUTED'
            and reserve_release_at <= :now limit 10000
    ) due
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
# Orders that settle until `:until`: all, or only those of `:merchant_id` or with `:order_id` if the
# parameter is not null.
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
OLDEST_SETTLEMENT = Value(int, "select min(settle_at) from orders where settle_at is not null")
OLDEST_RELEASE = Value(
    int,
    """
    select min(reserve_release_at) from orders
    where reserve_status = 'HELD' and status <> 'DISPUTED'
    """,
)
