"""All SQL about checkout sessions."""

from opentill.checkouts.model import Offer, Session
from opentill.core.db import Command, Query, Value
from opentill.rates import LOOKUP_SQL


def _rate_to(quote: str) -> str:
    return LOOKUP_SQL.format(base="product.currency", quote=quote, at="$3", oldest="$4")


# $3 now, $4 the earliest valid_from of a rate that counts.
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
    where product.merchant_id = $1 and product.id = $2
    """,  # noqa: S608 - the quotes are constants of ours
)
# Session, order, first line of history and directory entry, in one statement.
OPEN = Query(
    Session,
    """
    with listed as (
        insert into directory (id, merchant_id) values ($2, $1)
    ), session as (
        insert into checkouts (merchant_id, id, product_id, order_id, amount_minor, currency,
            status, success_url, cancel_url, customer_email, customer_name, display_merchant_name,
            expires_at, created_at, updated_at, method)
        values ($1, $2, $3, $4, $5, $6, 'OPEN', $7, $8, $9, $10, $11, $12, $13, $13, $34)
        returning *
    ), placed as (
        insert into orders (merchant_id, id, checkout_id, product_id, product_name,
            product_description, product_image, source, status, steps, currency, amount_minor,
            platform_fee_rate, platform_fee_minor, settled_currency, exchange_rate,
            usd_exchange_rate, gross_settled_minor, net_settled_minor, refund_fee_policy,
            customer_email, customer_name, payer_ip, refunded_minor, refund_held_minor,
            refund_debit_minor, reserve_rate, reserve_minor, reserve_status, metadata, created_at,
            updated_at, terms_version, fees, settlement_delay_days, settlement_calendar,
            reserve_days, dispute_fee_minor)
        values ($1, $4, $2, $3, $14, $15, $16, $17, 'PENDING', 1, $6, $5, $18, $19, $20, $21, $22,
            $23, $24, $25, $9, $10, '', 0, 0, 0, $26, 0, 'NONE', $27, $13, $13, $28,
            $29, $30, $31, $32, $33)
    ), noted as (
        insert into order_history (merchant_id, order_id, number, at, event, to_status, cause)
        values ($1, $4, 1, $13, 'opened', 'PENDING', $2)
    )
    select * from session
    """,
)
BY_ID = Query(Session, "select * from checkouts where merchant_id = $1 and id = $2")
BY_PUBLIC_ID = Query(
    Session,
    """
    select c.* from directory d
    join checkouts c on c.merchant_id = d.merchant_id and c.id = d.id
    where d.id = $1
    """,
)
DUE = Query(
    Session,
    """
    select c.* from checkouts c
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    where c.status = 'OPEN' and c.expires_at <= $1 and o.status = 'PENDING'
        and (c.expires_at, c.id) > ($3, $4)
    order by c.expires_at, c.id limit $2
    """,
)
COUNT_DUE = Value(
    int,
    """
    select count(*) from checkouts c
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    where c.status = 'OPEN' and c.expires_at <= $1 and o.status = 'PENDING'
    """,
)
TOUCH_EXPIRED = Command(
    "update checkouts set expires_at = least(expires_at, $3) where merchant_id = $1 and id = $2",
)
SET_METHOD = Command("update checkouts set method = $3 where merchant_id = $1 and id = $2")
ATTEMPTS = Value(int, "select count(*) from attempts where merchant_id = $1 and order_id = $2")
MERCHANT_NAME = Value(str, "select name from merchants where id = $1")
