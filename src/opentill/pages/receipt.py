"""``/receipt/{cs_…}``: the receipt of a paid session, as a page that prints well and as a PDF.

Anybody who has the address can see it, as with the payment page. So it shows no more than that page
did, and masks the email.
"""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response
from starlette.routing import Route

from opentill.core import settingvalues
from opentill.core.errors import NotFound
from opentill.pages import model, render
from opentill.pages.payment_page import Endpoint, PageRequest, count_request
from opentill.pages.responses import page
from opentill.receipts import layout, pdf, service
from opentill.receipts.model import Receipt
from opentill.receipts.pdf import NoFont
from opentill.web.responses import attachment, see_other

_PER_MINUTE: Final = 30  # a client address may request this many PDFs per minute
_PAID: Final[tuple[model.State, ...]] = ("paid", "refunded")


async def _find_receipt(request: PageRequest, session_id: str) -> model.Receipt:
    """Find the receipt of a session. Raises NotFound if it was not paid."""
    view, payment = await request.find_payment(session_id)
    if model.state_of(payment, request.now) not in _PAID or payment.paid_at is None:
        raise NotFound
    async with request.app.db.connection() as tx:
        receipt = await service.find(tx, view.order, view.session)
    own_zone = _chosen_zone(request) or payment.zone
    return model.Receipt(payment=payment, receipt=receipt, own_zone=own_zone)


def _chosen_zone(request: PageRequest) -> ZoneInfo | None:
    """Return the time zone that the reader has entered, None if no zone has this name."""
    try:
        return ZoneInfo(settingvalues.time_zone(request.query.get("zone", "").strip()))
    except ValueError:
        return None


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
    page_receipt = await _find_receipt(request, session_id)
    receipt, visit = page_receipt.receipt, request.visit()
    reader = layout.Reader(
        localizer=visit.localizer,
        zones=[page_receipt.own_zone, receipt.shop_zone],
        public_url=visit.public_url,
        logo=await _logo(request, receipt),
        font=request.app.settings.receipt_font,
    )
    sheet = layout.sheet_of(receipt, reader)
    content = pdf.find_cached(session_id, sheet)
    try:
        if content is None:
            # Only a PDF that must be drawn counts, because drawing costs much more than a page.
            await count_request(request, "receipt", _PER_MINUTE)
            content = await pdf.draw(session_id, sheet)
    except NoFont:
        query = f"?lang={visit.localizer.language}&pdf=no"
        return see_other(f"{visit.base}/receipt/{session_id}{query}")
    return attachment(content, "application/pdf", f"receipt-{receipt.number}.pdf")


async def _logo(request: PageRequest, receipt: Receipt) -> bytes | None:
    async with request.app.db.connection() as tx:
        return await service.find_logo(tx, receipt)


_NO_PAGE: Final = Endpoint({})
routes: Final = (
    Route("/receipt/{session:id}", Endpoint({"GET": show})),
    Route("/receipt/{session:id}.pdf", Endpoint({"GET": as_pdf})),
    Route("/receipt/{rest:path}", _NO_PAGE),
)
