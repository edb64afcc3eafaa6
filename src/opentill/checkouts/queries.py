"""All SQL about checkout sessions."""

from typing import Annotated, Final

from msgspec import Meta

from opentill.checkouts.model import (
    Offer,
    OpenedTest,
    PageView,
    PublicSession,
    Session,
)
from opentill.db.query import Command, Joined, Query, Value, part
from opentill.http.fields import meaning
from opentill.http.paging import PeriodQuery
from opentill.list_counts import ListStatements
from opentill.orders import Email, Order, PaymentAttempt
from opentill.orders.model import SessionStatus
from opentill.rates import LOOKUP_SQL


def _rate_to(quote: str) -> str:
    return LOOKUP_SQL.format(base="product.currency", quote=quote, at=":now", oldest=":oldest")


# Imported rates whose `valid_from` is before `:oldest` are not used.
OFFER = Query(
    Offer,
    f"""
    select product.name, product.description, product.image, product.price_minor, product.currency,
        product.status, coalesce(m.display_name, m.name) as merchant_name, m.settlement_currency,
        m.platform_fee_rate, m.refund_fee_policy, m.reserve_rate, m.terms_version, m.fees,
        m.settlement_delay_days, m.settlement_calendar, m.reserve_days, m.dispute_fee_minor,
        {_rate_to("m.settlement_currency")} as exchange_rate,
        {_rate_to("'USD'")} as usd_exchange_rate, m.charge_off
    from products product join merchants m on m.id = product.merchant_id
    where product.merchant_id = :merchant_id and product.id = :product_id
    """,  # noqa: S608 - interpolates constants of this program only
)
CURRENCY = Value(str, "select currency from products where merchant_id = :merchant_id and id = :id")
BY_ID = Query(Session, "select * from checkouts where merchant_id = :merchant_id and id = :id")
_MERCHANT_FIELDS: Final = [
    name for name in PublicSession.__struct_fields__ if name not in Session.__struct_fields__
]
# Read everything that a session's page shows in one statement, because the page is loaded five
# times per order (decision 0119).
BY_PUBLIC_ID = Joined(
    PageView,
    f"""
    select {part("session", "c", Session.__struct_fields__)},
        {part("session", "m", _MERCHANT_FIELDS)},
        {part("order", "o", Order.__struct_fields__)},
        {part("last_attempt", "a", PaymentAttempt.__struct_fields__)}
    from directory d
    join checkouts c on c.merchant_id = d.merchant_id and c.id = d.id
    join merchants m on m.id = c.merchant_id
    join orders o on o.merchant_id = c.merchant_id and o.id = c.order_id
    left join lateral (
        select * from payment_attempts
        where merchant_id = c.merchant_id and order_id = o.id
        order by created_at desc, id desc limit 1
    ) a on true
    where d.id = :id
    """,  # noqa: S608 - interpolates constants of this program only
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


class ListQuery(PeriodQuery, frozen=True, rename="camel"):
    """Which sessions to list."""

    status: Annotated[
        Annotated[SessionStatus, Meta(description="a session status: OPEN, COMPLETE or EXPIRED")]
        | None,
        meaning("Only sessions of this status."),
    ] = None
    product_id: Annotated[
        Annotated[str, Meta(description="the id of one of your products")] | None,
        meaning("Only sessions for this product."),
    ] = None
    customer_email: Annotated[
        Email | None,
        meaning("Only sessions of the customer with this email address, in any case."),
    ] = None


OF_IDS = Query(
    Session, "select * from checkouts where merchant_id = :merchant_id and id = any (:ids::text[])"
)
# A session is created with its order, and its status follows from the order's unless the order was
# paid late. Lists of sessions can therefore use the indexes of orders (decision 0061). `:status`
# are statuses of orders; `:late` adds the sessions of orders that were paid late. From each status
# a page reads as many rows as it would need if all its rows had this status.
_OF_STATUSES = """
    select o.created_at, o.id, o.checkout_id
    from unnest(:status::text[]) as wanted (status)
    cross join lateral (
        select o.created_at, o.id, o.checkout_id from orders o
        where o.merchant_id = :merchant_id and o.status = wanted.status
            and o.created_at between :since and :until {orders_product} and not exists (
                select from late_payments l
                where l.merchant_id = :merchant_id and l.order_id = o.id)
        {order}
    ) o
    union all
    select o.created_at, o.id, o.checkout_id
    from late_payments l
    join orders o on o.merchant_id = :merchant_id and o.id = l.order_id
    where :late::boolean and l.merchant_id = :merchant_id
        and l.created_at between :since and :until {late_product}
"""
_OF_ALL = """
    select o.created_at, o.id, o.checkout_id from orders o
    where o.merchant_id = :merchant_id and o.created_at between :since and :until {orders_product}
    {order}
"""


def _statements(source: str, *, by_product: bool) -> ListStatements[Session]:
    product = {
        "orders_product": "and o.product_id = :product_id" if by_product else "",
        "late_product": "and l.product_id = :product_id" if by_product else "",
    }

    def page(direction: str) -> Query[Session]:
        order = f"order by o.created_at {direction}, o.id {direction}"
        rows = source.format(
            order=f"{order} limit :limit::bigint + :offset::bigint",
            **product,
        )
        return Query(
            Session,
            f"""
            select c.* from (
                select o.* from ({rows}) o {order} limit :limit::bigint offset :offset::bigint
            ) o
            join checkouts c on c.merchant_id = :merchant_id and c.id = o.checkout_id
            {order}
            """,  # noqa: S608 - interpolates constants of this program only
        )

    every = source.format(order="", **product)
    return ListStatements(
        page("desc"),
        page("asc"),
        Value(int, f"select count(*) from ({every}) o"),  # noqa: S608 - interpolates constants of this program only
    )


PAGES = {
    (): _statements(_OF_ALL, by_product=False),
    ("product_id",): _statements(_OF_ALL, by_product=True),
    ("status", "late"): _statements(_OF_STATUSES, by_product=False),
    ("status", "late", "product_id"): _statements(_OF_STATUSES, by_product=True),
}
COUNT_EXPIRED = Value(
    int,
    """
    select count(*) from (
        select 1 from checkouts where status = 'OPEN' and expires_at <= :now limit 10000
    ) due
    """,
)
OLDEST_EXPIRY = Value(int, "select min(expires_at) from checkouts where status = 'OPEN'")
# Record that staff opened a session to verify a gateway.
INSERT_GATEWAY_TEST = Command(
    """
    insert into gateway_tests (merchant_id, order_id, gateway, who, created_at)
    values (:merchant_id, :order_id, :gateway, :who, :now)
    """,
)
TEST_ACCOUNT = Value(
    str,
    """
    select gateway from gateway_tests where merchant_id = :merchant_id and order_id = :order_id
    """,
)
IS_GATEWAY_TEST = Value(
    bool,
    """
    select exists (
        select 1 from gateway_tests where merchant_id = :merchant_id and order_id = :order_id
    )
    """,
)
# Test payments of all merchants, newest first, for staff.
GATEWAY_TESTS = Query(
    OpenedTest,
    """
    select merchant_id, order_id, gateway, who, created_at from gateway_tests
    where order_id < :before order by order_id desc limit :limit
    """,
)
