"""Templates of mails to customers: they make a message of a topic's content."""

from opentill.mail.model import Fact, Message, MessageContext, ReceiptContent, RefundContent
from opentill.receipts.model import PAYMENT_METHOD
from opentill.web.translations import NC_


def _reference(reference: str, context: MessageContext) -> list[Fact]:
    return [(context.gettext("Order number of the shop"), reference)] if reference else []


def receipt(content: ReceiptContent, context: MessageContext) -> Message:
    """Send the receipt of a paid order."""
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
        facts=[
            (_("Item"), content.item),
            (_("Amount"), context.amount(content.amount)),
            (_("Paid with"), _(PAYMENT_METHOD[content.method]) if content.method else "–"),
            (_("Paid"), context.when(content.paid_at)),
            (_("Order"), content.order_id),
            *_reference(content.reference, context),
        ],
        action=(_("See the receipt"), context.url(f"/receipt/{content.session_id}")),
    )


def refund(content: RefundContent, context: MessageContext) -> Message:
    """Report a refund."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_("{shop} has refunded {amount}", shop=context.shop, amount=amount),
        paragraphs=[
            _("{shop} has refunded {amount} to you.", shop=context.shop, amount=amount),
            _("It can take some days until your bank shows it."),
        ],
        facts=[
            (_("Item"), content.item),
            (_("Given back"), amount),
            (_("Given back in all"), context.amount(content.refunded)),
            (_(NC_("refund", "When")), context.when(content.at)),
            (_("Order"), content.order_id),
            *_reference(content.reference, context),
        ],
        action=(_("See the receipt"), context.url(f"/receipt/{content.session_id}")),
    )


def refund_failed(content: RefundContent, context: MessageContext) -> Message:
    """Report that a refund was reversed."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_("{shop}: your refund of {amount} failed", shop=context.shop, amount=amount),
        paragraphs=[
            _(
                "{shop} refunded {amount} to you, but your bank or payment provider sent the "
                "money back. The refund to your card or account could not be completed.",
                shop=context.shop,
                amount=amount,
            ),
            _(
                "{shop} has been informed and can refund you again. If it does not contact you, "
                "please contact the shop.",
                shop=context.shop,
            ),
        ],
        facts=[
            (_("Item"), content.item),
            (_("Amount"), amount),
            (_("When"), context.when(content.at)),
            (_("Order"), content.order_id),
            *_reference(content.reference, context),
        ],
        action=(_("See the receipt"), context.url(f"/receipt/{content.session_id}")),
    )
