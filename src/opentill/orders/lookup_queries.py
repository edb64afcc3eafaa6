"""SQL that leads from an id or a number to the orders that it concerns, of some merchants.

Each statement takes the merchants and what is looked up: one look into an index for each merchant.
"""

from typing import Final

from opentill.db.query import Query
from opentill.orders.search_model import Concerned


def _by(found: str, *, distributed: str | None = None) -> Query[Concerned]:
    """Make the statement that looks for an order in each of the merchants."""
    return Query(
        Concerned,
        f"""
        select m.merchant_id, found.order_id
        from unnest(:merchant_id::text[]) as m (merchant_id) cross join lateral ({found}) found
        """,  # noqa: S608 - constants of ours
        distributed=distributed,
    )


ORDER: Final = _by(
    "select o.id as order_id from orders o where o.merchant_id = m.merchant_id and o.id = :id"
)
SESSION: Final = _by(
    "select c.order_id from checkouts c where c.merchant_id = m.merchant_id and c.id = :id"
)
ATTEMPT: Final = _by(
    "select a.order_id from payment_attempts a where a.merchant_id = m.merchant_id and a.id = :id"
)
REFUND: Final = _by(
    "select r.order_id from refunds r where r.merchant_id = m.merchant_id and r.id = :id"
)
DISPUTE: Final = _by(
    "select d.order_id from disputes d where d.merchant_id = m.merchant_id and d.id = :id"
)
EVENT: Final = _by(
    """
    select e.body::json -> 'data' ->> 'order_id' as order_id from events e
    where e.merchant_id = m.merchant_id and e.id = :id
        and e.body::json -> 'data' ->> 'order_id' is not null
    """
)
# Of an entry, whose id holds its time (decision 0011).
ENTRY: Final = _by(
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
    distributed="""
    select e.merchant_id, case when e.source_type = 'order' then e.source_id
        else coalesce(r.order_id, d.order_id) end as order_id
    from entries e
    left join refunds r on r.merchant_id = e.merchant_id and r.id = e.source_id
        and e.source_type = 'refund'
    left join disputes d on d.merchant_id = e.merchant_id and d.id = e.source_id
        and e.source_type = 'dispute'
    where e.merchant_id = any (:merchant_id::text[]) and e.created_at = :created_at and e.id = :id
        and e.source_type in ('order', 'refund', 'dispute')
    """,
)
REFUND_NO: Final = _by(
    "select r.order_id from refunds r where r.merchant_id = m.merchant_id and r.refund_no = :id"
)
OUT_TRADE_NO: Final = _by(
    "select e.order_id from epay_orders e"
    " where e.merchant_id = m.merchant_id and e.out_trade_no = :id"
)
