"""Items: what is sold without a product of its own, such as a cart's total (decision 0088)."""

from typing import Final

from msgspec import UnsetType

from opentill import products
from opentill.checkouts.model import Item, SessionBody
from opentill.core.errors import Invalid
from opentill.http import inputs

_LONGEST_NAME: Final = 200


def of_body(body: SessionBody) -> Item | None:
    """Return the item that a session is opened for, None if it is for a product.

    Raises Invalid on ``item``, whose reason says which of its fields is wrong.
    """
    given = body.item
    if isinstance(given, UnsetType):
        return None
    if body.product_id:
        raise Invalid("item", "item must be left out where there is a productId")
    return Item(
        name=named(given.name),
        amount_minor=minor("price", given.price, given.currency),
        currency=given.currency,
        description=given.description or "",
        image=pictured(given.image),
    )


def named(name: str) -> str:
    """Return the name of an item, trimmed. Raises Invalid on ``item``."""
    try:
        return inputs.check_name("name", name, _LONGEST_NAME)
    except Invalid as problem:
        raise _of_item(problem) from None


def minor(field: str, text: str, currency: str) -> int:
    """Return an amount of an item in minor units. Raises Invalid on ``item``."""
    try:
        return products.price_minor(text, currency)
    except Invalid as problem:
        name = field if problem.field == "price" else "currency"
        reason = (problem.reason or "").removeprefix(problem.field or "")
        raise Invalid("item", f"item.{name}{reason}") from None


def pictured(image: str | None) -> str | None:
    """Return the address of an item's picture. Raises Invalid on ``item``."""
    try:
        return inputs.check_url("image", image)
    except Invalid as problem:
        raise _of_item(problem) from None


def _of_item(problem: Invalid) -> Invalid:
    return Invalid("item", f"item.{problem.reason}")
