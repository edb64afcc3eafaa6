"""Products: what a merchant sells."""

from opentill.products.model import Product, ProductBody
from opentill.products.service import archive, create, has_any, merchant_of

__all__ = ["Product", "ProductBody", "archive", "create", "has_any", "merchant_of"]
