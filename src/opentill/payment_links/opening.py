"""What customers do with a payment link: see what it offers, and open a session of their own."""

from collections.abc import Mapping
from typing import Any

import msgspec

from opentill import checkouts, orders, products
from opentill.checkouts import Item, Session, SessionBody
from opentill.core import money
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
    most_held,
    state_of,
)


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What a link offers now; amounts in minor units of the currency, for one.

    ``displaces``: all its uses are taken, and a session that nobody pays gives way to the next.
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


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a customer wants of a link: how many, or for how much where the amount is open.

    ``visitor`` is what the address is counted under that asks; None: it is not counted.
    """

    quantity: int = 1
    amount: str = ""
    visitor: str | None = None


class Unusable(Invalid):
    """A link that opens no session now."""

    def __init__(self, state: State) -> None:
        """``state`` says why; ``ACTIVE`` for what only the merchant can put right."""
        super().__init__("link", "link must be one that can be used")
        self.state: State = state


class Held(Invalid):
    """A visitor has as many unpaid sessions of a link with a number of uses as one may have."""

    def __init__(self) -> None:
        """The visitor pays one of them, or lets it end."""
        super().__init__("link", "link must be used by others, too: pay a session, or let it end")
        self.state = "HELD"


async def offered(tx: Tx, slug: str, now: int) -> Offered:
    """Return what the link at an address offers. Raises NotFound."""
    merchant_id = await orders.merchant_of(tx, slug)
    link = await queries.BY_SLUG.first(tx, merchant_id=merchant_id, slug=slug)
    return await _offered(tx, or_not_found(link), now)


async def _offered(tx: Tx, link: PaymentLink, now: int) -> Offered:
    state, displaces = await _availability(tx, link, now)
    if link.product_id is None:
        return Offered(
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
    return Offered(
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
    """Return whether a link can be used, and whether a session that nobody pays has to give way."""
    usage = await _usage(tx, link)
    state = state_of(link, usage, now)
    if state != "USED_UP" or usage.uses != link.max_uses or not usage.open:
        return state, False
    if await queries.HAS_IDLE.get(tx, **_idle(link, now)):
        return "ACTIVE", True
    # One may have ended after the uses were counted: then there is a use, and nothing idle.
    return state_of(link, await _usage(tx, link), now), False


async def _usage(tx: Tx, link: PaymentLink) -> Usage:
    """Count the uses of a link that has a number of them."""
    if link.max_uses is None:
        return Usage()
    used = await service.usage(tx, link.merchant_id, [link.id])
    return used.get(link.id, Usage())


def _idle(link: PaymentLink, now: int) -> dict[str, Any]:
    """Return the parameters that find the idle sessions of a link."""
    return {
        "merchant_id": link.merchant_id,
        "payment_link_id": link.id,
        "before": now - IDLE_MS,
    }


async def _displace(tx: Tx, link: PaymentLink, now: int) -> None:
    """End an idle session, so that its use is the next customer's. Raises Unusable.

    One that is being ended or paid in this moment is waited for: where it has ended, its use is
    free, as counting the uses again shows.
    """
    session_id = await queries.LOCK_IDLE.get(tx, **_idle(link, now))
    if session_id is None:
        session_id = await queries.AWAIT_IDLE.get(tx, **_idle(link, now))
    if session_id is None:
        state = state_of(link, await _usage(tx, link), now)
        if state != "ACTIVE":  # somebody has begun to pay it
            raise Unusable(state)
        return
    await checkouts.expire(
        tx, link.merchant_id, session_id, "its use went to another customer", now
    )


def amount_minor(offer: Offered, text: str) -> int:
    """Return the amount that a customer has entered, in minor units. Raises Invalid."""
    bounds = " to ".join(
        money.show(one, offer.currency) for one in (offer.least_minor, offer.most_minor)
    )
    reason = f"amount must be from {bounds}"
    try:
        minor = money.parse(text.strip().replace(",", "."), offer.currency)
    except ValueError:
        raise Invalid("amount", reason) from None
    if not offer.least_minor <= minor <= offer.most_minor:
        raise Invalid("amount", reason)
    return minor


async def open_session(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    link: PaymentLink,
    wanted: Wanted,
    settings: Settings,
    now: int,
) -> Session:
    """Open a session for a customer. The link's row is locked until the end of ``tx``.

    So at no time are more of its sessions open or paid than it has uses: where all are taken, one
    that nobody pays is ended for it. Raises Invalid on
    ``amount`` and ``quantity``, Unusable, Held, and what opening a session raises.
    """
    link = or_not_found(await queries.TAKE.first(tx, merchant_id=link.merchant_id, id=link.id))
    offer = await _offered(tx, link, now)
    if offer.state != "ACTIVE":
        raise Unusable(offer.state)
    if offer.displaces:
        await _displace(tx, link, now)
    visitor = None if link.max_uses is None else wanted.visitor
    await _check_held(tx, link, visitor)
    if not 1 <= wanted.quantity <= link.max_quantity:
        reason = f"quantity must be a whole number from 1 to {link.max_quantity}"
        raise Invalid("quantity", reason)
    minor = amount_minor(offer, wanted.amount) if offer.is_open else offer.least_minor
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
        quantity=wanted.quantity,
        success_url=link.success_url,
        expires_in=None if link.max_uses is None else HELD_MS,
        payment_methods=None if link.methods is None else list(link.methods),
        locale=link.locale,
        client_reference=link.client_reference,
        metadata=msgspec.Raw(link.metadata.encode()),
    )
    checkouts.check_methods_offered(gateways, offer.currency, body.payment_methods)
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
    """Check that one visitor does not keep a link's uses from all others. Raises Held."""
    if link.max_uses is None or visitor is None:
        return
    held = await queries.HELD_BY.get(
        tx, merchant_id=link.merchant_id, payment_link_id=link.id, visitor=visitor
    )
    if (held or 0) >= most_held(link.max_uses):
        raise Held


async def unfinished(tx: Tx, link: PaymentLink, session_id: str, now: int) -> Session | None:
    """Return a session of a link that can still be paid, None if it is none of its own."""
    if not is_id(session_id):
        return None
    try:
        session = await checkouts.find(tx, link.merchant_id, session_id)
    except NotFound:
        return None
    if session.status != "OPEN" or session.expires_at <= now:
        return None
    own = await queries.IS_USE.get(
        tx, merchant_id=link.merchant_id, payment_link_id=link.id, order_id=session.order_id
    )
    return session if own else None
