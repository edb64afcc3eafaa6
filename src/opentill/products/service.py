"""What can be done with products."""

from typing import Final

import structlog
from msgspec import UNSET

from opentill.core import money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.products import queries
from opentill.products.model import Product, ProductBody, ProductUpdate, Saved

_log: Final = structlog.get_logger()


def price_minor(price: str, currency: str) -> int:
    """Turn a price into minor units. Raises Invalid on ``currency`` or ``price``."""
    if currency not in money.EXPONENTS:
        raise Invalid("currency", "currency must be an active ISO 4217 currency code in capitals")
    try:
        minor = money.parse(price, currency)
    except ValueError as error:
        raise Invalid("price", f"price {error}") from None
    if minor <= 0:
        raise Invalid("price", "price must be at least 0.01")
    return minor


async def merchant_of(tx: Tx, product_id: str) -> str:
    """Return whose a product is, for the operator. Raises NotFound."""
    found = await queries.MERCHANT_OF.get(tx, id=product_id)
    return or_not_found(found, f"there is no product {product_id}")


async def create(tx: Tx, merchant_id: str, body: ProductBody, now: int) -> Product:
    """Make an active product. Raises Invalid."""
    product = await queries.INSERT.one(
        tx,
        merchant_id=merchant_id,
        id=new_id("prod"),
        name=inputs.name("name", body.name, 200),
        description=body.description or "",
        image=inputs.web_address("image", body.image),
        price_minor=price_minor(body.price, body.currency),
        currency=body.currency,
        metadata=inputs.metadata(body.metadata),
        now=now,
    )
    _warn(product)
    return product


def _warn(product: Saved) -> None:
    """Log exchange rates that the operator has to set before the product is sold or refunded."""
    if product.unrated:
        _log.warning(
            "product without exchange rate",
            merchant=product.merchant_id,
            product=product.id,
            currency=product.currency,
            to=product.unrated,
        )


async def find(tx: Tx, merchant_id: str, product_id: str) -> Product:
    """Return a product, archived ones too. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=product_id))


async def update(
    tx: Tx, merchant_id: str, product_id: str, body: ProductUpdate, now: int
) -> Product:
    """Change what was sent; open sessions keep what they were opened with. Raises Invalid."""
    old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
    currency = old.currency if body.currency is UNSET else body.currency
    price = money.show(old.price_minor, old.currency) if body.price is UNSET else body.price
    new = await queries.UPDATE.one(
        tx,
        merchant_id=merchant_id,
        id=product_id,
        name=old.name if body.name is UNSET else inputs.name("name", body.name, 200),
        description=old.description if body.description is UNSET else body.description or "",
        image=old.image if body.image is UNSET else inputs.web_address("image", body.image),
        price_minor=price_minor(price, currency),
        currency=currency,
        metadata=old.metadata if not bytes(body.metadata) else inputs.metadata(body.metadata),
        now=now,
    )
    _warn(new)
    return new


async def archive(tx: Tx, merchant_id: str, product_id: str, now: int) -> None:
    """Archive a product; archiving twice is fine. Raises NotFound."""
    if not await queries.ARCHIVE.run(tx, merchant_id=merchant_id, id=product_id, now=now):
        raise NotFound


async def has_any(tx: Tx, merchant_id: str) -> bool:
    """Return whether a merchant has a product, an archived one too."""
    return bool(await queries.ANY.get(tx, merchant_id=merchant_id))
