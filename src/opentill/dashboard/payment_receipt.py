"""The receipt of a payment for the merchant: a page to be printed, and the PDF.

The merchant knows the customer, so both show name and email address in full, unlike the customer's
page of the receipt, which everybody with its address can open.
"""

from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import disputes, orders
from opentill.core.errors import NotFound
from opentill.dashboard import page_helpers
from opentill.portal import form_ids, payment_details, render
from opentill.portal.labels import PAYMENT_METHOD
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.payment_details import Payment, amount_formatter
from opentill.portal.request import PageRequest
from opentill.receipts import layout, pdf, service
from opentill.receipts.pdf import NoFont
from opentill.web.language import Localizer
from opentill.web.responses import attachment


async def _find_paid(request: PageRequest) -> Payment:
    """Find the payment in the path. Raises NotFound for an order that was not paid."""
    payment = await payment_details.read(request.app, request.access, request.ids["order"])
    if payment.order.paid_at is None:
        raise NotFound
    return payment


async def show_receipt(request: PageRequest) -> Response:
    """Show a receipt to be printed. Raises NotFound for an order that was not paid."""
    payment = await _find_paid(request)
    order = payment.order
    localizer = request.localizer
    async with request.app.db.connection() as tx:  # whoever sees a receipt sees its whole total
        all_disputes = await disputes.list_for_order(tx, order.merchant_id, order.id)
    chargebacks = service.chargebacks_of(all_disputes)
    returned_minor = order.refunded_minor + sum(each.amount.minor for each in chargebacks)
    refunds = [refund for refund in reversed(payment.refunds) if refund.status == "SUCCEEDED"]
    return render.page(
        request,
        "payment_receipt.html",
        scripts=True,
        form_id=form_ids.new_form_id(),
        last_sent=next(
            (sent for sent in payment.mails if (sent.topic, sent.status) == ("receipt", "SENT")),
            None,
        ),
        payment=payment,
        order=order,
        number=orders.receipt_number(order.id),
        zone=payment.zone,
        amount=amount_formatter(localizer),
        refunds=refunds,
        earlier_minor=order.refunded_minor - sum(refund.amount_minor for refund in refunds),
        chargebacks=chargebacks,
        balance_minor=max(0, order.amount_minor - returned_minor),
        method=localizer.gettext(PAYMENT_METHOD[order.payment_method])
        if order.payment_method
        else Markup(),
        card=payment.card,
        no_pdf=request.query.get("pdf") == "no",
    )


async def send_pdf(request: PageRequest) -> Response:
    """Send the receipt as a PDF, or redirect to its page if no font has its letters.

    Raises NotFound for an order that was not paid.
    """
    payment = await _find_paid(request)
    async with request.app.db.connection() as tx:
        receipt = await service.find(tx, payment.order, payment.session)
        logo = await service.find_logo(tx, receipt)
    reader = layout.Reader(
        localizer=Localizer("customer", request.localizer.language),  # receipts have its texts
        zones=[payment.zone],
        public_url=request.app.settings.public_url,
        sees_customer=True,
        logo=logo,
        font=request.app.settings.receipt_font,
    )
    name = f"receipt-{receipt.number}"
    try:
        content = await pdf.draw(name, layout.sheet_of(receipt, reader))
    except NoFont:
        return page_helpers.redirect(request, "payments", payment.order.id, "receipt", pdf="no")
    return attachment(content, "application/pdf", f"{name}.pdf")


_PLACE: Final = f"{DASHBOARD_PATH}/payments/{{order:id}}/receipt"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show_receipt),
    Page("GET", f"{_PLACE}.pdf", "payments.read", send_pdf),
)
