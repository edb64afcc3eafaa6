"""``/checkout/…``: the hosted page, from the open form to the receipt.

The customer's way: the form (POST) → 303 → the step to the bank (GET, a link and a refresh) → the
bank → ``return`` (asks the gateway) → 303 → the page again, in whatever state it is by then. Each
step reads what is true now, so that going back, reloading and paying in two tabs are harmless.
"""

import asyncio
import io
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

import msgspec
import segno
import structlog
from litestar import asgi

from opentill import checkouts, gateways, merchants, orders
from opentill.context import App
from opentill.core.errors import Invalid, MethodNotAllowed, NotFound, TooManyRequests
from opentill.core.money import Money
from opentill.db import rate_limits
from opentill.pages import forms, language, model, prefill, render, responses
from opentill.pages.catalogue import Language
from opentill.pages.responses import PageResponse

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive, Scope, Send

_log: Final = structlog.get_logger()
_ASK_GATEWAY_S: Final = 3.0
_REFUSED: Final = {"attempts": {"method": "error_attempts"}}  # field of a problem → of the form
_STEP: Final = re.compile(r"\d{1,4}", re.ASCII)
_ID: Final = "([a-z]{2,5}_[0-9a-z]{16,40})"


class Request:
    """One request for a page: what came, and what can be done with it."""

    def __init__(self, scope: "Scope", receive: "Receive") -> None:
        """Read what stands in the head; a query that is none counts as empty."""
        self.app: App = scope["litestar_app"].state.app
        self.now = self.app.clock()
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.receive = receive
        self.client_ip: str = cast("dict[str, Any]", scope)["opentill_address"]  # the edge's
        try:
            pairs = parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=20)
        except ValueError:
            pairs = []
        self.query = dict(pairs)
        self.unless_said: Language = "en"

    def visit(self, lang: str | None = None) -> render.Visit:
        """Say who looks, with the language that a form has named, or the query, or the browser."""
        accepted = self.headers.get(b"accept-language", b"").decode("latin-1")
        step = self.query.get("n", "")
        return render.Visit(
            tongue=language.choose(lang or self.query.get("lang"), accepted, self.unless_said),
            now=self.now,
            public_url=self.app.settings.public_url,
            step=int(step) if _STEP.fullmatch(step) else 0,
            hold="hold" in self.query,
            test_mode=not self.app.settings.livemode,
        )

    async def payment(self, session_id: str) -> model.Payment:
        """Look a session up as its customer sees it. Raises NotFound.

        Customers of the Epay door are spoken to in Chinese, unless their browser says otherwise.
        """
        view = await checkouts.page_view(self.app.db, session_id)
        if view is None:
            raise NotFound
        deployment = self.app.settings.livemode
        (order,) = await orders.all_with_livemode(
            self.app.db.read, [view.order], deployment=deployment
        )
        view = msgspec.structs.replace(view, order=order)
        payment = _payment(view, self.app)
        if model.state_of(payment, self.now) == "open":  # elsewhere the e-mail is masked
            email, name = self._prefilled(view)
            payment = msgspec.structs.replace(payment, email=email, name=name)
        if view.order.source == "EPAY":
            self.unless_said = "zh-Hans"
            if model.state_of(payment, self.now) == "paid":  # never before: it is signed
                address = await self.app.return_address(view.order.merchant_id, view.order.id)
                payment = msgspec.structs.replace(payment, success_url=address)
        return payment

    def _prefilled(self, view: checkouts.PageView) -> tuple[str, str]:
        """Return what the form begins with: what this browser has typed, or the merchant's own."""
        session, order, key = view.session, view.order, self.app.settings.secret_key
        shown, name = prefill.given(self.headers), order.customer_name or ""
        prefilled = session.customer_email, session.customer_name or ""
        if not shown:
            return prefilled
        if prefill.proves(shown, key, session.id, order.customer_email, name):
            return order.customer_email, name
        if prefill.proves(shown, key, session.id, order.customer_email, ""):
            return order.customer_email, prefilled[1]  # the name is of somebody before
        return prefilled


def _payment(view: checkouts.PageView, app: App) -> model.Payment:
    session, order, last = view.session, view.order, view.last_attempt
    currency = session.currency
    offered = gateways.offered(app.gateways, currency)
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
        method=order.payment_method,
        refunded=Money(order.refunded_minor, order.currency),
        livemode=bool(order.livemode),  # it is known by now
        methods=tuple(
            method
            for method in model.METHODS
            if method in offered and session.method in {None, method}
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
    )


async def show(request: Request, session_id: str) -> PageResponse:
    """Show the page of the state that the payment is in."""
    payment = await request.payment(session_id)
    visit = request.visit()
    state = model.state_of(payment, request.now)
    if state == "open":
        made = render.open_page(payment, visit)
    else:
        made = render.status_page(payment, visit, state)
    return responses.page(made, visit.tongue.language)


async def submit(request: Request, session_id: str) -> PageResponse:
    """Take the form: start an attempt and go on to it, or show what is wrong with the entries."""
    forms.check_origin(request.headers, request.app.settings.public_url)
    await _count(request)
    form = await forms.read(request.headers, request.receive)
    payment = await request.payment(session_id)
    visit = request.visit(form.get("lang"))
    if model.state_of(payment, request.now) != "open":
        return responses.see_other(render.path(payment, visit))
    entries = forms.entries(form)
    errors = forms.errors(entries, payment)
    attempt = None
    if not errors:
        try:
            attempt = await checkouts.pay(
                request.app.db,
                request.app.gateways,
                session_id,
                email=entries.email,
                name=entries.name,
                method=entries.method,
                payer_ip=request.client_ip,
                locale=visit.tongue.language,
                public_url=request.app.settings.public_url,
                now=request.now,
            )
        except Invalid as problem:
            _log.info("payment form refused", field=problem.field)
            errors = _REFUSED.get(problem.field or "", {"email": "error_form"})
    if errors:
        made = render.open_page(payment, visit, entries, errors)
        return responses.page(made, visit.tongue.language, 400)
    settings, left_ms = request.app.settings, payment.expires_at - request.now
    typed = (entries.email, entries.name)
    own = {
        "set-cookie": prefill.cookie(
            settings.secret_key, settings.public_url, session_id, typed, left_ms
        )
    }
    if attempt is not None and attempt.status == "ACTION_REQUIRED":
        return responses.see_other(render.path(payment, visit, "continue", attempt.id), own)
    return responses.see_other(render.path(payment, visit), own)


async def _count(request: Request) -> None:
    """Count a payment form against its address. Raises TooManyRequests (decision 0030)."""
    limit = request.app.settings.limit_payments_per_minute
    if not limit:
        return
    subject = merchants.limit_subject(request.client_ip)
    async with request.app.db.connection() as tx:
        if await rate_limits.hit(tx, "pay", subject, limit, request.now) is None:
            wait = await rate_limits.retry_after_s(tx, "pay", subject, request.now)
            raise TooManyRequests(limit, wait)


async def proceed(request: Request, session_id: str, attempt_id: str) -> PageResponse:
    """Show the step to the bank, as long as the attempt waits for the customer."""
    payment = await request.payment(session_id)
    visit = request.visit()
    attempt = _waiting_for_customer(payment, attempt_id, request.now)
    if attempt is None:
        return responses.see_other(render.path(payment, visit))
    made = render.continue_page(payment, visit, attempt)
    return responses.page(made, visit.tongue.language)


async def come_back(request: Request, session_id: str, attempt_id: str) -> PageResponse:
    """Ask the gateway what became of the attempt, for a moment, and show the page."""
    payment = await request.payment(session_id)
    visit = request.visit()
    try:
        async with asyncio.timeout(_ASK_GATEWAY_S):
            await checkouts.refresh(
                request.app.db, request.app.gateways, session_id, attempt_id, request.now
            )
    except TimeoutError:
        _log.warning("gateway slow", attempt=attempt_id)  # the worker goes on asking
    return responses.see_other(render.path(payment, visit))


async def qr_code(request: Request, session_id: str, attempt_id: str) -> PageResponse:
    """Draw the code that the wallet scans."""
    payment = await request.payment(session_id)
    attempt = _waiting_for_customer(payment, attempt_id, request.now)
    if attempt is None or not attempt.qr_text:
        raise NotFound
    image = io.BytesIO()
    try:
        code = segno.make(attempt.qr_text, error="m", micro=False)
    except segno.DataOverflowError:
        raise NotFound from None
    code.save(image, kind="svg", scale=8, border=4, light="#fff", svgclass=None, lineclass=None)
    return responses.drawing(image.getvalue())


def _waiting_for_customer(
    payment: model.Payment, attempt_id: str, now: int
) -> model.Attempt | None:
    attempt = model.unfinished(payment)
    if attempt is None or attempt.id != attempt_id or model.state_of(payment, now) != "open":
        return None
    return attempt


_Handler = Callable[..., Awaitable[PageResponse]]

# path → method → handler, which gets the ids; the path as it is written is the metrics' label
ROUTES: Final[Mapping[str, Mapping[str, _Handler]]] = {
    "/checkout/{session}": {"GET": show, "POST": submit},
    "/checkout/{session}/continue/{attempt}": {"GET": proceed},
    "/checkout/{session}/return/{attempt}": {"GET": come_back},
    "/checkout/{session}/qr/{attempt}.svg": {"GET": qr_code},
}
_PATTERNS: Final = {
    path: re.compile(re.escape(path).replace(r"\{session\}", _ID).replace(r"\{attempt\}", _ID))
    for path in ROUTES
}


@asgi("/checkout", is_mount=True, copy_scope=False)
async def checkout(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Answer everything under /checkout, what goes wrong too, with pages."""
    answer = await _answer(scope, receive)
    await answer.send(send)


async def _answer(scope: "Scope", receive: "Receive") -> PageResponse:
    request = Request(scope, receive)
    visit = request.visit()
    route, ids = _match("/checkout/" + scope["path"].removeprefix("/checkout").strip("/"))
    cast("dict[str, Any]", scope)["opentill_route"] = route or "/checkout"  # for the metrics
    ways = ROUTES.get(route, {})
    again = f"{visit.base}/checkout/{ids[0]}?lang={visit.tongue.language}" if ids else None
    asked = str(cast("HTTPScope", scope)["method"])
    method = "GET" if asked == "HEAD" else asked
    try:
        return await _handler(ways, method)(request, *ids)
    except Exception as error:  # noqa: BLE001 - the customer gets a page, the log the rest
        return responses.trouble(error, visit, again, ", ".join(("HEAD", *ways)))


def _handler(ways: Mapping[str, _Handler], method: str) -> _Handler:
    if not ways:
        raise NotFound
    if method not in ways:
        raise MethodNotAllowed
    return ways[method]


def _match(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the route of a path and the ids in it; empty if there is none."""
    for route, pattern in _PATTERNS.items():
        if found := pattern.fullmatch(path):
            return route, found.groups()
    return "", ()


routes: Final[list[Any]] = [checkout]
