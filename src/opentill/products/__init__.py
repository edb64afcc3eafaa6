"""Products: what a merchant sells."""

from opentill.products.model import Outdated, Product, ProductBody, ProductUpdate, Status
from opentill.products.queries import ListQuery as ProductsQuery
from opentill.products.service import (
    archive,
    create,
    find,
    has_any,
    list_page,
    merchant_of,
    newest_active,
    of_ids,
    price_minor,
    stand_in,
    stand_in_id,
    update,
)

__all__ = [
    "Outdated",
    "Product",
    "ProductBody",
    "ProductUpdate",
    "ProductsQuery",
    "Status",
    "archive",
    "create",
    "find",
    "has_any",
    "list_page",
    "merchant_of",
    "newest_active",
    "of_ids",
    "price_minor",
    "stand_in",
    "stand_in_id",
    "update",
]
