"""Products: what a merchant sells."""

from opentill.products.model import Outdated, Product, ProductBody, ProductUpdate, Status
from opentill.products.queries import ListQuery as ProductsQuery
from opentill.products.service import (
    archive,
    create,
    ensure_stand_in,
    find,
    find_many,
    find_merchant_id,
    find_newest_active,
    has_any,
    is_stand_in,
    list_newest,
    list_page,
    parse_price,
    restore,
    search,
    search_all,
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
    "ensure_stand_in",
    "find",
    "find_many",
    "find_merchant_id",
    "find_newest_active",
    "has_any",
    "is_stand_in",
    "list_newest",
    "list_page",
    "parse_price",
    "restore",
    "search",
    "search_all",
    "stand_in_id",
    "update",
]
