"""SQL that finds orders of all merchants, for staff."""

from typing import Final

from opentill.db.query import Query
from opentill.orders.model import Order
from opentill.orders.search.model import PendingOrder
from opentill.orders.search.shown_queries import CONDITIONS
from opentill.orders.statuses import ShownStatus

# The newest orders with some terms in some places of merchants. Only `:limit` places are read: the
# places with the newest orders contain the newest `:limit` orders.
NEWEST_OF_PLACES = Query(
    Order,
    """
    with newest as (
        select p.merchant_id, p.term, p.place
        from unnest(:merchant_id::text[], :term::text[], :place::text[])
            as p (merchant_id, term, place)
        cross join lateral (
            select t.created_at, t.order_id from search_terms t
            where t.merchant_id = p.merchant_id and t.term = p.term and t.place = p.place
            order by t.created_at desc, t.order_id desc limit 1
        ) first
        order by first.created_at desc, first.order_id desc limit :limit
    ), hit as (
        select newest.merchant_id, hit.created_at, hit.order_id from newest
        cross join lateral (
            select t.created_at, t.order_id from search_terms t
            where t.merchant_id = newest.merchant_id and t.term = newest.term
                and t.place = newest.place
            order by t.created_at desc, t.order_id desc limit :limit
        ) hit
        order by hit.created_at desc, hit.order_id desc limit :limit
    )
    select o.* from hit join orders o on o.merchant_id = hit.merchant_id and o.id = hit.order_id
    order by o.created_at desc, o.id desc
    """,
)
# Orders that the index may lack, of some merchants.
PENDING_OF_ALL = Query(
    PendingOrder,
    """
    select o.merchant_id, o.id, o.created_at, o.status, o.product_id, o.customer_email,
        o.customer_name, o.amount_minor, o.currency, o.metadata, o.client_reference, a.card_last4,
        s.status as session_status, o.refunded_minor, o.refund_held_minor, o.refund_failed,
        o.closed_as, o.attempt_failed, o.payment_method, c.is_new
    from (
        select few.merchant_id, few.order_id, bool_or(few.was is null) as is_new from (
            select c.merchant_id, c.order_id, c.was
            from unnest(:merchant_id::text[]) as m (merchant_id)
            join search_changes c on c.merchant_id = m.merchant_id limit :limit
        ) few group by few.merchant_id, few.order_id
    ) c
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    join checkouts s on s.merchant_id = c.merchant_id and s.id = o.checkout_id
    left join payment_attempts a on a.merchant_id = c.merchant_id and a.id = o.paid_attempt_id
    """,
)
# Orders by their keys, newest first.
OF_REFS = Query(
    Order,
    """
    select o.* from unnest(:merchant_id::text[], :id::text[]) as ref (merchant_id, id)
    join orders o on o.merchant_id = ref.merchant_id and o.id = ref.id
    order by o.created_at desc, o.id desc limit :limit
    """,
)


def _newest_of_all(conditions: tuple[str, ...]) -> Query[Order]:
    """Build the statement that reads the newest orders of all merchants with one of the conditions.

    It reads the orders of only `:limit` merchants, the ones who have the newest orders. Each
    condition is read from its own index.
    """

    def rows(limit: str) -> str:
        parts = " union all ".join(
            f"""
            (select o.* from orders o where o.merchant_id = m.merchant_id and {condition}
                and (o.created_at, o.id) < (:before_at, :before_id) and o.created_at >= :since
            order by o.created_at desc, o.id desc limit {limit})
            """  # noqa: S608 - interpolates constants of this program only
            for condition in conditions
        )
        return f"select * from ({parts}) o order by o.created_at desc, o.id desc limit {limit}"  # noqa: S608 - interpolates constants of this program only

    return Query(
        Order,
        f"""
        with m as (
            select m.merchant_id from (select id as merchant_id from merchants) m
            cross join lateral ({rows("1")}) newest
            order by newest.created_at desc, newest.id desc limit :limit
        )
        select o.* from m cross join lateral ({rows(":limit")}) o
        order by o.created_at desc, o.id desc limit :limit
        """,  # noqa: S608 - interpolates constants of this program only
    )


NEWEST_OF_ALL: Final = _newest_of_all(("true",))
NEWEST_OF_ALL_BY_SHOWN: Final[dict[tuple[ShownStatus], tuple[Query[Order]]]] = {
    (shown,): (_newest_of_all(conditions),) for shown, conditions in CONDITIONS.items()
}
