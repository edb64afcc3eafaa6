"""What can be mailed: the table of topics, what each says, and who of a merchant it is for.

A message is added by a struct of what it says, a function that puts it into words, a row of the
table, and its sentences in ``catalogue``. All messages have one template.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from opentill.mail import staff_topics
from opentill.mail.staff_topics import Approval, Deadline, Stuck, Violated
from opentill.mail.words import Amount, Fact, Message, Words
from opentill.people import STAFF_ROLES, MerchantRole, Permission, StaffRole, staff_may


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid; ``shop`` is what its customer knew the merchant as."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    method: str
    paid_at: int
    reference: str = ""  # the shop's own number


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """Money was given back; ``shop`` is what the customer knew the merchant as."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    refunded: Amount
    at: int
    reference: str = ""  # the shop's own number


class Dispute(msgspec.Struct, frozen=True, kw_only=True):
    """A customer disputes a payment."""

    merchant_id: str
    dispute_id: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int | None


class Payout(msgspec.Struct, frozen=True, kw_only=True):
    """A payout was paid, or failed."""

    merchant_id: str
    payout_id: str
    amount: Amount
    reference: str = ""
    reason: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody changed something, as the audit log has it."""

    merchant_id: str
    action: str
    who: str
    subject: str
    at: int


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody logged in where this account was not seen before."""

    address: str
    device: str
    at: int


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is invited."""

    by: str
    expires_at: int


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants to choose a new password."""

    at: int


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought in one currency."""

    payments: int
    paid: Amount
    refunded: Amount
    disputed: Amount
    net: Amount


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought."""

    merchant_id: str
    at: int  # a moment of that day
    days: list[Day]


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody tries whether mail arrives."""

    at: int


def _reference(reference: str, words: Words) -> list[Fact]:
    return [(words.say("fact_reference"), reference)] if reference else []


def _receipt(it: Receipt, words: Words) -> Message:
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


def _refund(it: Refund, words: Words) -> Message:
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


def _dispute(it: Dispute, words: Words) -> Message:
    say = words.say
    deadline = say("dispute_no_deadline") if it.respond_by is None else words.when(it.respond_by)
    return Message(
        subject=say("dispute_subject", amount=words.amount(it.amount)),
        paragraphs=[say("dispute_text", shop=words.shop)],
        facts=[
            (say("fact_amount"), words.amount(it.amount)),
            (say("fact_reason"), it.reason or "–"),
            (say("fact_deadline"), deadline),
            (say("fact_order"), it.order_id),
        ],
        action=(
            say("dispute_open"),
            words.url(f"/dashboard/{it.merchant_id}/disputes/{it.dispute_id}"),
        ),
    )


def _payout(key: str) -> Callable[[Payout, Words], Message]:
    def compose(it: Payout, words: Words) -> Message:
        say, amount = words.say, words.amount(it.amount)
        facts = [
            (say("fact_amount"), amount),
            (say("fact_bank"), it.reference),
            (say("fact_reason"), it.reason),
        ]
        return Message(
            subject=say(f"{key}_subject", amount=amount),
            paragraphs=[say(f"{key}_text", shop=words.shop, amount=amount)],
            facts=[fact for fact in facts if fact[1]],
            action=(
                say("payout_open"),
                words.url(f"/dashboard/{it.merchant_id}/payouts/{it.payout_id}"),
            ),
        )

    return compose


def _entry(key: str, page: str) -> Callable[[Entry, Words], Message]:
    def compose(it: Entry, words: Words) -> Message:
        say = words.say
        return Message(
            subject=say(f"{key}_subject", shop=words.shop),
            paragraphs=[say(f"{key}_text", shop=words.shop)],
            facts=[
                (say("fact_what"), f"{it.action}: {it.subject}"),
                (say("fact_who"), it.who),
                (say("fact_when"), words.when(it.at)),
            ],
            action=(say(f"{key}_open"), words.url(f"/dashboard/{it.merchant_id}/{page}")),
        )

    return compose


def _login(it: Login, words: Words) -> Message:
    say = words.say
    return Message(
        subject=say("login_subject"),
        paragraphs=[say("login_text"), say("login_else")],
        facts=[
            (say("fact_when"), words.when(it.at)),
            (say("fact_device"), it.device or "–"),
            (say("fact_address"), it.address),
        ],
        action=(say("login_open"), words.url("/security")),
    )


def _invitation(it: Invitation, words: Words) -> Message:
    say, place = words.say, words.shop or "OpenTill"
    return Message(
        subject=say("invitation_subject", place=place),
        paragraphs=[say("invitation_text", by=it.by, place=place), say("link_once")],
        facts=[(say("fact_until"), words.when(it.expires_at))],
        action=(say("invitation_open"), words.url(words.secret)),
        note=say("invitation_else"),
    )


def _reset(_it: Reset, words: Words) -> Message:
    say = words.say
    return Message(
        subject=say("reset_subject"),
        paragraphs=[say("reset_text"), say("link_once")],
        action=(say("reset_open"), words.url(words.secret)),
        note=say("reset_else"),
    )


def _digest(it: Digest, words: Words) -> Message:
    say = words.say
    date = words.localizer.moment_in(it.at, words.zone).rpartition(",")[0]
    facts: list[Fact] = []
    for day in it.days:
        currency = day.paid[1]
        facts += [
            (f"{say('digest_payments')} ({currency})", words.localizer.number(day.payments)),
            (say("digest_paid"), words.amount(day.paid)),
            (say("digest_refunded"), words.amount(day.refunded)),
            (say("digest_disputed"), words.amount(day.disputed)),
            (say("digest_net"), words.amount(day.net)),
        ]
    return Message(
        subject=say("digest_subject", shop=words.shop, date=date),
        paragraphs=[
            say("digest_text" if facts else "digest_nothing", date=date, zone=words.zone.key)
        ],
        facts=facts,
        action=(say("digest_open"), words.url(f"/dashboard/{it.merchant_id}/")),
        note=say("digest_off"),
    )


def _test(it: Test, words: Words) -> Message:
    return Message(
        subject=words.say("test_subject"),
        paragraphs=[words.say("test_text")],
        facts=[(words.say("fact_when"), words.when(it.at))],
    )


class Topic(NamedTuple):
    """A message that can be sent. ``members`` and ``staff`` are the roles that get it."""

    name: str
    data: type[msgspec.Struct]
    compose: Callable[[Any, Words], Message]
    members: tuple[MerchantRole, ...] = ()
    staff: tuple[StaffRole, ...] = ()


def _who_may(permission: Permission) -> tuple[StaffRole, ...]:
    return tuple(role for role in STAFF_ROLES if staff_may(role, permission))


TOPICS: Final = (
    #     name                 says         in words              members              staff
    Topic("receipt", Receipt, _receipt),
    Topic("refund", Refund, _refund),
    Topic("dispute_opened", Dispute, _dispute, ("owner", "support")),
    Topic("payout_paid", Payout, _payout("payout_paid"), ("owner", "finance")),
    Topic("payout_failed", Payout, _payout("payout_failed"), ("owner", "finance")),
    Topic(
        "endpoint_disabled",
        Entry,
        _entry("endpoint", "developers/webhooks"),
        ("owner", "developer"),
    ),
    Topic("key_changed", Entry, _entry("key", "developers/keys"), ("owner", "developer")),
    Topic("account_changed", Entry, _entry("account", "payouts/account"), ("owner", "finance")),
    Topic("digest", Digest, _digest, ("owner", "finance")),
    Topic("new_login", Login, _login),
    Topic("invitation", Invitation, _invitation),
    Topic("reset", Reset, _reset),
    Topic("books_violated", Violated, staff_topics.violated, staff=("admin", "finance")),
    Topic("gateway_away", Stuck, staff_topics.stuck, staff=("admin", "support")),
    Topic(
        "approval_waiting",
        Approval,
        staff_topics.approval,
        staff=_who_may("approvals.decide"),
    ),
    Topic(
        "dispute_deadline",
        Deadline,
        staff_topics.deadline("deadline"),
        ("owner", "support"),
    ),
    Topic(
        "dispute_deadline_staff",
        Deadline,
        staff_topics.deadline("deadline_staff"),
        staff=_who_may("disputes.decide"),
    ),
    Topic("test", Test, _test),
)
BY_NAME: Final[Mapping[str, Topic]] = {topic.name: topic for topic in TOPICS}
