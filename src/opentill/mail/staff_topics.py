"""What staff are written, and what members are reminded of: what each message says, in words."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentill.mail.words import Amount, Fact, Message, Words

_DAY_MS: Final = 86_400_000


class Violated(msgspec.Struct, frozen=True, kw_only=True):
    """The incremental check found what must not be."""

    found: int


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway says nothing about payments that it was asked about long ago."""

    gateway: str
    payments: int
    since: int


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Something waits for a second person; ``kind`` is an adjustment's, or "payout"."""

    shop: str
    kind: str
    amount: Amount
    reason: str
    who: str
    at: int


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute is to be responded to within some days; ``path`` is its page."""

    shop: str
    path: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int
    days: int
    responded: bool = False  # the merchant has, and the operator is to send it on


def violated(it: Violated, words: Words) -> Message:
    """Write of books that are wrong."""
    say = words.say
    return Message(
        subject=say("violated_subject"),
        paragraphs=[say("violated_text", number=words.localizer.number(it.found))],
        note="opentill ledger check",
    )


def stuck(it: Stuck, words: Words) -> Message:
    """Write of a gateway that says nothing."""
    say = words.say
    return Message(
        subject=say("stuck_subject", gateway=it.gateway),
        paragraphs=[say("stuck_text", gateway=it.gateway)],
        facts=[
            (say("stuck_payments"), words.localizer.number(it.payments)),
            (say("stuck_since"), words.when(it.since)),
        ],
        note="opentill orders",
    )


def approval(it: Approval, words: Words) -> Message:
    """Write of something that waits for a second person."""
    say, amount = words.say, words.amount(it.amount)
    return Message(
        subject=say("approval_subject", kind=say(f"approval_{it.kind}"), amount=amount),
        paragraphs=[say("approval_text")],
        facts=[
            (say("fact_what"), say(f"approval_{it.kind}")),
            (say("fact_amount"), amount),
            (say("fact_merchant"), it.shop),
            (say("fact_reason"), it.reason),
            (say("fact_who"), it.who),
            (say("fact_when"), words.when(it.at)),
        ],
        action=(say("approval_open"), words.url("/console/approvals")),
    )


def deadline(key: str) -> Callable[[Deadline, Words], Message]:
    """Return what writes of a dispute's deadline, to members or to staff."""

    def compose(it: Deadline, words: Words) -> Message:
        say, amount = words.say, words.amount(it.amount)
        left = words.localizer.duration(it.days * _DAY_MS)
        text = f"{key}_responded" if it.responded else f"{key}_text"
        facts: list[Fact] = [
            (say("fact_amount"), amount),
            (say("fact_merchant"), it.shop),
            (say("fact_reason"), it.reason or "–"),
            (say("fact_deadline"), words.when(it.respond_by)),
            (say("fact_order"), it.order_id),
        ]
        return Message(
            subject=say("deadline_subject", amount=amount, left=left),
            paragraphs=[say(text, shop=it.shop, left=left)],
            facts=facts,
            action=(say(f"{key}_open"), words.url(it.path)),
        )

    return compose
