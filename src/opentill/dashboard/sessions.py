"""A merchant's checkout sessions: the list, the page of each, and forms that open and end them."""

from collections import Counter
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import checkouts, gateways, merchants, orders, people, products
from opentill.checkouts import Session
from opentill.core.errors import Invalid, KeyReused, NotFound, NotPermitted, TooManyRequests
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.core.payment_methods import METHODS
from opentill.dashboard import listed_payments, page_helpers, session_form, sessions_again
from opentill.dashboard.products import LIFETIMES_MIN, product_page
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.orders import Order, OrdersQuery, ShownStatus
from opentill.portal import form_ids, lists, member_names, render, search, unpaid
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.portal.unpaid import ENDED_BY_MERCHANT
from opentill.products import Product
from opentill.web.language import names
from opentill.web.translations import N_

# Tab of the list → the statuses of the payments whose sessions it lists.
_STATUSES: Final[Mapping[str, tuple[ShownStatus, ...]]] = {
    "OPEN": ("PENDING", "ATTEMPT_FAILED", "CREATING"),
    "COMPLETE": (
        "PAID",
        "PARTIALLY_REFUNDED",
        "REFUNDED",
        "REFUND_PENDING",
        "REFUND_FAILED",
        "DISPUTED",
        "CHARGEBACK",
    ),
    "EXPIRED": ("CLOSED",),
    "DECLINED": ("FAILED",),
    "CANCELED": ("REVOKED",),
}
_REASON: Final = "on the page of sessions"


class Row(msgspec.Struct, frozen=True):
    """A session in the list, with its order."""

    session: Session
    order: Order
    status: ShownStatus  # of the payment
    amount: Money


async def show(request: PageRequest) -> Response:
    """List sessions, newest first."""
    return await _render_list(request)


async def _render_list(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    opening: dict[str, str] | None = None,
    wait: str = "",
) -> Response:
    async with request.app.db.connection() as tx:
        product, product_error = await _find_product(tx, request)
        merchant = await merchants.find(tx, request.merchant_id)
    merchant_id, zone = request.merchant_id, page_helpers.zone_of(request)
    days = lists.days(request, zone)
    text = lists.text(request, "email", search.LONGEST)
    tab = lists.choice(request, "tab", tuple(_STATUSES)) or ""
    query = OrdersQuery(
        page=lists.page_number(request),
        size=lists.SIZE,
        start_date=days.since,
        end_date=days.until,
        product_id=None if product is None else product.id,
        query=text or None,
    )
    choice = orders.ListChoice(shown=_STATUSES[tab] if tab else ())
    text_error: dict[str, str] = {}
    selected = orders.CountedPage([], 0, Counter())
    try:
        selected = await orders.list_counted(request.app.db, merchant_id, query, choice)
    except Invalid:  # nothing is listed, so that the list is not taken for the result
        text_error = {"email": search.TOO_MANY_CUSTOMERS}
    page = await checkouts.find_many(
        request.app.db, merchant_id, [order.checkout_id for order in selected.orders]
    )
    attempts = await request.app.db.read(
        lambda tx: orders.decisive_attempts(tx, merchant_id, selected.orders)
    )
    choices = await page_helpers.product_choices(request, product.id if product else "")
    sold = [choice for choice in choices if choice.status == "ACTIVE"]
    offered = {
        method
        for currency in {merchant.settlement_currency, *(choice.currency for choice in sold)}
        for method in gateways.offered_methods(
            request.app.gateways, currency, merchant_id=merchant_id
        )
    }
    return render.page(
        request,
        "sessions.html",
        status,
        sold=page_helpers.product_names(request, sold, with_prices=True),
        item=session_form.ITEM,
        currencies=page_helpers.list_currencies(request),
        whole_currencies=page_helpers.WHOLE_CURRENCIES,
        settlement_currency=merchant.settlement_currency,
        opening=opening or _prefill(request),
        errors=errors or {},
        wait=wait,
        form_id=form_ids.new_form_id(),
        offered_methods=[method for method in METHODS if method in offered],
        lifetimes_min=LIFETIMES_MIN,
        page_languages=names("customer"),
        zone=zone,
        days=days,
        text=text,
        field_errors=text_error | product_error,
        tab=tab,
        tabs=_count_tabs(selected.counts),
        product=product,
        products=page_helpers.product_names(request, choices),
        rows=[
            Row(
                session,
                order,
                unpaid.shown_status(order, attempts.get(order.id)),
                Money(session.amount_minor, session.currency),
            )
            for order, session in zip(selected.orders, page, strict=True)
        ],
        pager=lists.Pager(query.page, selected.total),
        is_new=selected.counts is not None and not selected.counts.total(),
    )


def _count_tabs(counts: Counter[ShownStatus] | None) -> list[tuple[str, int | None]]:
    """Return the tabs with the numbers of their sessions; None if they were not counted."""
    if counts is None:
        return [(name, None) for name in ("", *_STATUSES)]
    numbers = {name: sum(counts[one] for one in parts) for name, parts in _STATUSES.items()}
    return [("", counts.total()), *numbers.items()]


def _prefill(request: PageRequest) -> dict[str, str]:
    """Return the entries of the form if the page of a customer or payment has led to it."""
    if request.query.get("sheet") != "new-session":
        return {}
    entries = {"email": lists.text(request, "for", 254), "sold": lists.text(request, "sell")}
    return {name: text for name, text in entries.items() if text}


async def _find_product(tx: Tx, request: PageRequest) -> tuple[Product | None, dict[str, str]]:
    """Return the product that the list is filtered by, None for all, and the field's error."""
    product_id = lists.text(request, "product")
    if not product_id:
        return None, {}
    try:
        if is_id(product_id):
            return await products.find(tx, request.merchant_id, product_id), {}
    except NotFound:
        pass
    return None, {"product": N_("Choose one of your products")}


async def open_one(request: PageRequest) -> Response:
    """Open a session for the product in the path, or for the one that the form chooses.

    Sending the same form again has no effect.
    """
    form = await request.form()
    opening = {name: form.get(name, "").strip() for name in session_form.FIELDS}
    show_form = product_page if "product" in request.ids else _render_list
    settings, actor = request.app.settings, people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        body = await session_form.check(tx, request, opening)
        session = await checkouts.open_session(
            tx,
            request.merchant_id,
            body,
            request.now,
            rates_max_age_days=settings.rates_max_age_days,
            agreement_required=settings.agreement_required,
        )
        await checkouts.record_opening(tx, session, actor, request.now)
        return session.id

    try:
        await rate_limits.hit_merchant(
            request.app.db, settings, "checkouts", request.merchant_id, request.now
        )
        session_id = await form_ids.run_once(request, work)
    except KeyReused:
        return await show_form(request, 422, {"open": form_ids.FORM_REUSED}, opening=opening)
    except merchants.CapabilityOff as problem:
        errors = {
            "open": N_("No session can be opened. The operator has switched payments off: {wait}")
        }
        return await show_form(request, 403, errors, opening=opening, wait=problem.why)
    except NotPermitted:
        errors = {
            "open": N_(
                "No session can be opened before an owner has accepted the "
                "merchant services agreement"
            )
        }
        return await show_form(request, 403, errors, opening=opening)
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        errors = {"open": N_("Too many sessions were opened within a minute. Try again in {wait}")}
        return await show_form(request, 429, errors, opening=opening, wait=wait)
    except Invalid:
        field_errors = await session_form.collect_errors(request, opening)
        return await show_form(request, 400, field_errors, opening=opening)
    return page_helpers.redirect(request, "sessions", session_id, done="opened")


async def show_one(request: PageRequest) -> Response:
    """Show a session and, while it can be paid, the address of its payment page."""
    return await _render_session(request)


async def _render_session(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        session = await checkouts.find(tx, merchant.id, request.ids["session"])
        order = await orders.find(tx, merchant.id, session.order_id)
        history = await orders.history(tx, merchant.id, order.id)
        attempts = await orders.attempts(tx, merchant.id, order.id)
        names = await member_names.read(tx, merchant.id)
    (listed,) = await listed_payments.read(request, [order])
    paid_by = next((one for one in attempts if one.id == order.paid_attempt_id), None)
    card = orders.card_of_attempt(paid_by) if paid_by else None
    state = unpaid.read(order, session, history, attempts)
    payable = session.status == "OPEN" and session.expires_at > request.now
    return render.page(
        request,
        "session.html",
        status,
        scripts=True,
        zone=ZoneInfo(merchant.time_zone),
        session=session,
        order=order,
        shown=listed.shown_status,
        dispute=listed.dispute,
        has_product=not products.is_stand_in(session.product_id),
        amount=Money(session.amount_minor, session.currency),
        payable=payable,
        unpaid=state,
        attempts=len(attempts),
        names=names,
        card=orders.format_card(card) if card else "",
        link=sessions_again.payment_page(request, session) if payable else "",
        again=await sessions_again.form_of(request, order, state),
        errors=errors or {},
    )


async def end(request: PageRequest) -> Response:
    """Expire an open session now. Idempotent."""
    session_id, merchant_id = request.ids["session"], request.merchant_id
    actor = people.actor_of(request.login, _REASON)
    cause = ENDED_BY_MERCHANT
    try:
        await request.app.db.run(
            lambda tx: checkouts.expire(
                tx, merchant_id, session_id, cause, request.now, actor=actor
            )
        )
    except Invalid:
        async with request.app.db.connection() as tx:
            session = await checkouts.find(tx, merchant_id, session_id)
        error = (
            N_("This session is paid already")
            if session.status == "COMPLETE"
            else N_("A payment of this session is on its way. Try again in a moment")
        )
        return await _render_session(request, 409, {"main": error})
    return page_helpers.redirect(request, "sessions", session_id, done="ended")


_PLACE: Final = f"{DASHBOARD_PATH}/sessions"
_ONE: Final = f"{_PLACE}/{{session:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show, menu=N_("Checkout sessions"), group="payments"),
    Page(
        "POST",
        _PLACE,
        "sessions.write",
        open_one,
        fields=(*session_form.SOLD, *session_form.DECLARED),
    ),
    Page(
        "POST",
        f"{DASHBOARD_PATH}/products/{{product:id}}/sessions",
        "sessions.write",
        open_one,
        fields=session_form.DECLARED,
    ),
    Page("GET", _ONE, "payments.read", show_one),
    Page("POST", f"{_ONE}/end", "sessions.write", end),
)
