"""``/receipt/{cs_…}``: what a customer paid, to be kept: a page that prints well, and a PDF.

Whoever has the address sees it, as with the payment page, and no more than the customer was shown:
the e-mail is masked. There is none of a session that nobody has paid.
"""

from typing import Final
from zoneinfo import ZoneInfo

from babel.core import get_global
from starlette.responses import Response
from starlette.routing import Route

from opentill import merchants, orders, refunds
from opentill.core import settingvalues
from opentill.core.errors import NotFound, TooManyRequests
from opentill.core.money import Money
from opentill.db import rate_limits
from opentill.pages import model, pdf, render
from opentill.pages.labels import PAYMENT_METHOD
from opentill.pages.payment_page import Endpoint, PageRequest
from opentill.pages.pdf import NoFont, Sheet
from opentill.pages.responses import page
from opentill.refunds import Refund
from opentill.web.responses import attachment, see_other
from opentill.web.translations import N_

MOST_REFUNDS: Final = 100  # that are listed, the newest
_PER_MINUTE: Final = 30  # PDFs of one address
_PAID: Final[tuple[model.State, ...]] = ("paid", "refunded")


async def _read(request: PageRequest, session_id: str) -> model.Receipt:
    """Look up what was paid. Raises NotFound if nothing was."""
    view, payment = await request.looked_up(session_id)
    if model.state_of(payment, request.now) not in _PAID or payment.paid_at is None:
        raise NotFound
    merchant_id = view.order.merchant_id
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        found = await refunds.of_order(tx, merchant_id, payment.order_id, MOST_REFUNDS)
        card = await orders.card_of(tx, view.order)
    shop_zone = ZoneInfo(merchant.time_zone)
    done = [_given_back(one) for one in reversed(found) if one.status == "SUCCEEDED"]
    own_zone = _chosen(request) or _guessed(request) or shop_zone
    return model.Receipt(
        payment=payment,
        refunds=done,
        shop_zone=shop_zone,
        own_zone=own_zone,
        card=orders.format_card(card) if card else "",
    )


def _given_back(refund: Refund) -> model.GivenBack:
    amount = Money(-refund.amount_minor, refund.currency)
    return model.GivenBack(amount, refund.succeeded_at or refund.updated_at)


def _chosen(request: PageRequest) -> ZoneInfo | None:
    """Return the zone that the reader has asked for."""
    try:
        return ZoneInfo(settingvalues.time_zone(request.query.get("zone", "").strip()))
    except ValueError:
        return None


def _guessed(request: PageRequest) -> ZoneInfo | None:
    """Return the zone of the region that the browser names first, if that has only one."""
    accepted = request.headers.get(b"accept-language", b"").decode("latin-1")
    first = accepted.partition(",")[0].partition(";")[0].strip()
    region = first.replace("_", "-").rpartition("-")[2].upper()
    zones: list[str] = get_global("territory_zones").get(region, [])
    return ZoneInfo(zones[0]) if len(zones) == 1 else None


async def show(request: PageRequest, session_id: str) -> Response:
    """Show the receipt."""
    receipt = await _read(request, session_id)
    visit = request.visit()
    asked = request.query.get("zone", "").strip()
    made = render.receipt_page(
        receipt,
        visit,
        zone=asked,
        zone_error=bool(asked) and _chosen(request) is None,
        no_pdf=request.query.get("pdf") == "no",
    )
    return page(made, visit.localizer.language)


async def as_pdf(request: PageRequest, session_id: str) -> Response:
    """Return the receipt as a PDF, or lead to the page where no font has its letters."""
    receipt = await _read(request, session_id)
    visit = request.visit()
    sheet = _sheet(receipt, visit, request)
    drawn = pdf.kept(session_id, sheet)
    try:
        if drawn is None:
            await _count(request)
            drawn = await pdf.draw(session_id, sheet)
    except NoFont:
        query = f"?lang={visit.localizer.language}&pdf=no"
        return see_other(f"{visit.base}/receipt/{session_id}{query}")
    return attachment(drawn, "application/pdf", f"receipt-{receipt.payment.order_id}.pdf")


async def _count(request: PageRequest) -> None:
    """Count a PDF that is drawn: it costs more than a page. Raises TooManyRequests."""
    subject = merchants.limit_subject(request.client_ip)
    async with request.app.db.connection() as tx:
        if await rate_limits.hit(tx, "receipt", subject, _PER_MINUTE, request.now) is None:
            wait = await rate_limits.retry_after_s(tx, "receipt", subject, request.now)
            raise TooManyRequests(_PER_MINUTE, wait)


def _sheet(receipt: model.Receipt, visit: render.Visit, request: PageRequest) -> Sheet:
    payment, localizer = receipt.payment, visit.localizer

    def _(message: str, **values: object) -> str:
        return localizer.gettext(message, **values).unescape()

    def when(at: int, zone: ZoneInfo) -> str:
        return f"{localizer.moment_in(at, zone)} ({zone.key})"

    def amount(money: Money) -> str:
        return f"{localizer.amount(money)} {money.currency}"

    method = _(PAYMENT_METHOD[payment.method]) if payment.method else "–"
    many = payment.quantity > 1
    item = f"{payment.quantity} × {payment.item.name}" if many else payment.item.name
    zones = dict.fromkeys((receipt.own_zone, receipt.shop_zone))
    facts = [
        (_("Reference"), payment.order_id),
        (_("Item"), item),
        (_("Amount"), amount(payment.amount)),
        (_("Paid with"), ", ".join(filter(None, (method, receipt.card.replace("•", "*"))))),
        *((_("Paid"), when(payment.paid_at or 0, zone)) for zone in zones),
    ]
    if payment.email:
        facts.append((_("Receipt for"), render.masked(payment.email).replace("•", "*")))
    for one in receipt.refunds:
        at = when(one.at, receipt.own_zone)
        facts.append((_("Given back on {time}", time=at), amount(one.amount)))
    brand = payment.brand
    notes = [visit.public_url.rstrip("/") + f"/receipt/{payment.session_id}"]
    if payment.reference:
        notes.insert(0, _("Your order number: {reference}", reference=payment.reference))
    return Sheet(
        language=localizer.language,
        title=_("Receipt"),
        shop=payment.merchant,
        contact=[text for text in (brand.email, brand.url) if text],
        mark="" if payment.livemode else _("Test mode – no real money"),
        facts=facts,
        total=(
            _(N_("Paid, less what was given back") if receipt.refunds else N_("Total paid")),
            amount(receipt.kept),
        ),
        notes=notes,
        fonts=pdf.places(request.app.settings.receipt_font),
    )


_NO_PAGE: Final = Endpoint({})
routes: Final = (
    Route("/receipt/{session:id}", Endpoint({"GET": show})),
    Route("/receipt/{session:id}.pdf", Endpoint({"GET": as_pdf})),
    Route("/receipt/{rest:path}", _NO_PAGE),
)
