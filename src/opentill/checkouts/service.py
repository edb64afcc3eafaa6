"""Opening, reading, expiring and paying checkout sessions."""

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
    TEST_MARK,
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
from opentill.gateways import Gateway, offered_methods
from opentill.http import inputs
from opentill.merchants import Actor
from opentill.orders import NewOrder, Payer, PaymentAttempt, PaymentIntent
from opentill.orders.model import UNDECIDED
from opentill.orders.pricing import Priced, price


def _price_session(offer: Offer, body: SessionBody) -> Priced:
    """Return the amounts to freeze on an order. Raises Invalid and AmountOutOfBounds."""
    currency, settlement_currency = offer.currency, offer.settlement_currency
    quantity, has_item = body.quantity or 1, body.item is not msgspec.UNSET
    field = "item.price" if has_item else "productId"
    amount_minor = offer.price_minor * quantity
    if quantity > 1 and amount_minor > money.max_price(currency):
        most = money.max_price(currency) // offer.price_minor
        reason = f"quantity must be at most {most}, so that the amount is at most 99999999.99"
        raise Invalid("quantity", reason)
    rate, usd_rate = offer.exchange_rate, offer.usd_exchange_rate or Decimal(0)
    if rate is None:
        field = "item.currency" if has_item else "productId"
        thing = "a currency" if has_item else "a product in a currency"
        reason = (
            f"{field} must be {thing} with an exchange "
            f"rate: there is none from {currency} to {settlement_currency}, or it is too old. The "
            f"operator sets one by `opentill rates set {currency} {settlement_currency} RATE` or "
            "imports a newer file"
        )
        raise Invalid(field, reason)
    priced = price(
        amount_minor,
        currency,
        settled_currency=settlement_currency,
        exchange_rate=rate,
        fee_rate=offer.platform_fee_rate,
    )
    if priced.gross_settled_minor <= 0:
        thing = "an amount" if has_item else "a product"
        reason = f"{field} must be {thing} worth at least one minor unit of {settlement_currency}"
        raise AmountOutOfBounds(
            field, reason, *_bounds(currency, settlement_currency, rate, usd_rate)
        )
    usd_minor = money.times(amount_minor, usd_rate, currency, "USD")
    if max(priced.gross_settled_minor, usd_minor) > money.MOST_MINOR:
        if quantity > 1:
            field, reason = (
                "quantity",
                "quantity must be less: at its exchange rate this is too much",
            )
        else:
            thing = "an amount" if has_item else "a product"
            reason = f"{field} must be {thing} that its exchange rate makes worth less"
        raise AmountOutOfBounds(
            field, reason, *_bounds(currency, settlement_currency, rate, usd_rate)
        )
    return priced


def _bounds(
    currency: str, settlement_currency: str, rate: Decimal, usd_rate: Decimal
) -> tuple[int, int]:
    """Return the smallest and the largest price that can be sold at these rates, in minor units.

    The smallest is worth at least one minor unit of the settlement currency; the largest fits into
    the ledger. Uses bisection, because each conversion rounds.
    """

    def worth(minor: int) -> int:
        return money.times(minor, rate, currency, settlement_currency)

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
    """Open a session and place its PENDING order; ``item`` is sold in place of the product.

    Price, product, terms and exchange rates are frozen on the order. Until the payment method is
    known, the fee has the default rate. Imported rates that are older than ``rates_max_age_days``
    are ignored (0: no limit). No rate is needed if both currencies are equal. Raises Invalid.
    Raises NotPermitted if the merchant has not accepted a required agreement or may not charge
    (decision 0082). The statement that places the order checks this again, so that no order is
    placed after the merchant was suspended.
    """
    if agreement_required:
        await agreement.require(tx, merchant_id)
    new = await prepare(
        tx, merchant_id, body, now, rates_max_age_days=rates_max_age_days, item=item
    )
    if not await orders.place(tx, new, now):
        await merchants.require(tx, merchant_id, "charge")
        # The merchant could not take payments when the order was to be placed, but can now.
        raise Contended
    return Session.from_order(new, now)


async def prepare(
    tx: Tx,
    merchant_id: str,
    body: SessionBody,
    now: int,
    *,
    rates_max_age_days: int = 0,
    item: Item | None = None,
) -> NewOrder:
    """Return the order of a session, which is not placed yet; ``open_session`` has the arguments.

    Raises Invalid and CapabilityOff.
    """
    oldest = rates.oldest_valid_from(now, rates_max_age_days)
    item = items.read_item(body) or item
    if item is not None and item.currency:
        product_id = products.stand_in_id(merchant_id, item.currency)
        body = msgspec.structs.replace(body, product_id=product_id)
    offer = await _offer(tx, merchant_id, body.product_id, item, now, oldest)
    return _new_order(merchant_id, body, item, offer, now)


async def check_methods(
    tx: Tx, gateways: Mapping[str, Gateway], merchant_id: str, body: SessionBody
) -> None:
    """Refuse a session without a usable payment method, before it is opened.

    Raises Invalid on ``paymentMethods`` if none of them is offered for the currency.
    """
    if not body.payment_methods:
        return
    currency = None if isinstance(body.item, msgspec.UnsetType) else body.item.currency
    if currency is None and is_id(body.product_id):
        currency = await queries.CURRENCY.get(tx, merchant_id=merchant_id, id=body.product_id)
    # If the currency is unknown, ``open_session`` refuses the product.
    if currency is not None:
        check_methods_offered(gateways, merchant_id, currency, body.payment_methods)


def check_methods_offered(
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    currency: str,
    methods: Sequence[Method] | None,
) -> None:
    """Raise Invalid on ``paymentMethods`` if none of them is offered to a merchant for a currency.

    The limits of accounts do not count here: the amount may not be known yet.
    """
    on_offer = offered_methods(gateways, currency, merchant_id=merchant_id)
    if methods and not set(on_offer).intersection(methods):
        choices = ", ".join(on_offer) or "none"
        reason = f"paymentMethods must have one that is on offer in {currency}: {choices}"
        raise Invalid("paymentMethods", reason)


async def record_opening(tx: Tx, session: Session, actor: Actor, now: int) -> None:
    """Record in the audit log that a person opened a session.

    The subject is the order's id, because the session's id gives access to the payment page.
    """
    subject = f"{session.order_id}: {session.product_id}"
    await merchants.record_audit(tx, actor, "sessions open", session.merchant_id, subject, now)


def _new_order(
    merchant_id: str, body: SessionBody, item: Item | None, offer: Offer, now: int
) -> NewOrder:
    priced = _price_session(offer, body)
    display_name = _display_name(body, offer)
    email = inputs.check_email("customerEmail", body.customer_email) if body.customer_email else ""
    metadata = None if item is None else item.metadata
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
        customer_name=body.entered_name,
        display_merchant_name=display_name,
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
        metadata=inputs.check_metadata(body.metadata) if metadata is None else metadata,
        quantity=None if body.quantity == 1 else body.quantity,
        methods=sorted(set(body.payment_methods), key=METHODS.index)
        if body.payment_methods
        else None,
        locale=body.locale,
        client_reference=_reference(body),
    )


def _reference(body: SessionBody) -> str | None:
    text = body.client_reference
    return None if text is None else inputs.check_name("clientReference", text, MAX_REFERENCE)


async def _offer(
    tx: Tx, merchant_id: str, product_id: str, item: Item | None, now: int, oldest: int
) -> Offer:
    """Return the offer of a product or item; rates older than ``oldest`` (Unix ms) are not used.

    Raises Invalid and CapabilityOff.
    """
    offer = None
    if is_id(product_id):
        offer = await queries.OFFER.first(
            tx, merchant_id=merchant_id, product_id=product_id, now=now, oldest=oldest
        )
    if item is not None and item.currency and (offer is None or offer.currency != item.currency):
        await products.ensure_stand_in(tx, merchant_id, item.currency, now)
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
            "productId is required: the id of one of your active products, or else an item"
            if not product_id
            else "productId must be the id of one of your active products"
        )
        raise Invalid("productId", reason)
    return offer


def _display_name(body: SessionBody, offer: Offer) -> str:
    if body.display_merchant_name is not None:
        return inputs.check_name(
            "displayMerchantName", body.display_merchant_name, MAX_DISPLAY_NAME
        )
    other = body.display_merchant_name_alias
    if other is not None:
        return inputs.check_name("display_merchant_name", other, MAX_DISPLAY_NAME)
    return offer.merchant_name


async def find(tx: Tx, merchant_id: str, session_id: str) -> Session:
    """Return a session. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=session_id))


async def find_page_view(db: Db, session_id: str) -> PageView | None:
    """Return the data of a session's payment page; None for an unknown session."""
    if not is_id(session_id):
        return None
    async with db.connection() as tx:
        return await queries.BY_PUBLIC_ID.first(tx, id=session_id)


async def expire(
    tx: Tx,
    merchant_id: str,
    session_id: str,
    cause: str,
    now: int,
    *,
    actor: Actor | None = None,
) -> Session:
    """Expire an open session, so that nobody can pay it, and close its order. Idempotent.

    ``actor`` is the person who does it, for history and audit log; events contain the ``cause``
    only. Raises NotFound, and Invalid on ``id`` for a session that is complete or whose payment is
    in progress.
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
    recorded_cause = cause if actor is None else f"{cause}: {actor.who}"
    await orders.transition(tx, orders.Change(order, "expired", recorded_cause, reason=cause), now)
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
    """Start the payment of a session and return the attempt. Idempotent.

    Returns None for a session that cannot be paid. ``seen`` is the page view that the caller has
    just read. Raises NotFound, and Invalid on ``email``, ``name``, ``method``, or ``attempts`` for
    an order with too many attempts.
    """
    view = seen or or_not_found(await find_page_view(db, session_id))
    session, last = view.session, view.last_attempt
    if session.status != "OPEN" or session.expires_at <= now or session.charge_off is not None:
        return None
    if len(entered.name.strip()) > MAX_CUSTOMER_NAME:
        raise Invalid("name", f"name must be text of at most {MAX_CUSTOMER_NAME} characters")
    method = BY_NAME.get(entered.method)
    if method is None or not session.accepts(method):
        raise Invalid("method", "method must be one of the payment methods on offer")
    if last is not None and not _is_unfinished(last, method):
        async with db.connection() as tx:
            await check_attempts(tx, session.merchant_id, session.order_id)
    email = entered.email
    if email.strip() or view.order.source != "EPAY":  # Epay shops do not require an email
        email = inputs.check_email("email", email)
    account = None
    if TEST_MARK in view.order.metadata:  # which may also be a merchant's own
        async with db.connection() as tx:
            account = await queries.TEST_ACCOUNT.get(
                tx, merchant_id=session.merchant_id, order_id=session.order_id
            )
    intent = PaymentIntent(
        merchant_id=session.merchant_id,
        order_id=session.order_id,
        payer=Payer(
            email=email.strip(),
            name=entered.name.strip() or None,
            prefilled=session.customer_name,
            ip=entered.ip,
            locale=entered.locale,
            on_phone=entered.on_phone,
        ),
        method=method,
        merchant_name=session.display_merchant_name,
        expires_at=session.expires_at,
        account=account,
    )
    state = orders.OrderState(view.order, last)
    return await orders.submit(db, gateways, intent, public_url, now, seen=state)


def _is_unfinished(last: PaymentAttempt, method: str) -> bool:
    """Whether the last attempt is unfinished, so that submitting the form starts no other."""
    return last.status in {"SUBMITTED", "PENDING"} or last.waits_for_customer(method)


async def check_attempts(tx: Tx, merchant_id: str, order_id: str) -> None:
    """Raise Invalid on ``attempts`` for an order with too many attempts (decision 0030).

    Concurrent forms start one attempt, so this does not need the order's lock.
    """
    attempts = await queries.ATTEMPTS.get(tx, merchant_id=merchant_id, order_id=order_id) or 0
    if attempts >= MAX_ATTEMPTS:
        reason = f"attempts must be at most {MAX_ATTEMPTS} for one order: open another session"
        raise Invalid("attempts", reason)


async def refresh_attempt(
    db: Db, gateways: Mapping[str, Gateway], seen: PageView, attempt_id: str, now: int
) -> PaymentAttempt:
    """Query the gateway about an attempt after its customer's return. Raises NotFound.

    ``seen`` is the page view that the caller has just read. A query may take the money of an
    approved payment, so after the end of the order its page is closed instead.
    """
    if not is_id(attempt_id):
        raise NotFound
    attempt = seen.last_attempt
    if attempt is None or attempt.id != attempt_id:
        async with db.connection() as tx:
            attempt = await orders.find_attempt(tx, seen.session.merchant_id, attempt_id)
    if attempt.order_id != seen.order.id:
        raise NotFound
    if attempt.status == "ACTION_REQUIRED" and seen.order.is_over:
        return await orders.close_page(db, gateways, attempt, now)
    if attempt.status in UNDECIDED:
        return await orders.query_attempt(db, gateways, attempt, now)
    return attempt
