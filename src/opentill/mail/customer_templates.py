"""Messages to customers: what each says (``contents.py``), in words."""

from typing import Final

from opentill.mail.model import Fact, Message, ReceiptContent, RefundContent, Words
from opentill.web.translations import N_, NC_

PAYMENT_METHOD: Final = {
    "CREDIT_CARD": N_("Card"),
    "ALIPAY": N_("Alipay"),
    "WECHAT_PAY": N_("WeChat Pay"),
    "PAYNOW": N_("PayNow"),
    "CRYPTO": N_("Crypto"),
    "BANK_TRANSFER": N_("Bank transfer"),
}


def _reference(reference: str, words: Words) -> list[Fact]:
    return [(words.gettext("Order number of the shop"), reference)] if reference else []


def receipt(it: ReceiptContent, words: Words) -> Message:
    """Write of an order that was paid, to its customer."""
    _ = words.gettext
    return Message(
        subject=_("Your receipt from {shop}", shop=words.shop),
        paragraphs=[
            _(
                "Thank you. {shop} has received your payment of {amount}.",
                shop=words.shop,
                amount=words.amount(it.amount),
            )
        ],
        facts=[
            (_("Item"), it.item),
            (_("Amount"), words.amount(it.amount)),
            (_("Paid with"), _(PAYMENT_METHOD[it.method]) if it.method else "–"),
            (_("Paid"), words.when(it.paid_at)),
            (_("Order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(_("See the receipt"), words.url(f"/receipt/{it.session_id}")),
    )


def refund(it: RefundContent, words: Words) -> Message:
    """Write of money given back, to its customer."""
    _, amount = words.gettext, words.amount(it.amount)
    return Message(
        subject=_("{shop} has refunded {amount}", shop=words.shop, amount=amount),
        paragraphs=[
            _("{shop} has refunded {amount} to you.", shop=words.shop, amount=amount),
            _("It can take some days until your bank shows it."),
        ],
        facts=[
            (_("Item"), it.item),
            (_("Given back"), amount),
            (_("Given back in all"), words.amount(it.refunded)),
            (_(NC_("refund", "When")), words.when(it.at)),
            (_("Order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(_("See the receipt"), words.url(f"/receipt/{it.session_id}")),
    )


def refund_failed(it: RefundContent, words: Words) -> Message:
    """Write of a refund whose money came back to the shop, to its customer."""
    _, amount = words.gettext, words.amount(it.amount)
    return Message(
        subject=_("{shop}: your refund of {amount} failed", shop=words.shop, amount=amount),
        paragraphs=[
            _(
                "{shop} refunded {amount} to you, but your bank or payment "
                "provider sent the money back. The refund to your card or "
                "account could not be completed.",
                shop=words.shop,
                amount=amount,
            ),
            _(
                "{shop} has been informed and can refund you again. If it does "
                "not contact you, please contact the shop.",
                shop=words.shop,
            ),
        ],
        facts=[
            (_("Item"), it.item),
            (_("Amount"), amount),
            (_("When"), words.when(it.at)),
            (_("Order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(_("See the receipt"), words.url(f"/receipt/{it.session_id}")),
    )
