"""Messages to merchants, their people and staff: what each says (``contents.py``), in words."""

from collections.abc import Callable
from typing import Final

from opentill import payouts
from opentill.mail.contents import (
    AccountChange,
    Approval,
    Deadline,
    Digest,
    Dispute,
    Entry,
    FactorsWaiting,
    Invitation,
    Login,
    Payout,
    RefundReport,
    Reset,
    Stuck,
    Test,
    Violated,
)
from opentill.mail.words import Fact, Message, Words
from opentill.web import refund_failures

_DAY_MS: Final = 86_400_000


def refund_report(subject: str, text: str) -> Callable[[RefundReport, Words], Message]:
    """Return what writes of a refund that was reversed or made at the provider."""

    def compose(it: RefundReport, words: Words) -> Message:
        say, amount = words.say, words.amount(it.amount)
        language = words.localizer.language
        return Message(
            subject=say(subject, amount=amount),
            paragraphs=[say(text, shop=words.shop, amount=amount)],
            facts=[
                (say("fact_amount"), amount),
                (say("fact_reason"), refund_failures.text_of(it.reason, language) or "–"),
                (say("fact_when"), words.when(it.at)),
                (say("fact_order"), it.order_id),
            ],
            action=(
                say("refund_report_open"),
                words.url(f"/dashboard/{it.merchant_id}/payments/{it.order_id}"),
            ),
        )

    return compose


def dispute(it: Dispute, words: Words) -> Message:
    """Write of a dispute that was opened."""
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


def payout(subject: str, text: str) -> Callable[[Payout, Words], Message]:
    """Return what writes of a payout, paid or failed."""

    def compose(it: Payout, words: Words) -> Message:
        say, amount = words.say, words.amount(it.amount)
        returned = ("payout_returned_subject", "payout_returned_text")
        own_subject, own_text = returned if it.returned else (subject, text)
        is_held = it.returned or payouts.names_account(it.reason)
        waits = [say("payout_waits_text")] if is_held else []
        facts = [
            (say("fact_amount"), amount),
            (say("fact_bank"), it.reference),
            (say("fact_reason"), it.reason),
        ]
        return Message(
            subject=say(own_subject, amount=amount),
            paragraphs=[say(own_text, shop=words.shop, amount=amount), *waits],
            facts=[fact for fact in facts if fact[1]],
            action=(
                say("payout_open"),
                words.url(f"/dashboard/{it.merchant_id}/payouts/{it.payout_id}"),
            ),
        )

    return compose


def entry(subject: str, text: str, label: str, page: str) -> Callable[[Entry, Words], Message]:
    """Return what writes of a change that somebody made, and of the page where it stands."""

    def compose(it: Entry, words: Words) -> Message:
        say = words.say
        return Message(
            subject=say(subject, shop=words.shop),
            paragraphs=[say(text, shop=words.shop)],
            facts=[
                (say("fact_what"), f"{it.action}: {it.subject}"),
                (say("fact_who"), it.who),
                (say("fact_when"), words.when(it.at)),
            ],
            action=(say(label), words.url(f"/dashboard/{it.merchant_id}/{page}")),
        )

    return compose


def account_change(it: AccountChange, words: Words) -> Message:
    """Write of a change of an account, to its person."""
    say = words.say
    change = say(f"change_{it.change}")
    return Message(
        subject=say("account_change_subject", change=change),
        paragraphs=[
            say("account_change_text", change=change, email=it.email),
            say("account_change_else"),
        ],
        facts=_facts_of_change(it, change, words),
        action=(say("account_change_open"), words.url("/security")),
    )


def account_change_staff(it: AccountChange, words: Words) -> Message:
    """Write of a change of an account, to other administrators."""
    say = words.say
    change = say(f"change_{it.change}")
    return Message(
        subject=say("account_change_staff_subject", change=change, email=it.email),
        paragraphs=[
            say("account_change_staff_text", change=change, email=it.email),
            say("account_change_staff_else"),
        ],
        facts=_facts_of_change(it, change, words),
        action=(say("account_change_staff_open"), words.url("/console/people")),
    )


def _facts_of_change(it: AccountChange, change: str, words: Words) -> list[Fact]:
    say = words.say
    return [
        (say("fact_what"), change),
        (say("fact_who"), it.who),
        (say("fact_reason"), it.reason),
        (say("fact_when"), words.when(it.at)),
    ]


def factors_waiting(it: FactorsWaiting, words: Words) -> Message:
    """Write to whom second factors end after a waiting time, with the link that stops it."""
    say = words.say
    return Message(
        subject=say("factors_waiting_subject"),
        paragraphs=[say("factors_waiting_text", time=words.when(it.until))],
        facts=[(say("fact_when"), words.when(it.at))],
        action=(say("factors_waiting_open"), words.url(words.secret)) if words.secret else None,
        note=say("factors_waiting_else"),
    )


def login(it: Login, words: Words) -> Message:
    """Write of a login from elsewhere."""
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


def invitation(it: Invitation, words: Words) -> Message:
    """Write to whom somebody invites: subject and sentences have no words of the inviter's."""
    say = words.say
    of_merchant = [(say("fact_calls_itself"), words.shop)] if words.shop else []
    return Message(
        subject=say("invitation_subject"),
        paragraphs=[say("invitation_text"), say("link_once")],
        facts=[
            *of_merchant,
            (say("fact_invited_by"), it.by),
            (say("fact_until"), words.when(it.expires_at)),
        ],
        is_branded=False,
        action=(say("invitation_open"), words.url(words.secret)),
        note=say("invitation_else"),
    )


def reset(_it: Reset, words: Words) -> Message:
    """Write to whoever wants a new password; without a link where staff have made one."""
    say = words.say
    if not words.secret:
        return Message(
            subject=say("reset_subject"),
            paragraphs=[say("reset_text"), say("reset_offered")],
            note=say("reset_else"),
        )
    return Message(
        subject=say("reset_subject"),
        paragraphs=[say("reset_text"), say("link_once")],
        action=(say("reset_open"), words.url(words.secret)),
        note=say("reset_else"),
    )


def digest(it: Digest, words: Words) -> Message:
    """Write of what a day brought."""
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


def test(it: Test, words: Words) -> Message:
    """Write to see that mail arrives."""
    return Message(
        subject=words.say("test_subject"),
        paragraphs=[words.say("test_text")],
        facts=[(words.say("fact_when"), words.when(it.at))],
    )


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


def deadline(text: str, text_responded: str, label: str) -> Callable[[Deadline, Words], Message]:
    """Return what writes of a dispute's deadline, to members or to staff."""

    def compose(it: Deadline, words: Words) -> Message:
        say, amount = words.say, words.amount(it.amount)
        left = words.localizer.duration(it.days * _DAY_MS)
        facts: list[Fact] = [
            (say("fact_amount"), amount),
            (say("fact_merchant"), it.shop),
            (say("fact_reason"), it.reason or "–"),
            (say("fact_deadline"), words.when(it.respond_by)),
            (say("fact_order"), it.order_id),
        ]
        return Message(
            subject=say("deadline_subject", amount=amount, left=left),
            paragraphs=[say(text_responded if it.responded else text, shop=it.shop, left=left)],
            facts=facts,
            action=(say(label), words.url(it.path)),
        )

    return compose
