"""All SQL about payment links."""

from typing import Annotated, Final

from msgspec import Meta

from opentill.db.query import Command, Query, Value
from opentill.http.fields import meaning
from opentill.http.paging import PageQuery
from opentill.list_counts import lists
from opentill.payment_links.model import PaidUse, PaymentLink, Sales

INSERT = Query(
    PaymentLink,
    """
    with listed as (
        insert into directory (id, merchant_id) values (:slug, :merchant_id)
    )
    insert into payment_links (merchant_id, id, slug, active, product_id, name, description, image,
        currency, least_minor, most_minor, max_quantity, expires_at, max_uses, success_url, methods,
        locale, client_reference, metadata, opened, created_at, updated_at)
    values (:merchant_id, :id, :slug, true, :product_id, :name, :description, :image, :currency,
        :least_minor, :most_minor, :max_quantity, :expires_at, :max_uses, :success_url, :methods,
        :locale, :client_reference, :metadata, 0, :now, :now)
    returning *
    """,
)
BY_ID = Query(
    PaymentLink, "select * from payment_links where merchant_id = :merchant_id and id = :id"
)
BY_SLUG = Query(
    PaymentLink, "select * from payment_links where merchant_id = :merchant_id and slug = :slug"
)
# For the operator, who has only the link's id: one index lookup per merchant.
ANYWHERE = Query(
    PaymentLink,
    """
    select l.* from merchants m
    cross join lateral (select * from payment_links where merchant_id = m.id and id = :id) l
    """,
)
# For the operator: links of one merchant or of all, newest first.
SEARCH = Query(
    PaymentLink,
    """
    select * from payment_links
    where (:merchant_id::text is null or merchant_id = :merchant_id)
    order by created_at desc, id desc limit :limit
    """,
)
# Links with a part of the name or of the merchant's own number, with an exact id or slug, or for
# one of some products, among the newest `:scanned`. `:like` is a pattern.
MATCHING = Query(
    PaymentLink,
    """
    select * from (
        select * from payment_links where merchant_id = :merchant_id
        order by created_at desc, id desc limit :scanned
    ) newest
    where id = :text or slug = :slug
        or length(:slug) >= 6 and (starts_with(slug, :slug) or right(id, 6) = right(:slug, 6))
        or name ilike :like or client_reference ilike :like
        or product_id = any (:product_ids::text[])
    order by created_at desc, id desc limit :limit
    """,
)
LOCKED = Query(
    PaymentLink,
    "select * from payment_links where merchant_id = :merchant_id and id = :id for update",
)
UPDATE = Query(
    PaymentLink,
    """
    update payment_links set active = :active, name = :name, description = :description,
        max_quantity = :max_quantity, expires_at = :expires_at, max_uses = :max_uses,
        success_url = :success_url, client_reference = :client_reference, metadata = :metadata,
        updated_at = :now
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# Counts a session that is about to be opened. Writing the link's row makes concurrent openings wait
# and then count this session too, at any isolation level.
TAKE = Query(
    PaymentLink,
    """
    update payment_links set opened = opened + 1
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
INSERT_USE = Command(
    """
    insert into payment_link_uses (merchant_id, payment_link_id, order_id, checkout_id, state,
        amount_minor, currency, created_at, visitor)
    values (:merchant_id, :payment_link_id, :order_id, :checkout_id, 'OPEN', :amount_minor,
        :currency, :now, :visitor)
    """,
)
# The number of uses that a visitor holds: sessions that are neither paid nor ended.
HELD_BY = Value(
    int,
    """
    select count(*) from payment_link_uses u
    join orders o on o.merchant_id = :merchant_id and o.id = u.order_id
    where u.merchant_id = :merchant_id and u.payment_link_id = :payment_link_id
        and u.state = 'OPEN' and u.visitor = :visitor and o.paid_at is null
        and o.status in ('PENDING', 'CREATING')
    """,
)
# Uses whose sessions nobody has tried to pay since :before. The order's ``updated_at`` is the time
# of the last attempt. LOCK_IDLE checks it again once the order is locked.
_IDLE: Final = """
    from payment_link_uses u
    join orders o on o.merchant_id = :merchant_id and o.id = u.order_id
    where u.merchant_id = :merchant_id and u.payment_link_id = :payment_link_id
        and u.state = 'OPEN' and u.created_at <= :before and o.paid_at is null
        and o.status = 'PENDING' and o.updated_at <= :before
        and not exists (
            select 1 from payment_attempts a
            where a.merchant_id = :merchant_id and a.order_id = u.order_id
                and a.status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING')
        )
"""
HAS_IDLE = Value(bool, f"select exists (select 1 {_IDLE})")
_FIRST_IDLE: Final = f"select u.checkout_id {_IDLE} order by u.created_at, u.order_id limit 1"
LOCK_IDLE = Value(str, f"{_FIRST_IDLE} for update of o skip locked")
# Like LOCK_IDLE, if other transactions have locked all these orders: waits for the one that ends or
# pays the first order.
AWAIT_IDLE = Value(str, f"{_FIRST_IDLE} for update of o")
# The usage of links by currency. It consists of the sums of recorded payments, of the sessions that
# the worker has not recorded yet (their orders show what became of them), and of the sessions that
# were paid after they had ended (the small table `late_payments` has their orders).
USAGE = Query(
    Sales,
    """
    select payment_link_id, currency, sum(open)::bigint as open, sum(paid)::bigint as paid,
        sum(paid_minor)::bigint as paid_minor
    from (
        select payment_link_id, currency, 0 as open, paid, paid_minor from payment_link_sales
        where merchant_id = :merchant_id and payment_link_id = any (:ids::text[])
        union all
        select u.payment_link_id, u.currency, (o.paid_at is null)::int,
            (o.paid_at is not null)::int, case when o.paid_at is null then 0 else u.amount_minor end
        from payment_link_uses u
        join orders o on o.merchant_id = :merchant_id and o.id = u.order_id
        where u.merchant_id = :merchant_id and u.payment_link_id = any (:ids::text[])
            and u.state = 'OPEN'
            and (o.paid_at is not null or o.status in ('PENDING', 'CREATING'))
        union all
        select u.payment_link_id, u.currency, 0, 1, u.amount_minor
        from late_payments late
        join payment_link_uses u on u.merchant_id = :merchant_id and u.order_id = late.order_id
        where late.merchant_id = :merchant_id and u.payment_link_id = any (:ids::text[])
            and u.state = 'ENDED'
    ) used
    group by payment_link_id, currency
    order by payment_link_id, paid desc, currency
    """,
)
# The newest paid sessions of a link, from the same three sources as USAGE; each uses an index.
NEWEST_PAID = Query(
    PaidUse,
    """
    select order_id from (
        (select order_id, created_at from payment_link_uses
            where merchant_id = :merchant_id and payment_link_id = :payment_link_id
                and state = 'PAID'
            order by created_at desc, order_id desc limit :limit)
        union all
        (select u.order_id, u.created_at from payment_link_uses u
            join orders o on o.merchant_id = :merchant_id and o.id = u.order_id
            where u.merchant_id = :merchant_id and u.payment_link_id = :payment_link_id
                and u.state = 'OPEN' and o.paid_at is not null
            order by u.created_at desc, u.order_id desc limit :limit)
        union all
        (select u.order_id, u.created_at from late_payments late
            join payment_link_uses u
                on u.merchant_id = :merchant_id and u.order_id = late.order_id
            where late.merchant_id = :merchant_id and u.payment_link_id = :payment_link_id
                and u.state = 'ENDED'
            order by u.created_at desc, u.order_id desc limit :limit)
    ) paid
    order by created_at desc, order_id desc limit :limit
    """,
)
# Records the end of up to :limit sessions of links whose orders are paid or closed.
NOTE_ENDED = Command(
    """
    update payment_link_uses u
    set state = case when ended.paid_at is null then 'ENDED' else 'PAID' end, visitor = null
    from (
        select seen.merchant_id, seen.order_id, o.paid_at from payment_link_uses seen
        join orders o on o.merchant_id = seen.merchant_id and o.id = seen.order_id
        where seen.state = 'OPEN'
            and (o.paid_at is not null or o.status not in ('PENDING', 'CREATING'))
        order by seen.created_at limit :limit
    ) ended
    where u.merchant_id = ended.merchant_id and u.order_id = ended.order_id and u.state = 'OPEN'
    """,
)
# Whether a link opened the session of an order.
IS_USE = Value(
    bool,
    """
    select payment_link_id = :payment_link_id from payment_link_uses
    where merchant_id = :merchant_id and order_id = :order_id
    """,
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which payment links to list."""

    active: Annotated[
        Annotated[bool, Meta(description="true or false")] | None,
        meaning("Only links that are switched on, or only those that are switched off."),
    ] = None


LISTS = lists(PaymentLink, "payment_links", ListQuery)
