"""``/pay/…``: the page of a payment link, where customers open sessions of their own.

Opening the page creates nothing, so that previews and prefetching do not count as uses. The form
(POST) opens one session, however often it is sent, and redirects to its payment page. If all
customers pay the same amount, the page has the payment form, and the redirect (307) sends it on.
"""

import re
import secrets
from typing import Final

import msgspec
import structlog
from starlette.responses import Response
from starlette.routing import Route

from opentill import checkouts, gateways, merchants, payment_links
from opentill.checkouts import Session
from opentill.context import App
from opentill.core.errors import Invalid, NotFound, NotPermitted
from opentill.core.money import Money
from opentill.core.payment_methods import Method
from opentill.db.database import Tx
from opentill.http import idempotency
from opentill.pages import branding, model, render
from opentill.pages.payment_page import Endpoint, PageRequest, count_form
from opentill.pages.responses import page
from opentill.payment_links import LinkOffer, Selection, TooManyHeld, Unusable
from opentill.web import cookies, qr
from opentill.web.forms import check_origin, read
from opentill.web.responses import GUARDS, drawing, post_again, see_other
from opentill.web.translations import N_

_log: Final = structlog.get_logger()
_SLUG: Final = re.compile(r"[0-9a-z]{32}", re.ASCII)
_FORM_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_COOKIE: Final = "opentill_link"
_GONE: Final = 410
_TOO_MANY: Final = 429
_SEE_OTHER: Final = 303
_MAX_ENTRY: Final = 16  # longer entries in the form are cut to this many characters


class _SessionEnded(Exception):
    """The session that the form has opened before can no longer be paid."""


async def _find_offer(request: PageRequest, slug: str) -> LinkOffer:
    """Find the offer of a link. Raises NotFound."""
    if _SLUG.fullmatch(slug) is None:
        raise NotFound
    async with request.app.db.connection() as tx:
        offer = await payment_links.find_offer(tx, slug, request.now)
    request.locale = offer.link.locale
    return offer


async def _page(
    request: PageRequest,
    offer: LinkOffer,
    lang: str | None = None,
    *,
    state: str | None = None,
    status: int = 200,
    entries: model.LinkEntries | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    """Show the page of a link; ``state`` replaces the state of the offer."""
    link, state = offer.link, state or offer.state
    session_id = cookies.read_cookie(request.headers, _COOKIE).decode("latin-1")
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, link.merchant_id)
        unfinished = await payment_links.find_open_session(tx, link, session_id, request.now)
    if merchant.charge_off is not None:
        state, unfinished = "INACTIVE", None
    entries = entries or model.LinkEntries(quantity=request.query.get("quantity", "1"))
    methods: tuple[Method, ...] = ()
    if state == "ACTIVE" and unfinished is None and _has_one_amount(offer):
        methods = _methods(request.app, offer)
        entries = msgspec.structs.replace(entries, method=methods[0] if methods else "")
    quantity = _quantity(entries)
    if not 1 <= quantity <= link.max_quantity:
        quantity = 1
    if not errors:
        entries = msgspec.structs.replace(entries, quantity=str(quantity))
    view = model.Link(
        slug=link.slug,
        state=state,
        merchant=merchant.display_name or merchant.name,
        item=model.Item(offer.name, offer.description, offer.image),
        least=Money(offer.least_minor, offer.currency),
        most=Money(offer.most_minor, offer.currency),
        most_at_once=link.max_quantity,
        quantity=quantity,
        reference=link.client_reference,
        unfinished=None if unfinished is None else unfinished.id,
        livemode=request.app.settings.livemode,
        brand=branding.brand_of(merchant),
        methods=methods,
        wallet=_wallet(request.app, offer) if methods else "",
    )
    if state != "ACTIVE" and unfinished is None and status == 200:  # noqa: PLR2004 - of HTTP
        status = _GONE
    entries = msgspec.structs.replace(entries, form_id=secrets.token_hex(16))
    visit = request.visit(lang)
    html = render.link_page(view, visit, entries, errors)
    return page(html, visit.localizer.language, status)


def _has_one_amount(offer: LinkOffer) -> bool:
    """Whether every customer pays the same, so that the link's page can have the payment form."""
    return offer.least_minor == offer.most_minor and offer.link.max_quantity == 1


def _methods(app: App, offer: LinkOffer) -> tuple[Method, ...]:
    link = offer.link
    offered = gateways.offered_methods(
        app.gateways,
        offer.currency,
        amount_minor=offer.least_minor,
        merchant_id=link.merchant_id,
    )
    allowed = offered if link.methods is None else link.methods
    return tuple(method for method in model.METHODS if method in offered and method in allowed)


def _wallet(app: App, offer: LinkOffer) -> str:
    payment = gateways.PaymentFacts(
        method="CREDIT_CARD",
        currency=offer.currency,
        amount_minor=offer.least_minor,
        merchant_id=offer.link.merchant_id,
    )
    return gateways.find_wallet(app.gateways, payment)


async def show(request: PageRequest, slug: str) -> Response:
    """Show the offer of the link, or why it cannot be used."""
    return await _page(request, await _find_offer(request, slug))


async def submit(request: PageRequest, slug: str) -> Response:
    """Open a session and redirect to its payment page; the same form again opens no other one."""
    check_origin(request.headers, request.app.settings.public_url)
    await count_form(request, "link")
    form = await read(request.headers, request.receive)
    offer = await _find_offer(request, slug)
    entries = model.LinkEntries(
        quantity=form.get("quantity", "1").strip()[:_MAX_ENTRY],
        amount=form.get("amount", "").strip()[:_MAX_ENTRY],
        form_id=form.get("form_id", ""),
    )
    lang = form.get("lang")
    visit = request.visit(lang)
    try:
        session = await _open_session(request, offer, entries)
    except _SessionEnded:
        return see_other(f"{visit.base}/pay/{slug}?lang={visit.localizer.language}")
    except (Unusable, TooManyHeld) as refused:
        status = _TOO_MANY if isinstance(refused, TooManyHeld) else 200
        return await _page(request, offer, lang, state=refused.state, status=status)
    except NotPermitted:
        return await _page(request, offer, lang, state="INACTIVE", status=403)
    except Invalid as problem:
        errors = _errors(problem, entries, offer)
        if errors:
            return await _page(request, offer, lang, status=400, entries=entries, errors=errors)
        _log.warning("payment link refused", link=offer.link.id, reason=problem.reason)
        return await _page(request, offer, lang, state="INACTIVE", status=400)
    cookie = cookies.cookie_header(
        _COOKIE,
        session.id,
        public_url=request.app.settings.public_url,
        path=f"/pay/{slug}",
        age_s=max(0, session.expires_at - request.now) // 1000,
    )
    address = f"{visit.base}/checkout/{session.id}?lang={visit.localizer.language}"
    # The browser sends a payment form on to the payment page, which pays or shows its errors. If
    # the price has changed since the customer read it, the payment page shows the new one first.
    price = f"{offer.least_minor} {offer.currency}"
    has_form = "method" in form and _has_one_amount(offer) and form.get("price") == price
    redirect = post_again if has_form else see_other
    return redirect(address, {"set-cookie": cookie})


def _errors(problem: Invalid, entries: model.LinkEntries, offer: LinkOffer) -> dict[str, str]:
    """Return the text for the field that the customer can correct, {} if there is no such field."""
    if problem.field == "amount":
        return {"amount": N_("Enter an amount from {least} to {most}")}
    if problem.field == "quantity":
        is_in_range = 1 <= _quantity(entries) <= offer.link.max_quantity
        return {
            "quantity": N_("Enter a smaller quantity: the total is too large")
            if is_in_range
            else N_("Enter a whole number from 1 to {most}")
        }
    return {}


def _quantity(entries: model.LinkEntries) -> int:
    """Return the quantity as a number, 0 if the input is not a number."""
    return int(entries.quantity) if _NUMBER.fullmatch(entries.quantity) else 0


async def _open_session(
    request: PageRequest, offer: LinkOffer, entries: model.LinkEntries
) -> Session:
    """Open a session, or return the one that this form has opened. Raises _SessionEnded."""
    app, link, now = request.app, offer.link, request.now
    limited = app.settings.limit_payments_per_minute
    selection = Selection(
        quantity=_quantity(entries),
        amount=entries.amount,
        visitor=merchants.limit_subject(request.client_ip) if limited else None,
    )

    async def work(tx: Tx) -> Session:
        return await payment_links.open_session(
            tx, app.gateways, link, selection, app.settings, now
        )

    if _FORM_ID.fullmatch(entries.form_id) is None:
        return await app.db.run(work)
    body = msgspec.json.encode([entries.form_id, entries.quantity, entries.amount])
    digest = idempotency.fingerprint("POST", f"/pay/{link.slug}", body)
    key = f"link {digest.hex()}"

    async def work_once(tx: Tx) -> Session:
        stored = await idempotency.claim(tx, link.merchant_id, key, digest, now)
        if stored is not None:
            return await _find_session(tx, link.merchant_id, stored.body.decode(), now)
        session = await work(tx)
        await idempotency.store(tx, link.merchant_id, key, _SEE_OTHER, session.id.encode())
        return session

    return await app.db.run(work_once)


async def _find_session(tx: Tx, merchant_id: str, session_id: str, now: int) -> Session:
    """Find a session that was opened before. Raises _SessionEnded."""
    session = await checkouts.find(tx, merchant_id, session_id)
    if session.status == "EXPIRED" or (session.status == "OPEN" and session.expires_at <= now):
        raise _SessionEnded
    return session


async def _address(request: PageRequest, slug: str) -> str:
    offer = await _find_offer(request, slug)
    return offer.link.address(request.app.settings.public_url)


async def qr_svg(request: PageRequest, slug: str) -> Response:
    """Draw the QR code of the link's address."""
    return drawing(qr.svg(await _address(request, slug)))


async def qr_png(request: PageRequest, slug: str) -> Response:
    """Draw the QR code of the link's address for programs that cannot read SVG."""
    content = qr.png(await _address(request, slug))
    return Response(content, 200, {**GUARDS, "cache-control": "no-store"}, "image/png")


_LINK: Final = "/pay/{slug}"
routes: Final = (
    Route(_LINK, Endpoint({"GET": show, "POST": submit})),
    Route(f"{_LINK}/qr.svg", Endpoint({"GET": qr_svg})),
    Route(f"{_LINK}/qr.png", Endpoint({"GET": qr_png})),
    Route("/pay", Endpoint({})),
    Route("/pay/{rest:path}", Endpoint({})),
)
