"""Creating, changing and reading payment links."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from opentill import checkouts, list_counts, merchants, products
from opentill.checkouts import items
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import is_id, new_id, new_slug
from opentill.db.database import Db, Tx
from opentill.db.query import like
from opentill.gateways.model import Gateway
from opentill.http import inputs
from opentill.http.paging import active_filters
from opentill.merchants import Actor
from opentill.payment_links import queries
from opentill.payment_links.model import (
    LinkBody,
    LinkItemBody,
    LinkItemUpdate,
    LinkUpdate,
    NewLink,
    Outdated,
    PaymentLink,
    Usage,
)

MOST_FOUND: Final = 200  # links that a search returns
_SCANNED: Final = 10_000  # newest links of a merchant that a search reads: some milliseconds
_MAX_REFERENCE = 200
_CHANGEABLE: Final = (
    "active", "name", "description", "max_quantity", "expires_at", "max_uses", "success_url",
    "client_reference", "metadata",
)  # fmt: skip


async def check(
    tx: Tx, gateways: Mapping[str, Gateway], merchant_id: str, body: LinkBody, now: int
) -> NewLink:
    """Return the payment link to store. Raises Invalid."""
    currency, least, most = await _find_price(tx, merchant_id, body)
    item, quantity = body.item or None, body.max_quantity or 1
    _check_quantity(least, most, quantity)
    checkouts.check_methods_offered(gateways, merchant_id, currency, body.payment_methods)
    return NewLink(
        merchant_id=merchant_id,
        id=new_id("plink"),
        slug=new_slug(),
        product_id=body.product_id if item is None else None,
        name=None if item is None else items.check_name(item.name),
        description="" if item is None else item.description or "",
        image=None if item is None else items.check_image(item.image),
        currency=None if item is None else currency,
        least_minor=None if item is None else least,
        most_minor=None if item is None else most,
        max_quantity=quantity,
        expires_at=_check_future(body.expires_at, now),
        max_uses=body.max_uses,
        success_url=inputs.check_url("successUrl", body.success_url),
        methods=body.payment_methods,
        locale=body.locale,
        client_reference=_reference(body.client_reference),
        metadata=inputs.check_metadata(body.metadata),
    )


async def create(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    body: LinkBody,
    now: int,
    *,
    actor: Actor | None = None,
) -> PaymentLink:
    """Create a payment link. Raises Invalid. ``actor`` is for the audit log; None: no entry."""
    new = await check(tx, gateways, merchant_id, body, now)
    link = await queries.INSERT.one(tx, new, now=now)
    if actor is not None:
        await merchants.record_audit(tx, actor, "links add", merchant_id, link.id, now)
    return link


async def _find_price(tx: Tx, merchant_id: str, body: LinkBody) -> tuple[str, int, int]:
    """Return the currency, the lowest and the highest price of a new link. Raises Invalid."""
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
        price = items.parse_amount("price", item.price, item.currency)
        return price, price
    if item.price is not None or item.min_amount is None or item.max_amount is None:
        raise Invalid("item", "item must have either a price, or minAmount and maxAmount")
    least = items.parse_amount("minAmount", item.min_amount, item.currency)
    most = items.parse_amount("maxAmount", item.max_amount, item.currency)
    if most <= least:
        raise Invalid("item.maxAmount", "item.maxAmount must be more than item.minAmount")
    return least, most


def _check_quantity(least: int | None, most: int | None, quantity: int) -> None:
    """Check that the quantity is 1 if the customer enters the amount. Raises Invalid."""
    if least != most and quantity > 1:
        reason = "maxQuantity must be 1, or left out, where the customer enters the amount"
        raise Invalid("maxQuantity", reason)


def _check_future(moment: int | None, now: int) -> int | None:
    if moment is not None and moment <= now:
        raise Invalid("expiresAt", "expiresAt must be a time to come, in Unix milliseconds")
    return moment


def _reference(text: str | None) -> str | None:
    return None if text is None else inputs.check_name("clientReference", text, _MAX_REFERENCE)


async def update(
    tx: Tx,
    merchant_id: str,
    link_id: str,
    body: LinkUpdate,
    now: int,
    *,
    seen: int | None = None,
    actor: Actor | None = None,
) -> PaymentLink:
    """Set the fields that were sent; open sessions keep their values.

    ``seen`` is the ``updated_at`` (Unix ms) of the version that the caller has read, None for any.
    ``actor`` is the person for the audit log; None: no entry. Raises Invalid, NotFound, and
    Outdated if the link has changed since and the fields would still change it.
    """
    old = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=link_id))
    new_values = check_changes(old, body, now)
    changed = [name for name in _CHANGEABLE if getattr(old, name) != getattr(new_values, name)]
    if seen is not None and not changed:
        return old
    if seen not in {None, old.updated_at}:
        raise Outdated
    values = {name: getattr(new_values, name) for name in _CHANGEABLE}
    link = await queries.UPDATE.one(tx, merchant_id=merchant_id, id=link_id, **values, now=now)
    if actor is not None:
        state = [] if body.active is UNSET else ["on" if link.active else "off"]
        changes = ", ".join([*state, *(name for name in changed if name != "active")])
        subject = f"{link_id}: {changes}"
        await merchants.record_audit(tx, actor, "links set", merchant_id, subject, now)
    return link


def check_changes(old: PaymentLink, body: LinkUpdate, now: int) -> PaymentLink:
    """Return a link with the fields that were sent. Raises Invalid."""
    changes: dict[str, Any] = {
        name: sent
        for name in ("active", "max_quantity", "max_uses")
        if (sent := getattr(body, name)) is not UNSET
    }
    if not isinstance(body.expires_at, UnsetType):
        same = body.expires_at == old.expires_at
        changes["expires_at"] = old.expires_at if same else _check_future(body.expires_at, now)
    if not isinstance(body.success_url, UnsetType):
        changes["success_url"] = inputs.check_url("successUrl", body.success_url)
    if not isinstance(body.client_reference, UnsetType):
        changes["client_reference"] = _reference(body.client_reference)
    if not isinstance(body.item, UnsetType):
        changes |= _item_changes(old, body.item)
    if bytes(body.metadata):
        changes["metadata"] = inputs.check_metadata(body.metadata)
    changed = msgspec.structs.replace(old, **changes)
    _check_quantity(changed.least_minor, changed.most_minor, changed.max_quantity)
    return changed


def _item_changes(old: PaymentLink, item: LinkItemUpdate) -> dict[str, str]:
    if old.product_id is not None:
        raise Invalid("item", "item must be left out: this link sells a product")
    changes: dict[str, str] = {}
    if not isinstance(item.name, UnsetType):
        changes["name"] = items.check_name(item.name)
    if not isinstance(item.description, UnsetType):
        changes["description"] = item.description or ""
    return changes


async def list_newest_paid(tx: Tx, merchant_id: str, link_id: str, limit: int) -> list[str]:
    """Return the ids of the paid orders of a link, the newest session first."""
    rows = await queries.NEWEST_PAID.all(
        tx, merchant_id=merchant_id, payment_link_id=link_id, limit=limit
    )
    return [row.order_id for row in rows]


async def find(tx: Tx, merchant_id: str, link_id: str) -> PaymentLink:
    """Return a payment link. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=link_id))


async def find_anywhere(tx: Tx, link_id: str) -> PaymentLink:
    """Return a payment link of any merchant, for the operator. Raises NotFound."""
    link = await queries.ANYWHERE.first(tx, id=link_id)
    return or_not_found(link, f"there is no payment link {link_id}")


async def search(tx: Tx, merchant_id: str | None, limit: int) -> list[PaymentLink]:
    """Return the newest links of a merchant, or of all, for the operator."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, limit=limit)


async def list_matching(tx: Tx, merchant_id: str, text: str) -> list[PaymentLink]:
    """Return a merchant's links that a text leads to, newest first, at most 200.

    The text is a part of the name, of the product's name or of the merchant's own number, or the id
    or address of a link.
    """
    matching_products = await products.search(tx, merchant_id, text)
    return await queries.MATCHING.all(
        tx,
        merchant_id=merchant_id,
        text=text,
        slug=text.rpartition("/")[2],
        like=like(text),
        product_ids=[product.id for product in matching_products],
        scanned=_SCANNED,
        limit=MOST_FOUND,
    )


async def list_page(
    db: Db, merchant_id: str, query: queries.ListQuery
) -> tuple[list[PaymentLink], int]:
    """Return the page that a query asks for, newest first, and how many links there are."""
    rows = list_counts.Paginator(db, queries.LISTS, merchant_id, active_filters(query))
    return await rows.page(query.page, query.size)


async def find_usage(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Usage]:
    """Return the usage of links by id; each id has an entry."""
    rows = await queries.USAGE.all(tx, merchant_id=merchant_id, ids=list(ids))
    by_link = groupby(rows, key=attrgetter("payment_link_id"))
    return dict.fromkeys(ids, Usage()) | {key: Usage(tuple(sales)) for key, sales in by_link}
