"""All SQL about products."""

from opentill.core.db import Command, Query, Value
from opentill.products.model import Product

INSERT = Query(
    Product,
    """
    insert into products (merchant_id, id, name, description, image, price_minor, currency, status,
        metadata, created_at, updated_at)
    values ($1, $2, $3, $4, $5, $6, $7, 'ACTIVE', $8, $9, $9)
    returning *
    """,
)
BY_ID = Query(Product, "select * from products where merchant_id = $1 and id = $2")
LOCKED = Query(Product, "select * from products where merchant_id = $1 and id = $2 for update")
UPDATE = Query(
    Product,
    """
    update products set name = $3, description = $4, image = $5, price_minor = $6, currency = $7,
        metadata = $8, updated_at = $9
    where merchant_id = $1 and id = $2
    returning *
    """,
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
