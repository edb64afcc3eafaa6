"""``/checkout/…``: the payment page, from the open form to the receipt.

A payment goes through these pages: the form (POST) → 303 → the page that leads to the bank (GET, a
link and a refresh) → the bank → ``return`` (queries the gateway) → 303 → the payment page in its
new state. Each reads the current state, so that going back, reloading and two tabs are harmless.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import msgspec
import structlog
from babel.core import get_global
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import checkouts, context, gateways, merchants, orders
from opentill.context import App
from opentill.core import log
from opentill.core.errors import Invalid, MethodNotAllowed, NotFound, TooManyRequests
from opentill.core.languages import Language
from opentill.core.money import Money
from opentill.db import rate_limits
from opentill.pages import branding, forms, model, prefill, render
from opentill.pages.deposit import find_deposit
from opentill.pages.responses import page, trouble
from opentill.web import language, qr
from opentill.web.forms import check_origin, read
from opentill.web.responses import drawing, see_other
from opentill.web.translations import N_

_log: Final = structlog.get_logger()
_GATEWAY_TIMEOUT_S: Final = 3.0
# Field of an error → field of the form, and the text that the page shows beside it.
_REFUSED: Final = {
    "attempts": {"method": N_("Too many payment attempts. Please start again at the shop.")},
    "method": {
        "method": N_("This payment method is not available right now. Please choose another one.")
    },
}
_COUNT: Final = re.compile(r"\d{1,4}", re.ASCII)


class PageRequest:
    """A request for a page below /checkout."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Read the headers and the query; a malformed query counts as empty."""
        self.app = context.app_of(scope)
        self.now = self.app.clock()
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.receive = receive
        self.client_ip: str = scope["opentill_address"]
        try:
            pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=20)
        except ValueError:
            pairs = []
        self.query = dict(pairs)
        self.default_language: Language = "en"
        self.locale: Language | None = None  # the language that the shop has chosen; None: none

    def visit(self, lang: str | None = None) -> render.Visit:
        """Return the visit, in the language of the form (``lang``), the query or the browser."""
        checks = self.query.get("n", "")
        return render.Visit(
            localizer=self._localizer(lang or self.query.get("lang")),
            now=self.now,
            public_url=self.app.settings.public_url,
            checks=int(checks) if _COUNT.fullmatch(checks) else 0,
            hold="hold" in self.query,
            has_returned="returned" in self.query,
            test_mode=not self.app.settings.livemode,
        )

    def _localizer(self, lang: str | None) -> language.Localizer:
        accepted = self.headers.get(b"accept-language", b"").decode("latin-1")
        remembered = language.cookie_language("customer", self.headers) or self.locale
        return language.choose("customer", lang, accepted, self.default_language, remembered)

    def remember_language(self, response: Response) -> Response:
        """Return the response, with a cookie if the query changes the browser's language."""
        chosen = language.supported("customer", self.query.get("lang"))
        if chosen is not None and chosen != self._localizer(None).language:
            cookie = language.cookie(chosen, self.app.settings.public_url)
            response.headers.append("set-cookie", cookie)
        return response

    async def payment(self, session_id: str) -> model.Payment:
        """Find a session as the customer sees it. Raises NotFound."""
        return (await self.find_payment(session_id))[1]

    async def find_payment(self, session_id: str) -> tuple[checkouts.PageView, model.Payment]:
        """Find a session, and the payment as the customer sees it. Raises NotFound.

        Orders of the Epay API get a page in Chinese unless the browser prefers another language.
        """
        view = await checkouts.find_page_view(self.app.db, session_id)
        if view is None:
            raise NotFound
        log.merchant.set(view.order.merchant_id)
        deployment = self.app.settings.livemode
        (order,) = await orders.all_with_livemode(
            self.app.db.read, [view.order], deployment=deployment
        )
        view = msgspec.structs.replace(view, order=order)
        self.locale = view.session.locale
        zone = self.guess_zone() or ZoneInfo(view.session.time_zone)
        payment = _payment(view, self.app, zone)
        # Only the payment form shows the whole email address; other pages mask it.
        if model.state_of(payment, self.now) == "open":
            email, name = self._prefilled(view)
            payment = msgspec.structs.replace(payment, email=email, name=name)
        if view.order.source == "EPAY":
            self.default_language = "zh-Hans"
            # The return address is signed, which proves to the shop that the order is paid.
            if model.state_of(payment, self.now) == "paid":
                address = await self.app.return_address(
                    self.app, view.order.merchant_id, view.order.id
                )
                payment = msgspec.structs.replace(payment, success_url=address)
        return view, payment

    def guess_zone(self) -> ZoneInfo | None:
        """Guess the time zone from the region of the browser's first language.

        Returns None unless the region has only one time zone.
        """
        accepted = self.headers.get(b"accept-language", b"").decode("latin-1")
        first = accepted.partition(",")[0].partition(";")[0].strip()
        region = first.replace("_", "-").rpartition("-")[2].upper()
        zones: list[str] = get_global("territory_zones").get(region, [])
        return ZoneInfo(zones[0]) if len(zones) == 1 else None

    def _prefilled(self, view: checkouts.PageView) -> tuple[str, str]:
        """Return email and name for the form.

        If this browser has sent the order's email or name, these are returned, else those that the
        merchant has prefilled.
        """
        session, order, key = view.session, view.order, self.app.settings.secret_key
        token, name = prefill.token_in(self.headers), order.customer_name or ""
        prefilled = session.customer_email, session.customer_name or ""
        if not token:
            return prefilled
        if prefill.proves(token, key, session.id, order.customer_email, name):
            return order.customer_email, name
        if prefill.proves(token, key, session.id, order.customer_email, ""):
            # This browser sent the order's email, but somebody else may have sent the name: do not
            # show it.
            return order.customer_email, prefilled[1]
        return prefilled


def _payment(view: checkouts.PageView, app: App, zone: ZoneInfo) -> model.Payment:
    session, order, last = view.session, view.order, view.last_attempt
    # The page reads the last attempt only, so that the card of an earlier one is not shown.
    is_paid_by_last = last is not None and last.id == order.paid_attempt_id
    card = orders.card_of_attempt(last) if last is not None and is_paid_by_last else None
    currency = session.currency
    offered = gateways.offered_methods(
        app.gateways,
        currency,
        amount_minor=order.amount_minor,
        merchant_id=session.merchant_id,
        fee_of=partial(orders.fee_of, order),
    )
    return model.Payment(
        session_id=session.id,
        session_status=session.status,
        expires_at=session.expires_at,
        merchant=session.display_merchant_name,
        item=model.Item(order.product_name, order.product_description, order.product_image),
        amount=Money(order.amount_minor, order.currency),
        order_id=order.id,
        order_status=order.status,
        success_url=session.success_url,
        cancel_url=session.cancel_url,
        email=order.customer_email or session.customer_email,
        email_optional=order.source == "EPAY",
        name=order.customer_name or session.customer_name or "",
        paid_at=order.paid_at,
        zone=zone,
        method=order.payment_method,
        card=orders.format_card(card) if card else "",
        refunded=Money(order.refunded_minor, order.currency),
        livemode=bool(order.livemode),  # the order comes from all_with_livemode, so it is not None
        stopped=session.charge_off is not None,
        methods=tuple(
            method for method in model.METHODS if method in offered and session.accepts(method)
        ),
        wallet=gateways.find_wallet(
            app.gateways,
            gateways.PaymentFacts(
                method="CREDIT_CARD",
                currency=currency,
                amount_minor=order.amount_minor,
                merchant_id=session.merchant_id,
            ),
        ),
        attempt=None
        if last is None
        else model.Attempt(
            id=last.id,
            status=last.status,
            method=last.method,
            action_url=last.action_url,
            qr_text=last.qr_text,
            reason=last.reason,
        ),
        brand=branding.brand_of(session),
        quantity=order.quantity or 1,
        reference=order.client_reference,
    )


async def show(request: PageRequest, session_id: str) -> Response:
    """Show the page for the payment's state."""
    payment = await request.payment(session_id)
    visit = request.visit()
    state = model.state_of(payment, request.now)
    if state == "open":
        html = render.open_page(payment, visit)
    else:
        html = render.status_page(payment, visit, state)
    return page(html, visit.localizer.language)


async def submit(request: PageRequest, session_id: str) -> Response:
    """Start an attempt with the form's entries and redirect to it, or show their errors."""
    check_origin(request.headers, request.app.settings.public_url)
    await count_form(request, "pay")
    form = await read(request.headers, request.receive)
    view, payment = await request.find_payment(session_id)
    visit = request.visit(form.get("lang"))
    if model.state_of(payment, request.now) != "open":
        return see_other(render.path(payment, visit))
    entries = forms.entries(form)
    errors = forms.errors(entries, payment)
    attempt = None
    if not errors:
        try:
            attempt = await checkouts.pay(
                request.app.db,
                request.app.gateways,
                session_id,
                checkouts.PayerInput(
                    email=entries.email,
                    name=entries.name,
                    method=entries.method,
                    ip=request.client_ip,
                    locale=visit.localizer.language,
                    on_phone=_is_phone(request.headers),
                ),
                request.app.settings.public_url,
                request.now,
                seen=view,
            )
        except Invalid as problem:
            _log.info("payment form refused", field=problem.field)
            errors = _REFUSED.get(
                problem.field or "",
                {"email": N_("The payment could not be started. Please try again.")},
            )
    if errors:
        html = render.open_page(payment, visit, entries, errors)
        return page(html, visit.localizer.language, 400)
    settings, ttl_ms = request.app.settings, payment.expires_at - request.now
    payer = (entries.email, entries.name)
    headers = {
        "set-cookie": prefill.cookie(
            settings.secret_key, settings.public_url, session_id, payer, ttl_ms
        )
    }
    if attempt is not None and attempt.status == "ACTION_REQUIRED":
        return see_other(render.path(payment, visit, "continue", attempt.id), headers)
    return see_other(render.path(payment, visit), headers)


def _is_phone(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the User-Agent header is one of a phone's browser."""
    return b"Mobi" in headers.get(b"user-agent", b"")


async def count_form(request: PageRequest, form: str) -> None:
    """Count a form towards the limit of the client's address.

    Raises TooManyRequests (decision 0030).
    """
    await count_request(request, form, request.app.settings.limit_payments_per_minute)


async def count_request(request: PageRequest, scope: str, limit: int) -> None:
    """Count a request towards the limit of the client's address per minute.

    ``limit`` 0 means no limit. Raises TooManyRequests.
    """
    if not limit:
        return
    subject = merchants.limit_subject(request.client_ip)
    async with request.app.db.connection() as tx:
        if await rate_limits.hit(tx, scope, subject, limit, request.now) is None:
            wait = await rate_limits.retry_after_s(tx, scope, subject, request.now)
            raise TooManyRequests(limit, wait)


async def proceed(request: PageRequest, session_id: str, attempt_id: str) -> Response:
    """Show the page that leads to the bank, while the attempt waits for the customer."""
    view, payment = await request.find_payment(session_id)
    visit = request.visit()
    attempt = _waiting_for_customer(payment, attempt_id, request.now)
    if attempt is None:
        return see_other(render.path(payment, visit))
    deposit = await find_deposit(request.app, view)
    if deposit is not None:
        symbol = request.query.get("token", "")
        html = render.deposit_page(payment, visit, attempt, deposit, symbol)
        return page(html, visit.localizer.language)
    html = render.continue_page(payment, visit, attempt)
    # Providers such as WeChat Pay (H5) let only the site that is registered with them open their
    # pages, and recognize it by the referrer. It discloses the origin, and no address of a session.
    headers = {"referrer-policy": "strict-origin"} if attempt.action_url else None
    return page(html, visit.localizer.language, headers=headers)


async def return_from_gateway(request: PageRequest, session_id: str, attempt_id: str) -> Response:
    """Query the gateway for the attempt's outcome, briefly, and redirect to the page."""
    view, payment = await request.find_payment(session_id)
    visit = request.visit()
    try:
        async with asyncio.timeout(_GATEWAY_TIMEOUT_S):
            await checkouts.refresh_attempt(
                request.app.db, request.app.gateways, view, attempt_id, request.now
            )
    except TimeoutError:
        _log.warning("gateway slow", attempt=attempt_id)  # the worker will query the gateway again
        return see_other(render.path(payment, visit))
    # The page then says that the bank reports no payment, if the attempt still waits.
    return see_other(render.path(payment, visit, returned="1"))


async def leave_for_shop(request: PageRequest, session_id: str) -> Response:
    """Redirect to the shop of a paid Epay order, by an address that is signed now."""
    view, payment = await request.find_payment(session_id)
    address = None
    if view.order.source == "EPAY" and model.state_of(payment, request.now) == "paid":
        address = await request.app.return_address(
            request.app, view.order.merchant_id, view.order.id, at_once=True
        )
    back = address or render.path(payment, request.visit())
    return see_other(back, {"referrer-policy": "no-referrer"})


async def qr_code(request: PageRequest, session_id: str, attempt_id: str) -> Response:
    """Draw the QR code for the customer's wallet."""
    view, payment = await request.find_payment(session_id)
    attempt = _waiting_for_customer(payment, attempt_id, request.now)
    if attempt is None or not attempt.qr_text:
        raise NotFound
    deposit = await find_deposit(request.app, view)
    tokens = {} if deposit is None else {each.symbol: each.uri for each in deposit.tokens}
    text = tokens.get(request.query.get("token", ""), attempt.qr_text)
    return drawing(qr.svg(text))


def _waiting_for_customer(
    payment: model.Payment, attempt_id: str, now: int
) -> model.Attempt | None:
    attempt = model.unfinished(payment)
    if attempt is None or attempt.id != attempt_id or model.state_of(payment, now) != "open":
        return None
    return attempt


_Handler = Callable[..., Awaitable[Response]]


class Endpoint:
    """A path of customers' pages as an ASGI application, with pages for errors."""

    def __init__(self, handlers: Mapping[str, _Handler]) -> None:
        """``handlers`` by method; without any, the path is not found."""
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        request = PageRequest(scope, receive)
        visit, ids = request.visit(), scope["path_params"]
        again = None
        if "session" in ids:
            again = f"{visit.base}/checkout/{ids['session']}?lang={visit.localizer.language}"
        try:
            response = await self._handler(scope["method"])(request, *ids.values())
        except Exception as error:  # noqa: BLE001 - logged by trouble()
            response = trouble(error, visit, again)
        await request.remember_language(response)(scope, receive, send)

    def _handler(self, method: str) -> _Handler:
        if not self._handlers:
            raise NotFound
        method = "GET" if method == "HEAD" else method
        if method not in self._handlers:
            raise MethodNotAllowed(("HEAD", *self._handlers))
        return self._handlers[method]


_NO_PAGE: Final = Endpoint({})
_SESSION: Final = "/checkout/{session:id}"
routes: Final = (
    Route(_SESSION, Endpoint({"GET": show, "POST": submit})),
    Route(_SESSION + "/continue/{attempt:id}", Endpoint({"GET": proceed})),
    Route(_SESSION + "/return/{attempt:id}", Endpoint({"GET": return_from_gateway})),
    Route(_SESSION + "/shop", Endpoint({"GET": leave_for_shop})),
    Route(_SESSION + "/qr/{attempt:id}.svg", Endpoint({"GET": qr_code})),
    Route("/checkout", _NO_PAGE),
    Route("/checkout/{rest:path}", _NO_PAGE),
)
