"""``/receipt/{cs_…}``: the receipt of a paid session, as a page that prints well and as a PDF.

Anybody who has the address can see it, as with the payment page. So it shows no more than that page
did, and masks the e-mail.
"""

from typing import Final
from zoneinfo import ZoneInfo

from babel.core import get_global
from starlette.responses import Response
from starlette.routing import Route

from opentill import merchants, orders, refunds
from opentill.core import settingvalues
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.pages import model, pdf, render
from opentill.pages.labels import PAYMENT_METHOD
from opentill.pages.payment_page import Endpoint, PageRequest, count_request
from opentill.pages.pdf import NoFont, Sheet
from opentill.pages.responses import page
from opentill.refunds import Refund
from opentill.web.responses import attachment, see_other
from opentill.web.translations import N_

MOST_REFUNDS: Final = 100  # a receipt lists only this many refunds, the newest ones
_PER_MINUTE: Final = 30  # a client address may request this many PDFs per minute
_PAID: Final[tuple[model.State, ...]] = ("paid", "refunded")


async def _find_receipt(request: PageRequest, session_id: str) -> model.Receipt:
    """Find the receipt of a session. Raises NotFound if it was not paid."""
    view, payment = await request.find_payment(session_id)
    if model.state_of(payment, request.now) not in _PAID or payment.paid_at is None:
        raise NotFound
    merchant_id = view.order.merchant_id
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        newest_refunds = await refunds.list_for_order(
            tx, merchant_id, payment.order_id, MOST_REFUNDS
        )
        card = await orders.card_of(tx, view.order)
    shop_zone = ZoneInfo(merchant.time_zone)
    return model.Receipt(
        payment=payment,
        refunds=[
            _succeeded_refund(refund)
            for refund in reversed(newest_refunds)
            if refund.status == "SUCCEEDED"
        ],
        shop_zone=shop_zone,
        own_zone=_chosen_zone(request) or _guess_zone(request) or shop_zone,
        card=orders.format_card(card) if card else "",
    )


def _succeeded_refund(refund: Refund) -> model.SucceededRefund:
    amount = Money(-refund.amount_minor, refund.currency)
    return model.SucceededRefund(amount, refund.succeeded_at or refund.updated_at)


def _chosen_zone(request: PageRequest) -> ZoneInfo | None:
    """Return the time zone that the reader has entered, None if no zone has this name."""
    try:
        return ZoneInfo(settingvalues.time_zone(request.query.get("zone", "").strip()))
    except ValueError:
        return None


def _guess_zone(request: PageRequest) -> ZoneInfo | None:
    """Return the zone of the region of the browser's first language, if that has only one."""
    accepted = request.headers.get(b"accept-language", b"").decode("latin-1")
    first = accepted.partition(",")[0].partition(";")[0].strip()
    region = first.replace("_", "-").rpartition("-")[2].upper()
    zones: list[str] = get_global("territory_zones").get(region, [])
    return ZoneInfo(zones[0]) if len(zones) == 1 else None


async def show(request: PageRequest, session_id: str) -> Response:
    """Show the receipt."""
    receipt = await _find_receipt(request, session_id)
    visit = request.visit()
    zone = request.query.get("zone", "").strip()
    html = render.receipt_page(
        receipt,
        visit,
        zone=zone,
        zone_error=bool(zone) and _chosen_zone(request) is None,
        no_pdf=request.query.get("pdf") == "no",
    )
    return page(html, visit.localizer.language)


async def as_pdf(request: PageRequest, session_id: str) -> Response:
    """Return the receipt as a PDF, or redirect to its page if no font has its letters."""
    receipt = await _find_receipt(request, session_id)
    visit = request.visit()
    sheet = _sheet(receipt, visit, request)
    content = pdf.find_cached(session_id, sheet)
    try:
        if content is None:
            # Only a PDF that must be drawn counts, because drawing costs much more than a page.
            await count_request(request, "receipt", _PER_MINUTE)
            content = await pdf.draw(session_id, sheet)
    except NoFont:
        query = f"?lang={visit.localizer.language}&pdf=no"
        return see_other(f"{visit.base}/receipt/{session_id}{query}")
    return attachment(content, "application/pdf", f"receipt-{receipt.payment.order_id}.pdf")


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
    for refund in receipt.refunds:
        time = when(refund.at, receipt.own_zone)
        facts.append((_("Refunded on {time}", time=time), amount(refund.amount)))
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
            _(N_("Paid after refunds") if receipt.refunds else N_("Total paid")),
            amount(receipt.net),
        ),
        notes=notes,
        fonts=pdf.font_files(request.app.settings.receipt_font),
    )


_NO_PAGE: Final = Endpoint({})
routes: Final = (
    Route("/receipt/{session:id}", Endpoint({"GET": show})),
    Route("/receipt/{session:id}.pdf", Endpoint({"GET": as_pdf})),
    Route("/receipt/{rest:path}", _NO_PAGE),
)
