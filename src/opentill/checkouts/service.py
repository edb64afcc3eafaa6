"""What can be done with checkout sessions."""

import bisect
from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from opentill import agreement, merchants, orders, products, rates
from opentill.checkouts import items, queries
from opentill.checkouts.model import (
    LIFETIME_MS,
    MAX_ATTEMPTS,
    MAX_CUSTOMER_NAME,
    MAX_DISPLAY_NAME,
    MAX_REFERENCE,
    AmountOutOfBounds,
    Item,
    Offer,
    PageView,
    PayerInput,
    Session,
    SessionBody,
)
from opentill.core import money, structs
from opentill.core.errors import Contended, Invalid, NotFound, or_not_found
from opentill.core.ids import is_id, new_id, new_session_id
from opentill.core.payment_methods import BY_NAME, METHODS, Method
from opentill.db.database import Db, Tx
from opentill.db.query import Statement
from opentill.gateways import Gateway, offered_methods
from opentill.http import inputs
from opentill.merchants import Actor
from opentill.orders import NewOrder, Payer, PaymentAttempt, PaymentIntent
from opentill.orders.fees import Priced, price
from opentill.orders.model import UNDECIDED


def _priced(offer: Offer, body: SessionBody) -> Priced:
    """Return the money of an order, frozen with it. Raises Invalid and AmountOutOfBounds."""
    currency, settled = offer.currency, offer.settlement_currency
    quantity, has_item = body.quantity or 1, body.item is not msgspec.UNSET
    what = "item" if has_item else "productId"
    amount_minor = offer.price_minor * quantity
    if quantity > 1 and amount_minor > money.most(currency):
        most = money.most(currency) // offer.price_minor
        reason = f"quantity must be at most {most}, so that the amount is at most 99999999.99"
        raise Invalid("quantity", reason)
    rate, usd_rate = offer.exchange_rate, offer.usd_exchange_rate or Decimal(0)
    if rate is None:
        reason = (
            f"{what} must be {'' if has_item else 'a product '}in a currency with an exchange "
            f"rate: there is none from {currency} to {settled}, or it is too old. The operator "
            f"sets one by `opentill rates set {currency} {settled} RATE` or imports a newer file"
        )
        raise Invalid(what, reason)
    priced = price(
        amount_minor,
        currency,
        settled_currency=settled,
        exchange_rate=rate,
        fee_rate=offer.platform_fee_rate,
    )
    if priced.gross_settled_minor <= 0:
        thing = "" if has_item else "a product "
        reason = f"{what} must be {thing}worth at least one minor unit of {settled}"
        raise AmountOutOfBounds(what, reason, *_bounds(currency, settled, rate, usd_rate))
    usd_minor = money.times(amount_minor, usd_rate, currency, "USD")
    if max(priced.gross_settled_minor, usd_minor) > money.MOST_MINOR:
        if quantity > 1:
            what, reason = (
                "quantity",
                "quantity must be less: at its exchange rate this is too much",
            )
        else:
            thing = "what" if has_item else "a product that"
            reason = f"{what} must be {thing} its exchange rate makes worth less: see the rate"
        raise AmountOutOfBounds(what, reason, *_bounds(currency, settled, rate, usd_rate))
    return priced


def _bounds(currency: str, settled: str, rate: Decimal, usd_rate: Decimal) -> tuple[int, int]:
    """Return the smallest and the largest amount that can be sold at these rates: minor units.

    They are found by bisection, since each conversion rounds.
    """

    def worth(minor: int) -> int:
        return money.times(minor, rate, currency, settled)

    def fits(minor: int) -> bool:
        return max(worth(minor), money.times(minor, usd_rate, currency, "USD")) <= money.MOST_MINOR

    amounts = range(1, money.MOST_MINOR)
    least = 1 + bisect.bisect_left(amounts, x=True, key=lambda minor: worth(minor) > 0)
    most = bisect.bisect_left(amounts, x=True, key=lambda minor: not fits(minor))
    return least, most


async def open_session(
    tx: Tx,
    merchant_id: str,
    body: SessionBody,
    now: int,
    *,
    rates_max_age_days: int = 0,
    item: Item | None = None,
    agreement_required: bool = False,
) -> Session:
    """Open a session and place its order, PENDING; ``item`` is sold in place of the product.

    Price, product, terms and exchange rates are frozen on the order as they are now; the fee is
    that of the default rate until the payment method is known. Imported rates that are older than
    ``rates_max_age_days`` do not count (0: all do). A currency settles in itself without any.
    Raises Invalid, and NotPermitted for a merchant that lacks the agreement where it is required or
    may not charge (decision 0082): whether it may is read with the offer, and again by the
    statement that places the order, so that none is placed after the merchant was suspended.
    """
    if agreement_required:
        await agreement.require(tx, merchant_id)
    oldest = rates.oldest_valid_from(now, rates_max_age_days)
    item = items.of_body(body) or item
    if item is not None and item.currency:
        product_id = products.stand_in_id(merchant_id, item.currency)
        body = msgspec.structs.replace(body, product_id=product_id)
    offer = await _offer(tx, merchant_id, body.product_id, item, now, oldest)
    new = _new_order(merchant_id, body, item, offer, now)
    if not await orders.place(tx, new, now):
        await merchants.require(tx, merchant_id, "charge")
        raise Contended  # it was switched off, and on again, in this very moment
    return Session.of(new, now)


async def check_methods(
    tx: Tx, gateways: Mapping[str, Gateway], merchant_id: str, body: SessionBody
) -> None:
    """Refuse a session that could be paid by no method, before it is opened.

    Raises Invalid on ``paymentMethods`` if none of them is on offer for the currency.
    """
    if not body.payment_methods:
        return
    currency = None if isinstance(body.item, msgspec.UnsetType) else body.item.currency
    if currency is None and is_id(body.product_id):
        currency = await queries.CURRENCY.get(tx, merchant_id=merchant_id, id=body.product_id)
    if currency is not None:  # or whoever opens it says what is wrong with the product
        check_on_offer(gateways, currency, body.payment_methods)


def check_on_offer(
    gateways: Mapping[str, Gateway], currency: str, wanted: Sequence[Method] | None
) -> None:
    """Raise Invalid on ``paymentMethods`` if none of them is on offer for a currency."""
    on_offer = offered_methods(gateways, currency)
    if wanted and not set(on_offer).intersection(wanted):
        known = ", ".join(on_offer) or "none"
        reason = f"paymentMethods must have one that is on offer in {currency}: {known}"
        raise Invalid("paymentMethods", reason)


async def record_opening(tx: Tx, session: Session, actor: Actor, now: int) -> None:
    """Write to the audit log that a person has opened a session, which is named by its order.

    Its own id would be its payment link.
    """
    subject = f"{session.order_id}: {session.product_id}"
    await merchants.record_audit(tx, actor, "sessions open", session.merchant_id, subject, now)


def _new_order(
    merchant_id: str, body: SessionBody, item: Item | None, offer: Offer, now: int
) -> NewOrder:
    priced = _priced(offer, body)
    shown_name = _shown_name(body, offer)
    email = inputs.check_email("customerEmail", body.customer_email) if body.customer_email else ""
    given = None if item is None else item.metadata
    return structs.convert(
        offer,
        NewOrder,
        merchant_id=merchant_id,
        id=new_session_id(),
        product_id=body.product_id,
        order_id=new_id("order") if item is None or not item.order_id else item.order_id,
        amount_minor=offer.price_minor * (body.quantity or 1),
        success_url=inputs.check_url("successUrl", body.success_url),
        cancel_url=inputs.check_url("cancelUrl", body.cancel_url),
        customer_email=email,
        customer_name=body.called,
        display_merchant_name=shown_name,
        expires_at=now + (body.expires_in or LIFETIME_MS),
        method=None if item is None else item.method,
        product_name=offer.name,
        product_description=offer.description,
        product_image=offer.image,
        source="API" if item is None else item.source,
        platform_fee_minor=priced.fee_minor,
        settled_currency=offer.settlement_currency,
        gross_settled_minor=priced.gross_settled_minor,
        net_settled_minor=priced.net_settled_minor,
        metadata=inputs.check_metadata(body.metadata) if given is None else given,
        quantity=None if body.quantity == 1 else body.quantity,
        methods=sorted(set(body.payment_methods), key=METHODS.index)
        if body.payment_methods
        else None,
        locale=body.locale,
        client_reference=_reference(body),
    )


def _reference(body: SessionBody) -> str | None:
    given = body.client_reference
    return None if given is None else inputs.check_name("clientReference", given, MAX_REFERENCE)


async def _offer(
    tx: Tx, merchant_id: str, product_id: str, item: Item | None, now: int, oldest: int
) -> Offer:
    """Return what is sold; rates count from ``oldest`` (Unix ms) on.

    Raises Invalid and CapabilityOff.
    """
    offer = None
    if is_id(product_id):
        offer = await queries.OFFER.first(
            tx, merchant_id=merchant_id, product_id=product_id, now=now, oldest=oldest
        )
    if item is not None and item.currency and (offer is None or offer.currency != item.currency):
        await products.stand_in(tx, merchant_id, item.currency, now)
        offer = await queries.OFFER.first(
            tx, merchant_id=merchant_id, product_id=product_id, now=now, oldest=oldest
        )
    if offer is not None and offer.charge_off is not None:
        raise merchants.CapabilityOff("charge", offer.charge_off)
    if offer is not None and item is not None:
        return msgspec.structs.replace(
            offer, name=item.name, price_minor=item.amount_minor, status="ACTIVE",
            description=item.description, image=item.image,
        )  # fmt: skip
    if offer is None or offer.status != "ACTIVE":
        reason = (
            "productId is required: the id of one of your active products"
            if not product_id
            else "productId must be the id of one of your active products"
        )
        raise Invalid("productId", reason)
    return offer


def _shown_name(body: SessionBody, offer: Offer) -> str:
    if body.display_merchant_name is not None:
        return inputs.check_name(
            "displayMerchantName", body.display_merchant_name, MAX_DISPLAY_NAME
        )
    other = body.display_merchant_name_too
    if other is not None:
        return inputs.check_name("display_merchant_name", other, MAX_DISPLAY_NAME)
    return offer.merchant_name


async def find(tx: Tx, merchant_id: str, session_id: str) -> Session:
    """Return a session. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=session_id))


async def page_view(db: Db, session_id: str) -> PageView | None:
    """Return what the payment page of a session shows, None for an unknown one."""
    if not is_id(session_id):
        return None
    async with db.connection() as tx:
        if not Statement.distributes:
            return await queries.BY_PUBLIC_ID.first(tx, id=session_id)
        try:
            merchant_id = await orders.merchant_of(tx, session_id)
        except NotFound:
            return None
        return await queries.PAGE_VIEW.first(tx, merchant_id=merchant_id, id=session_id)


async def expire(
    tx: Tx,
    merchant_id: str,
    session_id: str,
    cause: str,
    now: int,
    *,
    actor: Actor | None = None,
) -> Session:
    """End an open session: nobody can pay it any more, and its order is CLOSED.

    Expiring an expired session again is fine. ``actor`` is a person who does it, for history and
    audit log; events report the ``cause`` alone. Raises NotFound, and Invalid on ``id`` for a
    session that is complete or whose payment is on its way.
    """
    session = await find(tx, merchant_id, session_id)
    order = await orders.lock(tx, merchant_id, session.order_id)
    session = await find(tx, merchant_id, session_id)
    if session.status == "EXPIRED":
        return session
    if session.status == "COMPLETE":
        raise Invalid("id", "id must be an open session: this one is complete")
    if order.status == "CREATING":
        raise Invalid("id", "id must be a session without a payment on its way: try again shortly")
    known = cause if actor is None else f"{cause}: {actor.who}"
    await orders.transition(tx, orders.Change(order, "expired", known, reason=cause), now)
    if actor is not None:
        await merchants.record_audit(tx, actor, "sessions end", merchant_id, order.id, now)
    return await find(tx, merchant_id, session_id)


async def pay(
    db: Db,
    gateways: Mapping[str, Gateway],
    session_id: str,
    entered: PayerInput,
    public_url: str,
    now: int,
    *,
    seen: PageView | None = None,
) -> PaymentAttempt | None:
    """Start to pay a session as its customer; None if it can no longer, or cannot now, be paid.

    Calling it twice is harmless. ``seen`` is what the caller has just read of the session: what
    counts is read again with the order's lock. Raises NotFound, and Invalid on ``email``, ``name``,
    ``method``, or ``attempts`` for an order that was tried too often.
    """
    view = seen or or_not_found(await page_view(db, session_id))
    session, last = view.session, view.last_attempt
    if session.status != "OPEN" or session.expires_at <= now or session.charge_off is not None:
        return None
    if len(entered.name.strip()) > MAX_CUSTOMER_NAME:
        raise Invalid("name", f"name must be text of at most {MAX_CUSTOMER_NAME} characters")
    method = BY_NAME.get(entered.method)
    if method is None or not session.takes(method):
        raise Invalid("method", "method must be one of the payment methods on offer")
    if last is not None and not _goes_on(last, method):
        async with db.connection() as tx:
            await check_attempts(tx, session.merchant_id, session.order_id)
    email = entered.email
    if email.strip() or view.order.source != "EPAY":  # shops that speak Epay ask for no address
        email = inputs.check_email("email", email)
    intent = PaymentIntent(
        merchant_id=session.merchant_id,
        order_id=session.order_id,
        payer=Payer(
            email=email.strip(),
            name=entered.name.strip() or None,
            prefilled=session.customer_name,
            ip=entered.ip,
            locale=entered.locale,
        ),
        method=method,
        merchant_name=session.display_merchant_name,
        expires_at=session.expires_at,
    )
    untried = view.order if last is None else None
    return await orders.submit(db, gateways, intent, public_url, now, untried=untried)


def _goes_on(last: PaymentAttempt, method: str) -> bool:
    """Return whether the last attempt is still under way, so that a form starts no other."""
    return last.status in {"SUBMITTED", "PENDING"} or last.waits_for_customer(method)


async def check_attempts(tx: Tx, merchant_id: str, order_id: str) -> None:
    """Raise Invalid on ``attempts`` for an order that was tried too often (decision 0030).

    Two forms at the same moment start one attempt, so this need not hold the order's lock.
    """
    attempts = await queries.ATTEMPTS.get(tx, merchant_id=merchant_id, order_id=order_id) or 0
    if attempts >= MAX_ATTEMPTS:
        reason = f"attempts must be at most {MAX_ATTEMPTS} for one order: open another session"
        raise Invalid("attempts", reason)


async def refresh(
    db: Db, gateways: Mapping[str, Gateway], seen: PageView, attempt_id: str, now: int
) -> PaymentAttempt:
    """Ask the gateway about an attempt of a session, whose customer is back. Raises NotFound.

    ``seen`` is what the caller has just read of the session.
    """
    if not is_id(attempt_id):
        raise NotFound
    attempt = seen.last_attempt
    if attempt is None or attempt.id != attempt_id:
        async with db.connection() as tx:
            attempt = await orders.find_attempt(tx, seen.session.merchant_id, attempt_id)
    if attempt.order_id != seen.order.id:
        raise NotFound
    if attempt.status in UNDECIDED:
        return await orders.ask(db, gateways, attempt, now)
    return attempt
