"""All SQL about checkout sessions."""

from opentill.checkouts.model import Offer, Session
from opentill.db.query import Query, Value
from opentill.rates import LOOKUP_SQL


def _rate_to(quote: str) -> str:
    return LOOKUP_SQL.format(base="product.currency", quote=quote, at=":now", oldest=":oldest")


# `:oldest` is the earliest valid_from of a rate that counts.
OFFER = Query(
    Offer,
    f"""
    select product.name, product.description, product.image, product.price_minor, product.currency,
        product.status, m.name as merchant_name, m.settlement_currency, m.platform_fee_rate,
        m.refund_fee_policy, m.reserve_rate, m.terms_version, m.fees, m.settlement_delay_days,
        m.settlement_calendar, m.reserve_days, m.dispute_fee_minor,
        {_rate_to("m.settlement_currency")} as exchange_rate,
        {_rate_to("'USD'")} as usd_exchange_rate
    from products product join merchants m on m.id = product.merchant_id
    where product.merchant_id = :merchant_id and product.id = :product_id
    """,  # noqa: S608 - the quotes are constants of ours
)
BY_ID = Query(Session, "select * from checkouts where merchant_id = :merchant_id and id = :id")
BY_PUBLIC_ID = Query(
    Session,
    """
    select c.* from directory d
    join checkouts c on c.merchant_id = d.merchant_id and c.id = d.id
    where d.id = :id
    """,
)
DUE = Query(
    Session,
    """
    select c.* from checkouts c
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    where c.status = 'OPEN' and c.expires_at <= :now and o.status = 'PENDING'
        and (c.expires_at, c.id) > (:after_expires_at, :after_id)
    order by c.expires_at, c.id limit :limit
    """,
)
COUNT_DUE = Value(
    int,
    """
    select count(*) from checkouts c
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    where c.status = 'OPEN' and c.expires_at <= :now and o.status = 'PENDING'
    """,
)
ATTEMPTS = Value(
    int,
    """
    select count(*) from payment_attempts
    where merchant_id = :merchant_id and order_id = :order_id
    """,
)
