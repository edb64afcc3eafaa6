"""All SQL about products."""

from opentill.core.db import Command, Query, Value
from opentill.products.model import Product, Saved

# The currencies that there is no rate to, of those that a product's sessions and refunds need.
_UNRATED = """
    array(
        select wanted.quote
        from (
            select settlement_currency as quote from merchants where id = $1 union select 'USD'
        ) wanted
        where wanted.quote <> products.currency and not exists (
            select from rates where base = products.currency and rates.quote = wanted.quote
        ) and not exists (
            select from rates where base = wanted.quote and rates.quote = products.currency
        )
        order by wanted.quote
    ) as unrated
"""
INSERT = Query(
    Saved,
    f"""
    insert into products (merchant_id, id, name, description, image, price_minor, currency, status,
        metadata, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, 'ACTIVE', $8, $9, $9)
    returning *, {_UNRATED}
    """,  # noqa: S608 - a part that is a constant of ours
)
BY_ID = Query(Product, "select * from products where merchant_id = $1 and id = $2")
LOCKED = Query(Product, "select * from products where merchant_id = $1 and id = $2 for update")
UPDATE = Query(
    Saved,
    f"""
    update products set name = $3, description = $4, image = $5, price_minor = $6, currency = $7,
        metadata = $8, updated_at = $9
    where merchant_id = $1 and id = $2
    returning *, {_UNRATED}
    """,  # noqa: S608 - a part that is a constant of ours
)
ARCHIVE = Command(
    """
    update products
    set status = 'ARCHIVED',
        updated_at = case status when 'ACTIVE' then $3::bigint else updated_at end
    where merchant_id = $1 and id = $2
    """,
)
LIST = Query(
    Product,
    """
    select * from products where merchant_id = $1
    order by created_at desc, id desc limit $2 offset $3
    """,
)
LIST_BY_STATUS = Query(
    Product,
    """
    select * from products where merchant_id = $1 and status = $4
    order by created_at desc, id desc limit $2 offset $3
    """,
)
COUNT = Value(int, "select count(*) from products where merchant_id = $1")
COUNT_BY_STATUS = Value(int, "select count(*) from products where merchant_id = $1 and status = $2")
