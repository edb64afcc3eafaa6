"""Templates of mails to customers: each builds a message from the content of its topic."""

from decimal import Decimal

from opentill.mail.model import Fact, Message, MessageContext, ReceiptContent, RefundContent
from opentill.receipts.model import PAYMENT_METHOD, Receipt
from opentill.web.translations import NC_


def _reference(reference: str, context: MessageContext) -> list[Fact]:
    return [(context.gettext("Order number"), reference)] if reference else []


def _tax(content: ReceiptContent, context: MessageContext) -> list[Fact]:
    if content.tax is None:
        return []
    rate = context.localizer.exact_percent(Decimal(content.tax_rate))
    label = context.gettext("Tax included ({rate})", rate=rate)
    return [(label, context.amount(content.tax))]


def receipt_content(receipt: Receipt, item: str, *, livemode: bool) -> ReceiptContent:
    """Return what the mail of a receipt says; ``item`` names the item with its quantity."""
    tax = receipt.tax
    return ReceiptContent(
        shop=receipt.shop,
        livemode=livemode,
        session_id=receipt.session_id,
        order_id=receipt.order_id,
        item=item,
        reference=receipt.reference,
        amount=(receipt.amount.minor, receipt.amount.currency),
        method=receipt.method or "",
        paid_at=receipt.paid_at,
        number=receipt.number,
        card=receipt.card,
        tax=None if tax is None else (tax.minor, tax.currency),
        tax_rate=receipt.seller.tax_rate or "",
    )


def _method(content: ReceiptContent | RefundContent, context: MessageContext) -> str:
    """Return the card, or the payment method if no card is known."""
    if content.card or not content.method:
        return content.card or "–"
    return context.gettext(PAYMENT_METHOD[content.method])


def receipt(content: ReceiptContent, context: MessageContext) -> Message:
    """Build the mail with the receipt of a paid order."""
    _ = context.gettext
    return Message(
        subject=_("Your receipt from {shop}", shop=context.shop),
        paragraphs=[
            _(
                "Thank you. {shop} has received your payment of {amount}.",
                shop=context.shop,
                amount=context.amount(content.amount),
            )
        ],
        figure=context.amount(content.amount),
        facts=[
            (_("Item"), content.item),
            *_tax(content, context),
            (_("Total paid"), context.amount(content.amount)),
            (_("Date paid"), context.when(content.paid_at)),
            (_("Payment method"), _method(content, context)),
            *([(_("Receipt number"), content.number)] if content.number else []),
            *_reference(content.reference, context),
            (_("Order ID"), content.order_id),
        ],
        action=(_("View receipt"), context.url(f"/receipt/{content.session_id}")),
    )


def _refunded_in_total(content: RefundContent, context: MessageContext) -> list[Fact]:
    """Return the sum of all refunds, unless this refund is the only one."""
    if content.refunded == content.amount:
        return []
    return [(context.gettext("Total refunded"), context.amount(content.refunded))]


def refund(content: RefundContent, context: MessageContext) -> Message:
    """Build the mail that reports a refund."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_("Your refund of {amount} from {shop}", shop=context.shop, amount=amount),
        paragraphs=[
            _("{shop} has refunded {amount} to you.", shop=context.shop, amount=amount),
            _("It may take a few days for the refund to appear in your account."),
        ],
        figure=amount,
        facts=[
            (_("Item"), content.item),
            (_("Refunded"), amount),
            *_refunded_in_total(content, context),
            *([(_("Refunded to"), _method(content, context))] if content.method else []),
            (_(NC_("refund", "Date")), context.when(content.at)),
            *_reference(content.reference, context),
            (_("Order ID"), content.order_id),
        ],
        action=(_("View receipt"), context.url(f"/receipt/{content.session_id}")),
    )


def refund_failed(content: RefundContent, context: MessageContext) -> Message:
    """Build the mail that reports the reversal of a refund."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_("Your refund of {amount} from {shop} failed", shop=context.shop, amount=amount),
        paragraphs=[
            _(
                "{shop} refunded {amount} to you, but your bank or payment provider returned the "
                "money. The refund to your card or account could not be completed.",
                shop=context.shop,
                amount=amount,
            ),
            _(
                "{shop} has been notified and can send the refund again. If you do not receive "
                "it, please contact them.",
                shop=context.shop,
            ),
        ],
        facts=[
            (_("Item"), content.item),
            (_("Amount"), amount),
            (_("Date"), context.when(content.at)),
            (_("Order ID"), content.order_id),
            *_reference(content.reference, context),
        ],
        action=(_("View receipt"), context.url(f"/receipt/{content.session_id}")),
    )
