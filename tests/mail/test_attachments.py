"""Mails to customers have the shop's logo and the receipt, and are sent even without these."""

import sys
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final, cast

import msgspec
import pytest

from opentill import merchants, orders
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.mail import jobs, outbox, rendering
from opentill.mail.model import Mail
from opentill.orders import Order, Payer
from opentill.receipts import pdf
from opentill.receipts.pdf_workers import PdfWorkers
from support import world
from support.mailing import mail_settings
from support.pdf_streams import streams_of
from support.people import TESTER
from support.pictures import png

NOW: Final = world.NOW
SETTINGS: Final = mail_settings("smtp://mail.test")
SELLER: Final = {
    "legal_name": "Harbour Books GmbH", "tax_number": "DE123456789", "tax_rate": "0.19",
    "accent_color": "#b03a2e",
}  # fmt: skip


async def _pay(db: Db, locale: str = "en") -> Order:
    """Pay an order of a merchant with logo and seller's details."""
    order = await db.run(world.create_order)
    await jobs.queue_event_mails(db, SETTINGS, NOW)

    async def pay(tx: Tx) -> None:
        merchant_id = order.merchant_id
        await merchants.change_profile(tx, merchant_id, SELLER, NOW, actor=TESTER)
        await merchants.set_logo(tx, merchant_id, png(600, 400), NOW, actor=TESTER, seen=None)
        locked = await orders.lock(tx, merchant_id, order.id)
        payer = Payer(email="ann@example.com", name="Ann Tide", ip="192.0.2.7", locale=locale)
        attempt = await orders.start_attempt(tx, locked, "sandbox", "CREDIT_CARD", payer, NOW)
        amount = Money(order.amount_minor, order.currency)
        await world.report_payment(tx, attempt, "SUCCEEDED", NOW, amount=amount)

    await db.run(pay)
    return await db.run(lambda tx: orders.find(tx, order.merchant_id, order.id))


async def _render_mail(db: Db) -> tuple[Mail, EmailMessage]:
    """Queue and render the newest mail."""
    await jobs.queue_event_mails(db, SETTINGS, NOW)
    async with db.connection() as tx:
        mail = (await outbox.list_newest(tx, None, None, 100))[0]
    encoded = await rendering.render(db, SETTINGS, mail, NOW)
    return mail, cast("EmailMessage", message_from_bytes(encoded, policy=policy.default))


def _content(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    return str(part.get_content())


async def test_a_receipt_is_mailed_with_logo_and_pdf(db: Db) -> None:
    order = await _pay(db)
    number = orders.receipt_number(order.id)
    mail, message = await _render_mail(db)
    assert mail.topic == "receipt"
    (attachment,) = message.iter_attachments()
    assert attachment.get_content_type() == "application/pdf"
    assert attachment.get_filename() == f"receipt-{number}.pdf"
    text = b"".join(streams_of(cast("bytes", attachment.get_content())))
    for part in (number, "Ann Tide", "ann@example.com", "Harbour Books GmbH", "DE123456789"):
        assert part.encode() in text, part
    html = _content(message, "html")
    related = message.get_body(("related",))
    assert related is not None
    _, picture = related.iter_parts()
    assert picture.get_content_type() == "image/png"
    assert f'src="cid:{picture["Content-ID"][1:-1]}"' in html
    assert picture.get_content_disposition() == "inline"
    assert html.count("<img") == 1
    for kind in ("html", "plain"):
        content = _content(message, kind)
        for part in (number, "Tax included (19%)", "Your receipt is attached as a PDF."):
            assert part in content, part
    assert "#b03a2e" in html


async def test_a_refund_is_mailed_with_the_receipt_as_it_is_then(db: Db) -> None:
    order = await _pay(db)
    refund = await db.run(lambda tx: world.create_refund(tx, order, "1.00"))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED"))
    mail, message = await _render_mail(db)
    assert mail.topic == "refund"
    (attachment,) = message.iter_attachments()
    assert b"Total after refunds" in b"".join(streams_of(cast("bytes", attachment.get_content())))


async def test_the_receipt_masks_the_address_of_somebody_else(db: Db) -> None:
    await _pay(db)
    mail, _ = await _render_mail(db)
    mail = msgspec.structs.replace(mail, recipient="eve@example.com")
    encoded = await rendering.render(db, SETTINGS, mail, NOW)
    message = cast("EmailMessage", message_from_bytes(encoded, policy=policy.default))
    (attachment,) = message.iter_attachments()
    text = b"".join(streams_of(cast("bytes", attachment.get_content())))
    assert b"ann@" not in text
    assert b"Ann Tide" not in text


async def test_a_mail_is_sent_without_files_that_cannot_be_made(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _pay(db)
    broken = PdfWorkers([sys.executable, "-c", "import sys; sys.exit('no paper')"])
    monkeypatch.setattr(pdf, "_MAIL_WORKERS", broken)
    monkeypatch.setattr(pdf, "_CACHE", pdf.PdfCache())
    _, message = await _render_mail(db)
    assert list(message.iter_attachments()) == []
    html = _content(message, "html")
    assert "<img" not in html
    assert "attached" not in html
    assert "View receipt" in html


async def test_a_receipt_whose_letters_no_font_has_is_mailed_without_pdf(db: Db) -> None:
    await _pay(db, "zh-Hans")
    settings = msgspec.structs.replace(SETTINGS, receipt_font=SETTINGS.data_dir / "none.ttf")
    mail, _ = await _render_mail(db)
    encoded = await rendering.render(db, settings, mail, NOW)
    message = cast("EmailMessage", message_from_bytes(encoded, policy=policy.default))
    assert list(message.iter_attachments()) == []
