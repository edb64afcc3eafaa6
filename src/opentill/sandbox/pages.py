"""The bank's pages for customers: the card form, 3-D Secure, the wallet's QR code, the phone.

They work without JavaScript. The response to a form is always a redirect to a page of the bank, and
a link or refresh of that page leads to the shop. So reloading, going back and posting twice are
harmless, and no content security policy on form targets blocks the way to the shop.
"""

import hashlib
import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

import jinja2
import msgspec
import segno
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox import amounts, labels, language
from opentill.sandbox.bank import Bank
from opentill.sandbox.cards import TEST_CARDS, CardForm, read_card, spaced
from opentill.sandbox.http import bank_of, read_form, store_of
from opentill.sandbox.labels import PAYMENT_METHOD
from opentill.sandbox.language import N_, NC_
from opentill.sandbox.model import Payment, PaymentStatus, Refusal
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

T = TypeVar("T")
_FOLDER: Final = Path(__file__).parent
_STATIC: Final = {
    name: ((_FOLDER / "static" / name).read_bytes(), media_type)
    for name, media_type in (("sandbox.css", "text/css"), ("logo.svg", "image/svg+xml"))
}
_VERSION: Final = hashlib.sha256(b"".join(body for body, _ in _STATIC.values())).hexdigest()[:12]

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# Status of the payment → style of the result page. Heading and text are in ``labels``.
_ENDS: Final[dict[PaymentStatus, str]] = {
    "succeeded": "good",
    "declined": "bad",
    "refused": "bad",
    "voided": "bad",
    "processing": "wait",
}
# HTTP status → heading and text of the error page.
_ERROR_TEXTS: Final = {
    404: (N_("Page not found"), N_("The sandbox bank has no such payment.")),
    400: (N_("Something went wrong"), N_("The form is incomplete. Go back and try again.")),
    409: (
        N_("Something went wrong"),
        N_("This is not possible for this payment or refund."),
    ),
}


class Decision(msgspec.Struct, frozen=True):
    """The form of the buttons on the pages of the phone, the transfer and 3-D Secure."""

    decision: Literal["approve", "decline"]


class DeskRefund(msgspec.Struct, frozen=True):
    """The form of a refund at the desk: decimal text, "" for all that is left."""

    amount: str = ""


class DeskReversal(msgspec.Struct, frozen=True):
    """The form that reverses a refund."""

    refund: str


class Pages:
    """Renders the templates; ``public_url`` may have a path below which the bank is served."""

    def __init__(self, public_url: str) -> None:
        """Load the templates of the package."""
        self.base = urlsplit(public_url).path.rstrip("/")
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def show(
        self,
        request: Request,
        template: str,
        payment: Payment | None = None,
        status: int = 200,
        **words: object,
    ) -> Response:
        """Render a page in the customer's language, with a summary of ``payment`` unless None."""
        locale = "" if payment is None else payment.locale
        localizer = language.choose(locale, request.headers.get("accept-language", ""))
        if payment is not None:
            amount = amounts.show(payment.amount_minor, payment.currency, localizer.locale)
            merchant = payment.merchant_name or localizer.gettext("the shop")
            words |= {"payment": payment, "amount": amount, "merchant": merchant}
            words["needs_code"] = amounts.has_shared_sign(amount)
            words |= {"method": localizer.gettext(PAYMENT_METHOD[payment.method])}
        text = self._templates.get_template(template).render(
            **words,
            base=self.base,
            version=_VERSION,
            _=localizer.gettext,
            pgettext=localizer.pgettext,
            labels=labels,
            N_=N_,
            NC_=NC_,
            language=localizer.language,
        )
        headers = {
            **HEADERS,
            "Cache-Control": "no-store",
            "Content-Language": localizer.language,
            "Vary": "Accept-Language",
        }
        return Response(text, status, headers, "text/html")

    def go(self, path: str) -> Response:
        """Redirect to another page of the bank."""
        headers = {**HEADERS, "Cache-Control": "no-store", "Location": self.base + path}
        return Response("", 303, headers, "text/plain")


def refusal(request: Request, status: int) -> Response:
    """Return the page of a refusal with this HTTP status."""
    heading, text = _ERROR_TEXTS.get(
        status,
        (N_("Something went wrong"), N_("Go back and try again. You will not be charged twice.")),
    )
    return _pages(request).show(request, "message.html", status=status, heading=heading, text=text)


def _pages(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages


async def _do(request: Request, work: Callable[[Tx, Bank, str], T]) -> T:
    """Run ``work`` in a transaction of the bank, with the id of the page's payment."""
    bank, payment_id = bank_of(request), request.path_params["id"]
    return await store_of(request).do(lambda tx: work(tx, bank, payment_id))


async def _find(request: Request) -> Payment:
    return await _do(request, lambda tx, bank, payment_id: bank.find_payment(tx, payment_id))


async def _read_approval(request: Request) -> bool:
    return (await read_form(request, Decision)).decision == "approve"


def _other_page(payment: Payment) -> str | None:
    """Return the page to which the customer is redirected; None for the payment's own page."""
    if payment.status != "action_required":
        return f"/done/{payment.id}"
    return f"/3ds/{payment.id}" if payment.challenged else None


def _redirect(request: Request, payment: Payment) -> Response:
    return _pages(request).go(_other_page(payment) or f"/pay/{payment.id}")


async def home(request: Request) -> Response:
    """Show a page that explains the sandbox bank."""
    return _pages(request).show(
        request,
        "message.html",
        heading=N_("Test bank"),
        text=N_("Shops in test mode send their customers here to pay. No real money is moved."),
    )


async def pay_page(request: Request) -> Response:
    """Show the page of the payment's method."""
    payment, pages = await _find(request), _pages(request)
    if path := _other_page(payment):
        return pages.go(path)
    if payment.method == "CREDIT_CARD":
        form = _filled_in(request.query_params.get("card", ""))
        return pages.show(request, "card.html", payment, form=form, errors={}, cards=TEST_CARDS)
    if payment.method == "BANK_TRANSFER":
        return pages.show(request, "transfer.html", payment)
    return pages.show(request, "wallet.html", payment)


def _filled_in(number: str) -> CardForm:
    """Return the form with a test card that the customer has chosen, else an empty form."""
    for card in TEST_CARDS:
        if card.number == number:
            return CardForm(
                number=card.spaced, exp=f"12/{(datetime.now(UTC).year + 1) % 100:02}", csc="123"
            )
    return CardForm()


async def pay_by_card(request: Request) -> Response:
    """Read the card form; show it again without the code if a field is invalid.

    Only the number of a test card is shown again, never one that may be real.
    """
    form_values = await read_form(request, CardForm)
    payment = await _find(request)
    if _other_page(payment) is None and payment.method == "CREDIT_CARD":
        today = datetime.now(UTC)
        card, errors = read_card(form_values, today.year, today.month)
        if card is None:
            form = CardForm(
                number="" if "number" in errors else spaced(form_values.number),
                exp=form_values.exp[:20],
                name=form_values.name[:200],
            )
            return _pages(request).show(
                request, "card.html", payment, 422, form=form, errors=errors, cards=TEST_CARDS
            )
        payment = await _do(
            request, lambda tx, bank, payment_id: bank.pay_by_card(tx, payment_id, card, now_ms())
        )
    return _redirect(request, payment)


async def challenge_page(request: Request) -> Response:
    """Show the 3-D Secure check."""
    payment = await _find(request)
    if payment.status == "action_required" and payment.challenged:
        return _pages(request).show(request, "challenge.html", payment)
    return _redirect(request, payment)


async def finish_challenge(request: Request) -> Response:
    """End the 3-D Secure check."""
    passed = await _read_approval(request)
    payment = await _do(
        request,
        lambda tx, bank, payment_id: bank.finish_challenge(tx, payment_id, now_ms(), passed=passed),
    )
    return _redirect(request, payment)


async def _decide(request: Request) -> Payment:
    approved = await _read_approval(request)
    return await _do(
        request,
        lambda tx, bank, payment_id: bank.decide(tx, payment_id, now_ms(), approved=approved),
    )


async def transfer(request: Request) -> Response:
    """Confirm or reject the bank transfer."""
    return _redirect(request, await _decide(request))


async def phone_page(request: Request) -> Response:
    """Show the wallet on the customer's phone: the buttons, and later the decision."""
    payment = await _find(request)
    tone = _ENDS.get(payment.status, "wait")
    return _pages(request).show(request, "phone.html", payment, tone=tone)


async def phone(request: Request) -> Response:
    """Approve or decline on the phone."""
    payment = await _decide(request)
    return _pages(request).go(f"/phone/{payment.id}")


async def qr_code(request: Request) -> Response:
    """Return the QR code of the phone page's URL."""
    view = bank_of(request).view(await _find(request))
    if view.qr_text is None:
        raise Refusal(404, "not_found", "This payment has no QR code.")
    image = io.BytesIO()
    segno.make(view.qr_text, error="m", micro=False).save(
        image,
        kind="svg",
        scale=6,
        border=4,
        dark="#000",
        light="#fff",
        svgclass=None,
        lineclass=None,
    )
    headers = {**HEADERS, "Cache-Control": "private, max-age=3600"}
    return Response(image.getvalue(), 200, headers, "image/svg+xml")


async def done_page(request: Request) -> Response:
    """Show the result and lead the customer back to the shop."""
    payment, pages = await _find(request), _pages(request)
    if payment.status == "action_required":
        return pages.go(f"/pay/{payment.id}")
    return pages.show(request, "done.html", payment, tone=_ENDS[payment.status])


async def desk_page(request: Request) -> Response:
    """Show the bank's page for merchants, who refund there without the shop's software."""
    payment = await _find(request)
    refunds = await _do(request, lambda tx, bank, payment_id: bank.refunds(tx, payment_id))
    left = payment.amount_minor - payment.refunded_minor
    return _pages(request).show(
        request,
        "desk.html",
        payment,
        refunds=[(one, amounts.decimal(one.amount_minor, one.currency)) for one in refunds],
        left=amounts.decimal(left, payment.currency) if payment.status == "succeeded" else "0",
        can_refund=payment.status == "succeeded" and left > 0,
    )


async def refund_at_desk(request: Request) -> Response:
    """Refund a payment at the desk."""
    text = (await read_form(request, DeskRefund)).amount.strip()
    payment = await _find(request)
    minor = amounts.minor(text, payment.currency) if text else None
    if text and not minor:
        raise Refusal(409, "not_refundable", "The amount must be such as 4.00 or 1,200.50.")
    await _do(
        request,
        lambda tx, bank, payment_id: bank.refund_at_desk(tx, payment_id, minor, now_ms()),
    )
    return _pages(request).go(f"/desk/{payment.id}")


async def reverse_at_desk(request: Request) -> Response:
    """Reverse a refund at the desk."""
    refund_id = (await read_form(request, DeskReversal)).refund

    def work(tx: Tx, bank: Bank, payment_id: str) -> None:
        if bank.find_refund(tx, refund_id).payment_id != payment_id:
            raise Refusal(404, "not_found", "This payment has no such refund.")
        bank.reverse_refund(tx, refund_id, now_ms())

    await _do(request, work)
    return _pages(request).go(f"/desk/{request.path_params['id']}")


async def static(request: Request) -> Response:
    """Serve the style sheet and the logo, which the pages request with a version."""
    name = request.path_params["name"]
    if name not in _STATIC:
        raise Refusal(404, "not_found", "There is no such file.")
    body, media_type = _STATIC[name]
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(body, 200, headers, media_type)


routes: Final = (
    Route("/", home),
    Route("/pay/{id}", pay_page),
    Route("/pay/{id}", pay_by_card, methods=["POST"]),
    Route("/3ds/{id}", challenge_page),
    Route("/3ds/{id}", finish_challenge, methods=["POST"]),
    Route("/transfer/{id}", transfer, methods=["POST"]),
    Route("/phone/{id}", phone_page),
    Route("/phone/{id}", phone, methods=["POST"]),
    Route("/pay/{id}/qr.svg", qr_code),
    Route("/done/{id}", done_page),
    Route("/desk/{id}", desk_page),
    Route("/desk/{id}/refund", refund_at_desk, methods=["POST"]),
    Route("/desk/{id}/reverse", reverse_at_desk, methods=["POST"]),
    Route("/static/{name}", static),
)
