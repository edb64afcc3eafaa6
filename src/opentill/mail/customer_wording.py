"""Messages to customers: what each says (``contents.py``), in words."""

from opentill.mail.contents import Receipt, Refund
from opentill.mail.words import Fact, Message, Words


def _reference(reference: str, words: Words) -> list[Fact]:
    return [(words.say("fact_reference"), reference)] if reference else []


def receipt(it: Receipt, words: Words) -> Message:
    """Write of an order that was paid, to its customer."""
    say = words.say
    return Message(
        subject=say("receipt_subject", shop=words.shop),
        paragraphs=[say("receipt_text", shop=words.shop, amount=words.amount(it.amount))],
        facts=[
            (say("fact_item"), it.item),
            (say("fact_amount"), words.amount(it.amount)),
            (say("fact_method"), say(it.method) if it.method else "–"),
            (say("fact_paid_at"), words.when(it.paid_at)),
            (say("fact_order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(say("receipt_open"), words.url(f"/receipt/{it.session_id}")),
    )


def refund(it: Refund, words: Words) -> Message:
    """Write of money given back, to its customer."""
    say, amount = words.say, words.amount(it.amount)
    return Message(
        subject=say("refund_subject", shop=words.shop, amount=amount),
        paragraphs=[say("refund_text", shop=words.shop, amount=amount), say("refund_days")],
        facts=[
            (say("fact_item"), it.item),
            (say("fact_refund"), amount),
            (say("fact_refunded"), words.amount(it.refunded)),
            (say("fact_refunded_at"), words.when(it.at)),
            (say("fact_order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(say("receipt_open"), words.url(f"/receipt/{it.session_id}")),
    )


def refund_failed(it: Refund, words: Words) -> Message:
    """Write of a refund whose money came back to the shop, to its customer."""
    say, amount = words.say, words.amount(it.amount)
    return Message(
        subject=say("refund_failed_subject", shop=words.shop, amount=amount),
        paragraphs=[
            say("refund_failed_text", shop=words.shop, amount=amount),
            say("refund_failed_else", shop=words.shop),
        ],
        facts=[
            (say("fact_item"), it.item),
            (say("fact_amount"), amount),
            (say("fact_when"), words.when(it.at)),
            (say("fact_order"), it.order_id),
            *_reference(it.reference, words),
        ],
        action=(say("receipt_open"), words.url(f"/receipt/{it.session_id}")),
    )
