"""The record of a payment as a PDF: what OpenTill knows that helps to contest a dispute of it.

It is the receipt, with the customer's name and whole email address and these facts for the bank:
the IP address from which they paid, the mails that they got, when the shop was notified of the
payment, and the metadata, in which shops store the numbers of shipments.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import mail
from opentill.mail import Mail
from opentill.people import Access
from opentill.portal import payment_details, payment_facts
from opentill.portal.payment_details import Payment
from opentill.portal.request import PageRequest
from opentill.receipts import layout, pdf, service
from opentill.receipts.pdf import NoFont
from opentill.web.language import Localizer
from opentill.web.responses import attachment
from opentill.web.translations import N_

_LONGEST: Final = 200  # characters of a value of the metadata
_MAILED: Final = ("receipt", "refund")  # topics of mails to the customer


async def send(request: PageRequest, access: Access, order_id: str) -> Response:
    """Send the record of a payment as a PDF, or as text if no font has its letters.

    Raises NotFound.
    """
    payment = await payment_details.read(request.app, access, order_id)
    async with request.app.db.connection() as tx:
        mails = await mail.list_of_order(tx, access.merchant_id, order_id)
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
    sheet = layout.sheet_of(receipt, reader)
    sheet = msgspec.structs.replace(
        sheet,
        title=request.localizer.gettext(N_("Payment record")).unescape(),
        facts=[*sheet.facts, *_facts(payment, mails, request.localizer)],
        details_title=request.localizer.gettext(N_("Metadata")).unescape(),
        details=[
            (name[:_LONGEST], value[:_LONGEST]) for name, value in payment_facts.metadata(payment)
        ],
    )
    name = f"payment-{order_id}"
    try:
        content = await pdf.draw(name, sheet)
    except NoFont:
        text = "\r\n".join(f"{label}: {value}" for label, value in (*sheet.facts, *sheet.details))
        return attachment(text.encode(), "text/plain; charset=utf-8", f"{name}.txt")
    return attachment(content, "application/pdf", f"{name}.pdf")


def _facts(payment: Payment, mails: list[Mail], localizer: Localizer) -> Iterator[tuple[str, str]]:
    """Yield what the bank wants to know besides the receipt: the customer and the delivery."""

    def _(message: str) -> str:
        return localizer.gettext(message).unescape()

    def when(at: int) -> str:
        return f"{localizer.moment_in(at, payment.zone)} ({payment.zone.key})"

    order = payment.order
    if order.payer_ip:
        yield _("IP address of the customer"), order.payer_ip
    yield _("Opened"), when(order.created_at)
    for sent in reversed(mails):
        if sent.topic in _MAILED and sent.status == "SENT":
            yield _("Mailed to the customer"), when(sent.updated_at)
    paid = {event.id for event in payment.events if event.type == "order.paid"}
    notified = [
        delivery.at
        for delivery in payment.deliveries
        if delivery.event_id in paid and delivery.status == "SUCCEEDED" and delivery.at
    ]
    if notified:
        yield _("The shop was notified"), when(min(notified))
