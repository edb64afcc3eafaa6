"""All SQL about products."""

from typing import Annotated

from msgspec import Meta

from opentill.core.ids import first_id
from opentill.db.query import Command, Query, Value
from opentill.http.paging import PageQuery
from opentill.list_counts import lists
from opentill.products.model import Product, Saved, Status, StoredImage

# The currencies to which a product's sessions and refunds must be converted, but for which there is
# no exchange rate.
_UNRATED = """
    array(
        select wanted.quote
        from (
            select settlement_currency as quote from merchants where id = :merchant_id
            union select 'USD'
        ) wanted
        where wanted.quote <> products.currency and not exists (
            select from exchange_rates r where r.base = products.currency and r.quote = wanted.quote
        ) and not exists (
            select from exchange_rates r where r.base = wanted.quote and r.quote = products.currency
        )
        order by wanted.quote
    ) as unrated
"""
INSERT = Query(
    Saved,
    f"""
    with products as (
        insert into products (merchant_id, id, name, description, image, price_minor, currency,
            status, metadata, created_at, updated_at)
        values (:merchant_id, :id, :name, :description, :image, :price_minor, :currency, 'ACTIVE',
            :metadata, :now, :now)
        returning *
    )
    select *, {_UNRATED} from products
    """,  # noqa: S608 - interpolates constants of this program only
)
# Create the archived product that stands in for items in a currency. If it exists, reset its
# currency, price and name.
STAND_IN = Command(
    """
    insert into products (merchant_id, id, name, description, image, price_minor, currency, status,
        metadata, created_at, updated_at)
    values (:merchant_id, :id, :name, :description, null, :price_minor, :currency, 'ARCHIVED', '{}',
        :now, :now)
    on conflict (merchant_id, id) do update set currency = excluded.currency,
        price_minor = excluded.price_minor, name = excluded.name
    """,
)
# Products that merchants created. Those that stand in for items have derived ids, which are less
# than all others (``ids.derived_id``).
_CREATED = f"id >= '{first_id('prod', 1)}'"
ANY = Value(
    bool,
    f"select exists (select from products where merchant_id = :merchant_id and {_CREATED})",  # noqa: S608 - interpolates constants of this program only
)
NEWEST_ACTIVE = Query(
    Product,
    """
    select * from products where merchant_id = :merchant_id and status = 'ACTIVE'
    order by created_at desc, id desc limit 1
    """,
)
BY_ID = Query(Product, "select * from products where merchant_id = :merchant_id and id = :id")
OF_IDS = Query(
    Product,
    "select * from products where merchant_id = :merchant_id and id = any (:ids::text[])",
)
LOCKED = Query(
    Product, "select * from products where merchant_id = :merchant_id and id = :id for update"
)
UPDATE = Query(
    Saved,
    f"""
    update products set name = :name, description = :description, image = :image,
        price_minor = :price_minor, currency = :currency, metadata = :metadata, updated_at = :now
    where merchant_id = :merchant_id and id = :id
    returning *, {_UNRATED}
    """,  # noqa: S608 - interpolates constants of this program only
)
ARCHIVE = Command(
    """
    update products
    set status = 'ARCHIVED',
        updated_at = case when status = 'ACTIVE' then :now::bigint else updated_at end
    where merchant_id = :merchant_id and id = :id
    """,
)

RESTORE = Command(
    """
    update products set status = 'ACTIVE', updated_at = :now
    where merchant_id = :merchant_id and id = :id
    """,
)

# Products with a part of the name, the exact id or its end, among the newest `:scanned`. `:like` is
# a pattern.
SEARCH = Query(
    Product,
    """
    select * from (
        select * from products where merchant_id = :merchant_id
        order by created_at desc, id desc limit :scanned
    ) newest
    where id = :text or name ilike :like
        or length(:text) >= 6 and right(id, length(:text)) = lower(:text)
    order by created_at desc, id desc limit :limit
    """,
)

# Products of all merchants with some words in their names, the last of them perhaps unfinished.
# A text without words finds none.
SEARCH_ALL = Query(
    Product,
    """
    select * from products
    where to_tsvector('simple', name) @@ (
        select case when numnode(words) > 0 then (words::text || ':*')::tsquery end
        from plainto_tsquery('simple', :text) as words)
    order by created_at desc, id desc limit :limit
    """,
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which products to list."""

    status: Annotated[Status, Meta(description="ACTIVE or ARCHIVED")] | None = None


LISTS = lists(Product, "products", ListQuery, only=_CREATED)

# For the operator, who has only the product's id: one index lookup per merchant.
MERCHANT_OF = Value(
    str,
    """
    select m.id from merchants m
    cross join lateral (select from products where merchant_id = m.id and id = :id) p
    """,
)
IMAGE = Query(
    StoredImage,
    "select * from product_images where merchant_id = :merchant_id and sha256 = :sha256",
)
COUNT_IMAGES = Value(int, "select count(*) from product_images where merchant_id = :merchant_id")
INSERT_IMAGE = Command(
    """
    insert into product_images (merchant_id, sha256, media_type, width, height, content, created_at)
    values (:merchant_id, :sha256, :media_type, :width, :height, :content, :created_at)
    on conflict (merchant_id, sha256) do nothing
    """,
)
