"""All SQL about checkout sessions."""

from opentill.checkouts.model import Offer, Session
from opentill.db.query import Command, Query, Value
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
# Session, order, first line of history and directory entry, in one statement.
OPEN = Query(
    Session,
    """
    with listed as (
        insert into directory (id, merchant_id) values (:id, :merchant_id)
    ), session as (
        insert into checkouts (merchant_id, id, product_id, order_id, amount_minor, currency,
            status, success_url, cancel_url, customer_email, customer_name, display_merchant_name,
            expires_at, created_at, updated_at, method)
        values (:merchant_id, :id, :product_id, :order_id, :amount_minor, :currency, 'OPEN',
            :success_url, :cancel_url, :customer_email, :customer_name, :display_merchant_name,
            :expires_at, :now, :now, :method)
        returning *
    ), placed as (
        insert into orders (merchant_id, id, checkout_id, product_id, product_name,
            product_description, product_image, source, status, history_number, currency,
            amount_minor, platform_fee_rate, platform_fee_minor, settled_currency, exchange_rate,
            usd_exchange_rate, gross_settled_minor, net_settled_minor, refund_fee_policy,
            customer_email, customer_name, payer_ip, refunded_minor, refund_held_minor,
            refund_debit_minor, reserve_rate, reserve_minor, reserve_status, metadata, created_at,
            updated_at, terms_version, fees, settlement_delay_days, settlement_calendar,
            reserve_days, dispute_fee_minor)
        values (:merchant_id, :order_id, :id, :product_id, :product_name, :product_description,
            :product_image, :source, 'PENDING', 1, :currency, :amount_minor, :platform_fee_rate,
            :platform_fee_minor, :settled_currency, :exchange_rate, :usd_exchange_rate,
            :gross_settled_minor, :net_settled_minor, :refund_fee_policy, :customer_email,
            :customer_name, '', 0, 0, 0, :reserve_rate, 0, 'NONE', :metadata, :now, :now,
            :terms_version, :fees, :settlement_delay_days, :settlement_calendar, :reserve_days,
            :dispute_fee_minor)
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, to_status, cause)
        values (:merchant_id, :order_id, 1, :now, 'opened', 'PENDING', :id)
    )
    select * from session
    """,
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
TOUCH_EXPIRED = Command(
    """
    update checkouts set expires_at = least(expires_at, :now)
    where merchant_id = :merchant_id and id = :id
    """,
)
SET_METHOD = Command(
    "update checkouts set method = :method where merchant_id = :merchant_id and id = :id"
)
ATTEMPTS = Value(
    int,
    """
    select count(*) from payment_attempts
    where merchant_id = :merchant_id and order_id = :order_id
    """,
)
