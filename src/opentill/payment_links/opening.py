"""A customer's use of a payment link: its offer, and opening a session."""

from collections.abc import Mapping
from typing import Any

import msgspec

from opentill import checkouts, orders, products
from opentill.checkouts import Item, Session, SessionBody
from opentill.core import amounts, money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import is_id
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways.model import Gateway
from opentill.payment_links import queries, service
from opentill.payment_links.model import (
    HELD_MS,
    IDLE_MS,
    PaymentLink,
    State,
    Usage,
    max_held,
    state_of,
)


class LinkOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The current offer of a link; amounts for one piece, in minor units of the currency.

    ``displaces``: all uses are taken, and the next customer gets the use of an idle session.
    """

    link: PaymentLink
    state: State
    name: str
    description: str
    image: str | None
    currency: str
    least_minor: int
    most_minor: int
    displaces: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the customer enters the amount."""
        return self.least_minor != self.most_minor


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A customer's choice: the quantity, or the amount if the customer enters it.

    ``visitor`` is the key under which the uses of an IP address are counted; None: not counted.
    """

    quantity: int = 1
    amount: str = ""
    visitor: str | None = None


class Unusable(Invalid):
    """The link opens no session now."""

    def __init__(self, state: State) -> None:
        """``state`` is the reason."""
        super().__init__("link", "link must be one that can be used")
        self.state: State = state


class TooManyHeld(Invalid):
    """A visitor has as many unpaid sessions of a link with limited uses as one visitor may have."""

    def __init__(self) -> None:
        """The error asks the visitor to pay a session or to let one expire."""
        super().__init__("link", "link must be used by others, too: pay a session, or let it end")
        self.state = "HELD"


async def find_offer(tx: Tx, slug: str, now: int) -> LinkOffer:
    """Return the offer of the link with a slug. Raises NotFound."""
    merchant_id = await orders.merchant_of(tx, slug)
    link = await queries.BY_SLUG.first(tx, merchant_id=merchant_id, slug=slug)
    return await _offer_of(tx, or_not_found(link), now)


async def _offer_of(tx: Tx, link: PaymentLink, now: int) -> LinkOffer:
    state, displaces = await _availability(tx, link, now)
    if link.product_id is None:
        return LinkOffer(
            link=link,
            state=state,
            name=link.name or "",
            description=link.description,
            image=link.image,
            currency=link.currency or "",
            least_minor=link.least_minor or 0,
            most_minor=link.most_minor or 0,
            displaces=displaces,
        )
    product = await products.find(tx, link.merchant_id, link.product_id)
    return LinkOffer(
        link=link,
        state="INACTIVE" if product.status != "ACTIVE" else state,
        name=product.name,
        description=product.description,
        image=product.image,
        currency=product.currency,
        least_minor=product.price_minor,
        most_minor=product.price_minor,
        displaces=displaces,
    )


async def _availability(tx: Tx, link: PaymentLink, now: int) -> tuple[State, bool]:
    """Return whether a link can be used, and whether using it displaces an idle session."""
    usage = await _usage(tx, link)
    state = state_of(link, usage, now)
    if state != "USED_UP" or usage.uses != link.max_uses or not usage.open:
        return state, False
    if await queries.HAS_IDLE.get(tx, **_idle_parameters(link, now)):
        return "ACTIVE", True
    # Count the uses again: one may have become free meanwhile, because an idle session has ended.
    return state_of(link, await _usage(tx, link), now), False


async def _usage(tx: Tx, link: PaymentLink) -> Usage:
    """Count the uses of a link with limited uses."""
    if link.max_uses is None:
        return Usage()
    usage = await service.find_usage(tx, link.merchant_id, [link.id])
    return usage.get(link.id, Usage())


def _idle_parameters(link: PaymentLink, now: int) -> dict[str, Any]:
    """Return the parameters that find the idle sessions of a link."""
    return {
        "merchant_id": link.merchant_id,
        "payment_link_id": link.id,
        "before": now - IDLE_MS,
    }


async def _displace(tx: Tx, link: PaymentLink, now: int) -> None:
    """Expire an idle session, so that the next customer gets its use. Raises Unusable.

    If all idle sessions are being expired or paid at this moment, wait for the first one.
    """
    session_id = await queries.LOCK_IDLE.get(tx, **_idle_parameters(link, now))
    if session_id is None:
        session_id = await queries.AWAIT_IDLE.get(tx, **_idle_parameters(link, now))
    if session_id is None:
        state = state_of(link, await _usage(tx, link), now)
        if state != "ACTIVE":  # the customer of the idle session has begun to pay meanwhile
            raise Unusable(state)
        return
    await checkouts.expire(
        tx, link.merchant_id, session_id, "its use went to another customer", now
    )


def parse_amount(offer: LinkOffer, text: str) -> int:
    """Parse the amount that a customer entered into minor units. Raises Invalid."""
    bounds = " to ".join(
        money.show(minor, offer.currency) for minor in (offer.least_minor, offer.most_minor)
    )
    reason = f"amount must be from {bounds}"
    try:
        entry = amounts.parse_entry("amount", text, offer.currency)
    except amounts.UnreadableAmount:
        raise Invalid("amount", reason) from None
    minor = money.parse(entry, offer.currency)
    if not offer.least_minor <= minor <= offer.most_minor:
        raise Invalid("amount", reason)
    return minor


async def open_session(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    link: PaymentLink,
    selection: Selection,
    settings: Settings,
    now: int,
) -> Session:
    """Open a session for a customer. The link's row is locked until the end of ``tx``.

    The lock keeps open and paid sessions within the number of uses. If all are taken, an idle
    session is expired. Raises Invalid on ``amount`` and ``quantity``, Unusable, TooManyHeld, and
    the errors of opening a session.
    """
    link = or_not_found(await queries.TAKE.first(tx, merchant_id=link.merchant_id, id=link.id))
    offer = await _offer_of(tx, link, now)
    if offer.state != "ACTIVE":
        raise Unusable(offer.state)
    if offer.displaces:
        await _displace(tx, link, now)
    visitor = None if link.max_uses is None else selection.visitor
    await _check_held(tx, link, visitor)
    if not 1 <= selection.quantity <= link.max_quantity:
        reason = f"quantity must be a whole number from 1 to {link.max_quantity}"
        raise Invalid("quantity", reason)
    minor = parse_amount(offer, selection.amount) if offer.is_open else offer.least_minor
    item = None
    if link.product_id is None:
        item = Item(
            name=offer.name,
            amount_minor=minor,
            currency=offer.currency,
            description=offer.description,
            image=offer.image,
        )
    body = SessionBody(
        product_id=link.product_id or "",
        quantity=selection.quantity,
        success_url=link.success_url,
        expires_in=None if link.max_uses is None else HELD_MS,
        payment_methods=None if link.methods is None else list(link.methods),
        locale=link.locale,
        client_reference=link.client_reference,
        metadata=msgspec.Raw(link.metadata.encode()),
    )
    checkouts.check_methods_offered(
        gateways, link.merchant_id, offer.currency, body.payment_methods
    )
    session = await checkouts.open_session(
        tx,
        link.merchant_id,
        body,
        now,
        rates_max_age_days=settings.rates_max_age_days,
        item=item,
        agreement_required=settings.agreement_required,
    )
    await orders.set_payment_link(tx, link.merchant_id, session.order_id, link.id)
    await queries.INSERT_USE.run(
        tx,
        merchant_id=link.merchant_id,
        payment_link_id=link.id,
        order_id=session.order_id,
        checkout_id=session.id,
        amount_minor=session.amount_minor,
        currency=session.currency,
        now=now,
        visitor=visitor,
    )
    return session


async def _check_held(tx: Tx, link: PaymentLink, visitor: str | None) -> None:
    """Check how many uses of a link one visitor holds. Raises TooManyHeld."""
    if link.max_uses is None or visitor is None:
        return
    held = await queries.HELD_BY.get(
        tx, merchant_id=link.merchant_id, payment_link_id=link.id, visitor=visitor
    )
    if (held or 0) >= max_held(link.max_uses):
        raise TooManyHeld


async def find_open_session(tx: Tx, link: PaymentLink, session_id: str, now: int) -> Session | None:
    """Return a session of the link that can still be paid, or None."""
    if not is_id(session_id):
        return None
    try:
        session = await checkouts.find(tx, link.merchant_id, session_id)
    except NotFound:
        return None
    if session.status != "OPEN" or session.expires_at <= now:
        return None
    was_opened_by_link = await queries.IS_USE.get(
        tx, merchant_id=link.merchant_id, payment_link_id=link.id, order_id=session.order_id
    )
    return session if was_opened_by_link else None
