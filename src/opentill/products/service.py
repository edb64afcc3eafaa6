"""Creating, changing, archiving and reading products."""

from collections.abc import Sequence
from typing import Final

import msgspec
import structlog
from msgspec import UNSET

from opentill import list_counts, merchants
from opentill.core import money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import derived_id, first_id, new_id
from opentill.db.database import Db, Tx
from opentill.db.query import like
from opentill.http import inputs
from opentill.http.paging import active_filters
from opentill.merchants import Actor
from opentill.products import queries
from opentill.products.model import Outdated, Product, ProductBody, ProductUpdate, Saved

_log: Final = structlog.get_logger()
MOST_FOUND: Final = 200  # products that a search returns
_SCANNED: Final = 10_000  # newest products of a merchant that a search reads: some milliseconds
_CHANGEABLE: Final = ("name", "description", "image", "price_minor", "currency", "metadata")


def parse_price(price: str, currency: str) -> int:
    """Parse a price into minor units. Raises Invalid on ``currency`` or ``price``."""
    if currency not in money.EXPONENTS:
        raise Invalid("currency", "currency must be an active ISO 4217 currency code in capitals")
    try:
        minor = money.parse(price, currency)
    except ValueError as error:
        raise Invalid("price", f"price {error}") from None
    if minor <= 0:
        raise Invalid("price", "price must be at least 0.01")
    return minor


async def find_merchant_id(tx: Tx, product_id: str) -> str:
    """Return the merchant of a product, for the operator. Raises NotFound."""
    merchant_id = await queries.MERCHANT_OF.get(tx, id=product_id)
    return or_not_found(merchant_id, f"there is no product {product_id}")


def check(body: ProductBody) -> dict[str, str | int | None]:
    """Return the values of the columns of a product. Raises Invalid."""
    return {
        "name": inputs.check_name("name", body.name, 200),
        "description": body.description or "",
        "image": inputs.check_url("image", body.image),
        "price_minor": parse_price(body.price, body.currency),
        "currency": body.currency,
        "metadata": inputs.check_metadata(body.metadata),
    }


async def create(
    tx: Tx, merchant_id: str, body: ProductBody, now: int, *, actor: Actor | None = None
) -> Product:
    """Create an active product. Raises Invalid.

    ``actor`` is the person for the audit log; None: no entry.
    """
    values = check(body)
    product = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=new_id("prod"), **values, now=now
    )
    if actor is not None:
        await merchants.record_audit(tx, actor, "products add", merchant_id, product.id, now)
    _warn(product)
    return product


def _warn(product: Saved) -> None:
    """Log the exchange rates that the operator must set before the product is sold or refunded."""
    if product.unrated:
        _log.warning(
            "product without exchange rate",
            merchant=product.merchant_id,
            product=product.id,
            currency=product.currency,
            to=product.unrated,
        )


def stand_in_id(merchant_id: str, currency: str) -> str:
    """Return the id of the product that stands in for a merchant's items in a currency.

    The id is derived from merchant and currency, so that it needs no lookup (decision 0088).
    """
    return derived_id("prod", f"items of {merchant_id} in {currency}")


def is_stand_in(product_id: str) -> bool:
    """Whether a product only stands in for items, so that it has no page of interest.

    The ids of such products are derived, and less than all others.
    """
    return product_id < first_id("prod", 1)


async def ensure_stand_in(tx: Tx, merchant_id: str, currency: str, now: int) -> None:
    """Create the stand-in product, archived, or restore its values.

    Raises Invalid on ``item.currency``.
    """
    if currency not in money.EXPONENTS:
        reason = "item.currency must be an active ISO 4217 currency code in capitals"
        raise Invalid("item.currency", reason)
    await queries.STAND_IN.run(
        tx,
        merchant_id=merchant_id,
        id=stand_in_id(merchant_id, currency),
        name=f"Items ({currency})",
        description="Stands for what is sold without a product. Each order has a name and an "
        "amount of its own; this price is nobody's.",
        price_minor=parse_price("0.01" if money.exponent(currency) else "1.00", currency),
        currency=currency,
        now=now,
    )


async def find(tx: Tx, merchant_id: str, product_id: str) -> Product:
    """Return a product, archived or not. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=product_id))


async def find_many(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Product]:
    """Return the merchant's products among the given ids, by id."""
    rows = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(ids))
    return {product.id: product for product in rows}


async def list_page(
    db: Db, merchant_id: str, query: queries.ListQuery
) -> tuple[list[Product], int]:
    """Return the page that a query asks for, newest first, and how many products there are.

    Products that stand in for items are not among them.
    """
    rows = list_counts.Paginator(db, queries.LISTS, merchant_id, active_filters(query))
    return await rows.page(query.page, query.size)


async def list_newest(db: Db, merchant_id: str, most: int) -> list[Product]:
    """Return at most so many products, newest first, without those that stand in for items."""
    return await list_counts.Paginator(db, queries.LISTS, merchant_id, {}).newest(most)


async def search(tx: Tx, merchant_id: str, text: str) -> list[Product]:
    """Return products with a text in their names or as their id, newest first, at most 200."""
    return await queries.SEARCH.all(
        tx,
        merchant_id=merchant_id,
        text=text,
        like=like(text),
        scanned=_SCANNED,
        limit=MOST_FOUND,
    )


async def search_all(tx: Tx, text: str, limit: int) -> list[Product]:
    """Return products of all merchants with the words of a text in their names, newest first."""
    return await queries.SEARCH_ALL.all(tx, text=text, limit=limit)


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
    """Set the fields that were sent; open sessions keep their values.

    ``seen`` is the ``updated_at`` (Unix ms) of the version that the caller has read, None for any.
    ``actor`` is the person for the audit log; None: no entry. Raises Invalid, NotFound, and
    Outdated if the product has changed since and the fields would still change it.
    """
    old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
    new_values = _with_changes(old, body)
    changed = [name for name in _CHANGEABLE if getattr(old, name) != getattr(new_values, name)]
    if seen is not None and not changed:
        return old
    if seen not in {None, old.updated_at}:
        raise Outdated
    values = {name: getattr(new_values, name) for name in _CHANGEABLE}
    updated = await queries.UPDATE.one(
        tx, merchant_id=merchant_id, id=product_id, **values, now=now
    )
    if actor is not None:
        subject = f"{product_id}: {', '.join(changed)}"
        await merchants.record_audit(tx, actor, "products set", merchant_id, subject, now)
    _warn(updated)
    return updated


def _with_changes(old: Product, body: ProductUpdate) -> Product:
    """Return a product with the fields that were sent. Raises Invalid."""
    currency = old.currency if body.currency is UNSET else body.currency
    price = money.show(old.price_minor, old.currency) if body.price is UNSET else body.price
    return msgspec.structs.replace(
        old,
        name=old.name if body.name is UNSET else inputs.check_name("name", body.name, 200),
        description=old.description if body.description is UNSET else body.description or "",
        image=old.image if body.image is UNSET else inputs.check_url("image", body.image),
        price_minor=parse_price(price, currency),
        currency=currency,
        metadata=old.metadata if not bytes(body.metadata) else inputs.check_metadata(body.metadata),
    )


async def archive(
    tx: Tx, merchant_id: str, product_id: str, now: int, *, actor: Actor | None = None
) -> None:
    """Archive a product. Idempotent. Raises NotFound.

    ``actor`` is the person for the audit log; None: no entry.
    """
    if actor is not None:
        old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
        if old.status == "ARCHIVED":
            return
        await merchants.record_audit(tx, actor, "products archive", merchant_id, product_id, now)
    if not await queries.ARCHIVE.run(tx, merchant_id=merchant_id, id=product_id, now=now):
        raise NotFound


async def restore(tx: Tx, merchant_id: str, product_id: str, now: int, *, actor: Actor) -> None:
    """Make an archived product active again. Idempotent.

    Raises NotFound, also for a product that stands in for items, which is never sold itself.
    """
    old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=product_id))
    if is_stand_in(product_id):
        raise NotFound
    if old.status == "ACTIVE":
        return
    await merchants.record_audit(tx, actor, "products restore", merchant_id, product_id, now)
    await queries.RESTORE.run(tx, merchant_id=merchant_id, id=product_id, now=now)


async def has_any(tx: Tx, merchant_id: str) -> bool:
    """Whether a merchant has created any product, archived ones included."""
    return bool(await queries.ANY.get(tx, merchant_id=merchant_id))


async def find_newest_active(tx: Tx, merchant_id: str) -> Product | None:
    """Return the active product that a merchant created last."""
    return await queries.NEWEST_ACTIVE.first(tx, merchant_id=merchant_id)
