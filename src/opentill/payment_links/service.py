"""What merchants do with their payment links."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import UNSET, UnsetType

from opentill import checkouts, list_counts, merchants, products
from opentill.checkouts import items
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import is_id, new_id, new_slug
from opentill.db.database import Db, Tx
from opentill.gateways.model import Gateway
from opentill.http import inputs
from opentill.http.paging import given
from opentill.merchants import Actor
from opentill.payment_links import queries
from opentill.payment_links.model import (
    LinkBody,
    LinkItemBody,
    LinkUpdate,
    NewLink,
    PaymentLink,
    Usage,
)

_LONGEST_REFERENCE = 200


async def create(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    body: LinkBody,
    now: int,
    *,
    actor: Actor | None = None,
) -> PaymentLink:
    """Make a payment link. Raises Invalid. ``actor`` is a person who does it, for the audit log."""
    currency, least, most = await _sold(tx, merchant_id, body)
    item, quantity = body.item or None, body.max_quantity or 1
    if item is not None and least != most and quantity > 1:
        reason = "maxQuantity must be 1, or left out, where the customer enters the amount"
        raise Invalid("maxQuantity", reason)
    checkouts.check_on_offer(gateways, currency, body.payment_methods)
    new = NewLink(
        merchant_id=merchant_id,
        id=new_id("plink"),
        slug=new_slug(),
        product_id=body.product_id if item is None else None,
        name=None if item is None else items.named(item.name),
        description="" if item is None else item.description or "",
        image=None if item is None else items.pictured(item.image),
        currency=None if item is None else currency,
        least_minor=None if item is None else least,
        most_minor=None if item is None else most,
        max_quantity=quantity,
        expires_at=_to_come(body.expires_at, now),
        max_uses=body.max_uses,
        success_url=inputs.web_address("successUrl", body.success_url),
        methods=body.payment_methods,
        locale=body.locale,
        client_reference=_reference(body.client_reference),
        metadata=inputs.metadata(body.metadata),
    )
    link = await queries.INSERT.one(tx, new, now=now)
    if actor is not None:
        await merchants.record_audit(tx, actor, "links add", merchant_id, link.id, now)
    return link


async def _sold(tx: Tx, merchant_id: str, body: LinkBody) -> tuple[str, int, int]:
    """Return the currency of what is sold, its least and its largest price. Raises Invalid."""
    if not isinstance(body.item, UnsetType):
        if body.product_id:
            raise Invalid("item", "item must be left out where there is a productId")
        return (body.item.currency, *_bounds(body.item))
    if not body.product_id:
        reason = "productId is required: the id of one of your active products, or else an item"
        raise Invalid("productId", reason)
    try:
        if is_id(body.product_id):
            product = await products.find(tx, merchant_id, body.product_id)
            if product.status == "ACTIVE":
                return product.currency, product.price_minor, product.price_minor
    except NotFound:
        pass
    raise Invalid("productId", "productId must be the id of one of your active products")


def _bounds(item: LinkItemBody) -> tuple[int, int]:
    if item.price is not None and item.min_amount is None and item.max_amount is None:
        price = items.minor("price", item.price, item.currency)
        return price, price
    if item.price is not None or item.min_amount is None or item.max_amount is None:
        raise Invalid("item", "item must have either a price, or minAmount and maxAmount")
    least = items.minor("minAmount", item.min_amount, item.currency)
    most = items.minor("maxAmount", item.max_amount, item.currency)
    if most <= least:
        raise Invalid("item", "item.maxAmount must be more than item.minAmount")
    return least, most


def _to_come(moment: int | None, now: int) -> int | None:
    if moment is not None and moment <= now:
        raise Invalid("expiresAt", "expiresAt must be a time to come, in Unix milliseconds")
    return moment


def _reference(text: str | None) -> str | None:
    return None if text is None else inputs.name("clientReference", text, _LONGEST_REFERENCE)


async def update(
    tx: Tx,
    merchant_id: str,
    link_id: str,
    body: LinkUpdate,
    now: int,
    *,
    actor: Actor | None = None,
) -> PaymentLink:
    """Change what was sent; sessions that are open stay. Raises Invalid and NotFound.

    ``actor`` is a person who does it, for the audit log.
    """
    expires_at = None if isinstance(body.expires_at, UnsetType) else _to_come(body.expires_at, now)
    sent = bytes(body.metadata)
    link = or_not_found(
        await queries.UPDATE.first(
            tx,
            merchant_id=merchant_id,
            id=link_id,
            active=None if isinstance(body.active, UnsetType) else body.active,
            sets_expires_at=body.expires_at is not UNSET,
            expires_at=expires_at,
            sets_max_uses=body.max_uses is not UNSET,
            max_uses=None if isinstance(body.max_uses, UnsetType) else body.max_uses,
            metadata=inputs.metadata(body.metadata) if sent else None,
            now=now,
        )
    )
    if actor is not None:
        state = "on" if link.active else "off"
        await merchants.record_audit(
            tx, actor, "links set", merchant_id, f"{link_id}: {state}", now
        )
    return link


async def find(tx: Tx, merchant_id: str, link_id: str) -> PaymentLink:
    """Return a payment link. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=link_id))


async def find_anywhere(tx: Tx, link_id: str) -> PaymentLink:
    """Return a payment link of whichever merchant, for the operator. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=link_id)
    return or_not_found(found, f"there is no payment link {link_id}")


async def search(tx: Tx, merchant_id: str | None, limit: int) -> list[PaymentLink]:
    """Return the newest links of a merchant, or of all, for the operator."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, limit=limit)


async def list_page(
    here: Db, merchant_id: str, query: queries.ListQuery
) -> tuple[list[PaymentLink], int]:
    """Return the page that a query asks for, newest first, and how many links there are."""
    rows = list_counts.Paginator(here, queries.LISTS, merchant_id, given(query))
    return await rows.page(query.page, query.size)


async def usage(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Usage]:
    """Return what has become of some links, each with an entry."""
    found = await queries.USAGE.all(tx, merchant_id=merchant_id, ids=list(ids))
    by_link = groupby(found, key=attrgetter("payment_link_id"))
    return dict.fromkeys(ids, Usage()) | {key: Usage(tuple(sales)) for key, sales in by_link}
