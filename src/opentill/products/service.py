"""What can be done with products."""

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from msgspec import UNSET

from opentill import list_counts, merchants
from opentill.core import money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import derived_id, new_id
from opentill.db.database import Db, Tx
from opentill.http import inputs
from opentill.http.paging import active_filters
from opentill.merchants import Actor
from opentill.products import queries
from opentill.products.model import Outdated, Product, ProductBody, ProductUpdate, Saved

_log: Final = structlog.get_logger()
_CHANGEABLE: Final = ("name", "description", "image", "price_minor", "currency", "metadata")


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


async def create(
    tx: Tx, merchant_id: str, body: ProductBody, now: int, *, actor: Actor | None = None
) -> Product:
    """Make an active product. Raises Invalid.

    ``actor`` is a person who does it, for the audit log.
    """
    product = await queries.INSERT.one(
        tx,
        merchant_id=merchant_id,
        id=new_id("prod"),
        name=inputs.check_name("name", body.name, 200),
        description=body.description or "",
        image=inputs.check_url("image", body.image),
        price_minor=price_minor(body.price, body.currency),
        currency=body.currency,
        metadata=inputs.check_metadata(body.metadata),
        now=now,
    )
    if actor is not None:
        await merchants.record_audit(tx, actor, "products add", merchant_id, product.id, now)
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


def stand_in_id(merchant_id: str, currency: str) -> str:
    """Return the id of the product that a merchant's items in a currency stand on.

    It is always the same, so that nothing need be looked up to know it (decision 0088).
    """
    return derived_id("prod", f"items of {merchant_id} in {currency}")


async def stand_in(tx: Tx, merchant_id: str, currency: str, now: int) -> None:
    """Make that product, archived, or put it right. Raises Invalid on ``item``."""
    if currency not in money.EXPONENTS:
        raise Invalid("item", "item.currency must be an active ISO 4217 currency code in capitals")
    await queries.STAND_IN.run(
        tx,
        merchant_id=merchant_id,
        id=stand_in_id(merchant_id, currency),
        name=f"Items ({currency})",
        description="Stands for what is sold without a product. Each order has a name and an "
        "amount of its own; this price is nobody's.",
        price_minor=price_minor("0.01" if money.exponent(currency) else "1.00", currency),
        currency=currency,
        now=now,
    )


async def find(tx: Tx, merchant_id: str, product_id: str) -> Product:
    """Return a product, archived ones too. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=product_id))


async def of_ids(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Product]:
    """Return those of some products that a merchant has, by their ids."""
    found = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(ids))
    return {product.id: product for product in found}


async def list_page(
    here: Db, merchant_id: str, query: queries.ListQuery
) -> tuple[list[Product], int]:
    """Return the page that a query asks for, newest first, and how many products there are."""
    rows = list_counts.Paginator(here, queries.LISTS, merchant_id, active_filters(query))
    return await rows.page(query.page, query.size)


async def update(
    tx: Tx,
    merchant_id: str,
    product_id: str,
    body: ProductUpdate,
    now: int,
    *,
    seen: int | None = None,
    actor: Actor | None = None,
) -> Product:
    """Change what was sent; open sessions keep what they were opened with.

    ``seen`` is the ``updated_at`` (Unix ms) of what a person saw: if the product has changed since,
    it stays as it is, unless there is nothing to change any more. ``actor`` is that person, for the
    audit log. Raises Invalid, NotFound and Outdated.
    """
    old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
    wanted = _wanted(old, body)
    changed = [name for name in _CHANGEABLE if getattr(old, name) != getattr(wanted, name)]
    if seen is not None and not changed:
        return old
    if seen not in {None, old.updated_at}:
        raise Outdated
    values = {name: getattr(wanted, name) for name in _CHANGEABLE}
    new = await queries.UPDATE.one(tx, merchant_id=merchant_id, id=product_id, **values, now=now)
    if actor is not None:
        subject = f"{product_id}: {', '.join(changed)}"
        await merchants.record_audit(tx, actor, "products set", merchant_id, subject, now)
    _warn(new)
    return new


def _wanted(old: Product, body: ProductUpdate) -> Product:
    """Return a product with the changes that were sent. Raises Invalid."""
    currency = old.currency if body.currency is UNSET else body.currency
    price = money.show(old.price_minor, old.currency) if body.price is UNSET else body.price
    return msgspec.structs.replace(
        old,
        name=old.name if body.name is UNSET else inputs.check_name("name", body.name, 200),
        description=old.description if body.description is UNSET else body.description or "",
        image=old.image if body.image is UNSET else inputs.check_url("image", body.image),
        price_minor=price_minor(price, currency),
        currency=currency,
        metadata=old.metadata if not bytes(body.metadata) else inputs.check_metadata(body.metadata),
    )


async def archive(
    tx: Tx, merchant_id: str, product_id: str, now: int, *, actor: Actor | None = None
) -> None:
    """Archive a product; archiving twice is fine. Raises NotFound.

    ``actor`` is a person who does it, for the audit log.
    """
    if actor is not None:
        old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
        if old.status == "ARCHIVED":
            return
        await merchants.record_audit(tx, actor, "products archive", merchant_id, product_id, now)
    if not await queries.ARCHIVE.run(tx, merchant_id=merchant_id, id=product_id, now=now):
        raise NotFound


async def has_any(tx: Tx, merchant_id: str) -> bool:
    """Return whether a merchant has a product, an archived one too."""
    return bool(await queries.ANY.get(tx, merchant_id=merchant_id))


async def newest_active(tx: Tx, merchant_id: str) -> Product | None:
    """Return the product that a merchant has made last, of those on sale."""
    return await queries.NEWEST_ACTIVE.first(tx, merchant_id=merchant_id)
