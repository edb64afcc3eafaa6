"""The files of mails to customers: the shop's logo, and the receipt as a PDF.

The logo is part of the message, because many mail programs block pictures from a server until the
reader allows them, and the server would learn from such a picture when a mail is read. A mail is
sent without a file that cannot be made.
"""

from typing import Final

import msgspec
import structlog

from opentill import checkouts, merchants, orders
from opentill.core.errors import NotFound
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.mail.model import Mail, MessageContext
from opentill.merchants import Merchant
from opentill.receipts import layout, pdf, service
from opentill.receipts.model import Receipt

WITH_RECEIPT: Final = ("receipt", "refund")  # the topics whose mails have the receipt
_log: Final = structlog.get_logger()


class Attachments(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a mail, None where there is none: a PNG and a PDF."""

    logo: bytes | None = None
    receipt: bytes | None = None
    receipt_number: str = ""


async def make(
    db: Db, settings: Settings, mail: Mail, merchant: Merchant, context: MessageContext
) -> Attachments:
    """Make the files of a mail to a customer. Raises Unavailable if the database is away."""
    logo = await make_logo(db, merchant, mail)
    if mail.topic not in WITH_RECEIPT or mail.order_id is None:
        return Attachments(logo=logo)
    order_id = mail.order_id

    async def read(tx: Tx) -> Receipt:
        order = await orders.find(tx, mail.merchant_id, order_id)
        order = await orders.with_livemode(tx, order, deployment=settings.livemode)
        session = await checkouts.find(tx, order.merchant_id, order.checkout_id)
        return await service.find(tx, order, session)

    try:
        receipt = await db.run(read)
    except NotFound:  # the order was removed
        return Attachments(logo=logo)
    reader = layout.Reader(
        localizer=context.localizer,
        zones=[receipt.shop_zone],
        public_url=context.public_url,
        sees_customer=receipt.email == mail.recipient,
        logo=logo,
        font=settings.receipt_font,
    )
    try:
        content = await pdf.draw_for_mail(mail.id, layout.sheet_of(receipt, reader))
    except pdf.NoFont:
        _log.warning("receipt not attached", mail=mail.id, why="no font has its characters")
        return Attachments(logo=logo)
    except Exception:  # noqa: BLE001 - the mail is more important than its PDF
        _log.exception("receipt not attached", mail=mail.id)
        return Attachments(logo=logo)
    return Attachments(logo=logo, receipt=content, receipt_number=receipt.number)


async def make_logo(db: Db, merchant: Merchant, mail: Mail) -> bytes | None:
    """Return the merchant's logo as a small PNG, None if it has none or it cannot be reduced."""
    digest = merchant.logo_sha256
    if digest is None:
        return None
    small_logo = pdf.find_reduced_logo(digest)
    if small_logo is not None:
        return small_logo
    try:
        logo = await db.run(lambda tx: merchants.find_logo(tx, merchant.id, digest))
    except NotFound:  # it was replaced since the merchant was read
        return None
    try:
        return await pdf.reduce_logo(digest, logo.content)
    except Exception:  # noqa: BLE001 - the mail is more important than its logo
        _log.exception("logo not attached", mail=mail.id)
        return None
