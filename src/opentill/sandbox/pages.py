"""The bank's pages for customers: the card form, 3-D Secure, the wallet's QR code, the phone.

They work without JavaScript. A form is always answered by a redirect to a page of the bank, and the
customer leaves for the shop by a link or refresh of such a page, so that reloading, going back and
posting twice are harmless and no policy on form targets is in the way.
"""

import hashlib
import io
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import jinja2
import msgspec
import segno
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import FromPath, URLEncodedBody

from opentill.sandbox import amounts, language
from opentill.sandbox.bank import Bank
from opentill.sandbox.cards import TEST_CARDS, CardForm, read_card
from opentill.sandbox.model import Payment, PaymentStatus, Refusal
from opentill.sandbox.storage import Store

_HERE: Final = Path(__file__).parent
_STATIC: Final = {
    name: ((_HERE / "static" / name).read_bytes(), media_type)
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

# The tone of each end of a payment; heading and sentence are in the catalogue.
_ENDS: Final[dict[PaymentStatus, str]] = {
    "succeeded": "good",
    "declined": "bad",
    "refused": "bad",
    "voided": "bad",
    "processing": "wait",
}
# What is said of an error, by status: heading and sentence.
_TROUBLES: Final = {
    404: ("missing_title", "missing_text"),
    400: ("trouble_title", "incomplete_text"),
}


_log: Final = logging.getLogger(__name__)


class Decision(msgspec.Struct, frozen=True):
    """The button that was pressed on the phone, the transfer page or the 3-D Secure page."""

    decision: Literal["approve", "decline"]


class Pages:
    """Renders the templates; ``public_url`` may have a path, under which the bank is served."""

    def __init__(self, public_url: str) -> None:
        """Load the templates of the package."""
        self.base = urlsplit(public_url).path.rstrip("/")
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def show(
        self,
        request: Request[Any, Any, Any],
        template: str,
        payment: Payment | None = None,
        status: int = 200,
        **words: object,
    ) -> Response[str]:
        """Render a page in the customer's language, with the payment's summary if there is one."""
        locale = "" if payment is None else payment.locale
        tongue = language.choose(locale, request.headers.get("accept-language", ""))
        if payment is not None:
            amount = amounts.show(payment.amount_minor, payment.currency, tongue.locale)
            merchant = payment.merchant_name or tongue.say("shop")
            words |= {"payment": payment, "amount": amount, "merchant": merchant}
            words |= {"method": tongue.say(payment.method)}
        text = self._templates.get_template(template).render(
            **words, base=self.base, version=_VERSION, say=tongue.say, language=tongue.language
        )
        headers = {
            **HEADERS,
            "Cache-Control": "no-store",
            "Content-Language": tongue.language,
            "Vary": "Accept-Language",
        }
        return Response(
            text, status_code=status, media_type="text/html; charset=utf-8", headers=headers
        )

    def go(self, path: str) -> Response[str]:
        """Send the browser on to another page of the bank."""
        headers = {**HEADERS, "Cache-Control": "no-store", "Location": self.base + path}
        return Response("", status_code=303, media_type="text/plain", headers=headers)

    def refuse(self, request: Request[Any, Any, Any], error: Exception) -> Response[str]:
        """Show an error to a person."""
        status = 500
        if isinstance(error, Refusal | HTTPException):
            status = error.status if isinstance(error, Refusal) else error.status_code
        else:
            _log.error("defect", exc_info=error)
        heading, text = _TROUBLES.get(status, ("trouble_title", "trouble_text"))
        return self.show(request, "message.html", status=status, heading=heading, text=text)


def _now() -> int:
    return round(datetime.now(UTC).timestamp() * 1000)


async def _find(store: Store, bank: Bank, payment_id: str) -> Payment:
    return await store.do(lambda tx: bank.find_payment(tx, payment_id))


def _elsewhere(payment: Payment) -> str | None:
    """Return the page where the customer belongs if not on the payment's own."""
    if payment.status != "action_required":
        return f"/done/{payment.id}"
    return f"/3ds/{payment.id}" if payment.challenged else None


@get("/")
async def home(request: Request[Any, Any, Any], pages: NamedDependency[Pages]) -> Response[str]:
    """Say what this is."""
    return pages.show(request, "message.html", heading="home_title", text="home_text")


@get("/pay/{payment_id:str}")
async def pay_page(
    request: Request[Any, Any, Any],
    payment_id: FromPath[str],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Show the page on which this payment is paid."""
    payment = await _find(store, bank, payment_id)
    if path := _elsewhere(payment):
        return pages.go(path)
    if payment.method == "CREDIT_CARD":
        return pages.show(
            request, "card.html", payment, form=CardForm(), errors={}, cards=TEST_CARDS
        )
    if payment.method == "BANK_TRANSFER":
        return pages.show(request, "transfer.html", payment)
    return pages.show(request, "wallet.html", payment)


@post("/pay/{payment_id:str}")
async def pay_by_card(
    request: Request[Any, Any, Any],
    payment_id: FromPath[str],
    data: URLEncodedBody[CardForm],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Take the card form; show it again, without number and code, if a field is wrong."""
    payment = await _find(store, bank, payment_id)
    if _elsewhere(payment) is None and payment.method == "CREDIT_CARD":
        today = datetime.now(UTC)
        card, errors = read_card(data, today.year, today.month)
        if card is None:
            form = CardForm(exp=data.exp[:20], name=data.name[:200])
            return pages.show(
                request, "card.html", payment, 422, form=form, errors=errors, cards=TEST_CARDS
            )
        payment = await store.do(lambda tx: bank.pay_by_card(tx, payment_id, card, _now()))
    return pages.go(_elsewhere(payment) or f"/pay/{payment_id}")


@get("/3ds/{payment_id:str}")
async def challenge_page(
    request: Request[Any, Any, Any],
    payment_id: FromPath[str],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Ask whether the 3-D Secure step is passed."""
    payment = await _find(store, bank, payment_id)
    if payment.status == "action_required" and payment.challenged:
        return pages.show(request, "challenge.html", payment)
    return pages.go(_elsewhere(payment) or f"/pay/{payment_id}")


@post("/3ds/{payment_id:str}")
async def finish_challenge(
    payment_id: FromPath[str],
    data: URLEncodedBody[Decision],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """End the 3-D Secure step."""
    passed = data.decision == "approve"
    payment = await store.do(
        lambda tx: bank.finish_challenge(tx, payment_id, _now(), passed=passed)
    )
    return pages.go(_elsewhere(payment) or f"/pay/{payment_id}")


@post("/transfer/{payment_id:str}")
async def transfer(
    payment_id: FromPath[str],
    data: URLEncodedBody[Decision],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Confirm or reject the bank transfer."""
    approved = data.decision == "approve"
    payment = await store.do(lambda tx: bank.answer(tx, payment_id, _now(), approved=approved))
    return pages.go(_elsewhere(payment) or f"/pay/{payment_id}")


@get("/phone/{payment_id:str}")
async def phone_page(
    request: Request[Any, Any, Any],
    payment_id: FromPath[str],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Be the wallet on the customer's phone: ask, and later say what was decided."""
    payment = await _find(store, bank, payment_id)
    tone = _ENDS.get(payment.status, "wait")
    return pages.show(request, "phone.html", payment, tone=tone)


@post("/phone/{payment_id:str}")
async def phone(
    payment_id: FromPath[str],
    data: URLEncodedBody[Decision],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Approve or decline on the phone."""
    approved = data.decision == "approve"
    await store.do(lambda tx: bank.answer(tx, payment_id, _now(), approved=approved))
    return pages.go(f"/phone/{payment_id}")


@get("/pay/{payment_id:str}/qr.svg")
async def qr_code(
    payment_id: FromPath[str], bank: NamedDependency[Bank], store: NamedDependency[Store]
) -> Response[bytes]:
    """Draw the QR code of the phone's address."""
    view = bank.view(await _find(store, bank, payment_id))
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
    return Response(image.getvalue(), media_type="image/svg+xml", headers=headers)


@get("/done/{payment_id:str}")
async def done_page(
    request: Request[Any, Any, Any],
    payment_id: FromPath[str],
    bank: NamedDependency[Bank],
    store: NamedDependency[Store],
    pages: NamedDependency[Pages],
) -> Response[str]:
    """Say how it ended and take the customer back to the shop."""
    payment = await _find(store, bank, payment_id)
    if payment.status == "action_required":
        return pages.go(f"/pay/{payment_id}")
    return pages.show(request, "done.html", payment, tone=_ENDS[payment.status])


@get("/static/{name:str}")
async def static(name: FromPath[str]) -> Response[bytes]:
    """Serve the style sheet and the logo; the pages name them with a version."""
    if name not in _STATIC:
        raise Refusal(404, "not_found", "There is no such file.")
    body, media_type = _STATIC[name]
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(body, media_type=media_type, headers=headers)


def router(pages: Pages) -> Router:
    """Put the pages together."""
    return Router(
        path="/",
        exception_handlers={Exception: pages.refuse},
        route_handlers=[
            home,
            pay_page,
            pay_by_card,
            challenge_page,
            finish_challenge,
            transfer,
            phone_page,
            phone,
            qr_code,
            done_page,
            static,
        ],
    )
