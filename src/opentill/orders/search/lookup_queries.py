"""SQL that looks up orders by ids and numbers.

Each statement takes merchants and an id or a number: one index lookup for each merchant.
"""

from typing import Final

from opentill.db.query import Query
from opentill.orders.search.model import OrderRef


def _look_up(select: str) -> Query[OrderRef]:
    """Build the statement that looks up an order of each of the merchants."""
    return Query(
        OrderRef,
        f"""
        select m.merchant_id, hit.order_id
        from unnest(:merchant_id::text[]) as m (merchant_id) cross join lateral ({select}) hit
        """,  # noqa: S608 - interpolates constants of this program only
    )


ORDER: Final = _look_up(
    "select o.id as order_id from orders o where o.merchant_id = m.merchant_id and o.id = :id"
)
# `:first` and `:until` bound the ids of a day, which are read in the primary key.
RECEIPT: Final = _look_up(
    """
    select o.id as order_id from orders o
    where o.merchant_id = m.merchant_id and o.id >= :first and o.id < :until
        and right(o.id, 12) = :tail
    """
)
SESSION: Final = _look_up(
    "select c.order_id from checkouts c where c.merchant_id = m.merchant_id and c.id = :id"
)
ATTEMPT: Final = _look_up(
    "select a.order_id from payment_attempts a where a.merchant_id = m.merchant_id and a.id = :id"
)
REFUND: Final = _look_up(
    "select r.order_id from refunds r where r.merchant_id = m.merchant_id and r.id = :id"
)
DISPUTE: Final = _look_up(
    "select d.order_id from disputes d where d.merchant_id = m.merchant_id and d.id = :id"
)
EVENT: Final = _look_up(
    """
    select e.body::json -> 'data' ->> 'order_id' as order_id from events e
    where e.merchant_id = m.merchant_id and e.id = :id
        and e.body::json -> 'data' ->> 'order_id' is not null
    """
)
# `:created_at` is taken from the entry's id, which contains it (decision 0011).
ENTRY: Final = _look_up(
    """
    select case e.source_type when 'order' then e.source_id
        when 'refund' then (
            select r.order_id from refunds r
            where r.merchant_id = m.merchant_id and r.id = e.source_id)
        else (
            select d.order_id from disputes d
            where d.merchant_id = m.merchant_id and d.id = e.source_id) end as order_id
    from entries e
    where e.merchant_id = m.merchant_id and e.created_at = :created_at and e.id = :id
        and e.source_type in ('order', 'refund', 'dispute')
    """,
)
REFUND_NO: Final = _look_up(
    "select r.order_id from refunds r where r.merchant_id = m.merchant_id and r.refund_no = :id"
)
OUT_TRADE_NO: Final = _look_up(
    "select e.order_id from epay_orders e"
    " where e.merchant_id = m.merchant_id and e.out_trade_no = :id"
)
# Orders whose ids end with `:digits`, or whose receipt's number has them after its day. Each half
# reads an index by four digits.
PART_OF_ID: Final = Query(
    OrderRef,
    """
    select merchant_id, id as order_id from (
        (select o.merchant_id, o.id from orders o
            where o.merchant_id = :merchant_id and right(o.id, 4) = right(:digits, 4)
                and right(o.id, length(:digits)) = :digits
            limit :limit)
        union
        (select o.merchant_id, o.id from orders o
            where o.merchant_id = :merchant_id and left(right(o.id, 12), 4) = left(:digits, 4)
                and left(right(o.id, 12), length(:digits)) = :digits
            limit :limit)
    ) matches
    order by id desc limit :limit
    """,
)
