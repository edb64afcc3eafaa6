"""Items, which are sold without a product of their own, such as a cart's total (decision 0088)."""

from typing import Final

from msgspec import UnsetType

from opentill import products
from opentill.checkouts.model import Item, SessionBody
from opentill.core.errors import Invalid
from opentill.http import inputs

_MAX_NAME: Final = 200


def read_item(body: SessionBody) -> Item | None:
    """Return the item of a session; None if it sells a product.

    Raises Invalid on the invalid field, such as ``item.price``.
    """
    item = body.item
    if isinstance(item, UnsetType):
        return None
    if body.product_id:
        raise Invalid("item", "item must be left out where there is a productId")
    return Item(
        name=check_name(item.name),
        amount_minor=parse_amount("price", item.price, item.currency),
        currency=item.currency,
        description=item.description or "",
        image=check_image(item.image),
    )


def check_name(name: str) -> str:
    """Return the trimmed name of an item. Raises Invalid on ``item.name``."""
    try:
        return inputs.check_name("name", name, _MAX_NAME)
    except Invalid as problem:
        raise _invalid_item(problem) from None


def parse_amount(field: str, text: str, currency: str) -> int:
    """Parse an amount of an item into minor units. Raises Invalid on the field in ``item``."""
    try:
        return products.parse_price(text, currency)
    except Invalid as problem:
        name = f"item.{field}" if problem.field == "price" else "item.currency"
        reason = (problem.reason or "").removeprefix(problem.field or "")
        raise Invalid(name, f"{name}{reason}") from None


def check_image(image: str | None) -> str | None:
    """Return the URL of an item's image. Raises Invalid on ``item.image``."""
    try:
        return inputs.check_url("image", image)
    except Invalid as problem:
        raise _invalid_item(problem) from None


def _invalid_item(problem: Invalid) -> Invalid:
    return Invalid(f"item.{problem.field}", f"item.{problem.reason}")
