"""Messages to merchants, their people and staff: what each says (``contents.py``), in words."""

from collections.abc import Callable
from typing import Final

from opentill import payouts
from opentill.mail.model import (
    AccountChangeContent,
    ApprovalContent,
    AuditContent,
    DeadlineContent,
    DigestContent,
    DisputeContent,
    Fact,
    FactorResetContent,
    InvitationContent,
    LoginContent,
    Message,
    OutageContent,
    PasswordResetContent,
    PayoutContent,
    RefundReportContent,
    TestContent,
    ViolationsContent,
    Words,
)
from opentill.web import refund_failures
from opentill.web.translations import N_, NC_

ACCOUNT_CHANGE: Final = {
    "authenticator_on": N_("An authenticator was set up"),
    "authenticator_off": N_("The authenticator was removed"),
    "codes": N_("Recovery codes were renewed"),
    "passkey_on": N_("A passkey was added"),
    "passkey_off": N_("A passkey was removed"),
    "password": N_("The password was changed"),
    "set_anew": N_("The account was set up anew"),
    "joined": N_("An invitation was accepted"),
    "role": N_("The role was changed"),
    "removed": N_("A role was removed"),
    "codes_wrong": N_("Wrong codes were entered with the right password"),
    "factors_asked": N_("A reset of the second factors was asked for"),
    "factors_begun": N_("A reset of the second factors has begun"),
    "factors_stopped": N_("The reset of the second factors was stopped"),
    "factors_ended": N_("The second factors were reset"),
}
MOVEMENT_KIND: Final = {
    "payout-returned": N_("Payout marked as returned"),
    "confirm": N_("Confirmation of a payment"),
    "refund": N_("Refund"),
    "refund-recorded": N_("Refund made elsewhere, to be recorded"),
    "refund-failed": N_("Refund marked as failed"),
    "refund-reversed": N_("Refund marked as reversed"),
    "dispute-won": N_("Dispute marked as won"),
    "dispute-recovered": N_("Dispute marked as recovered"),
    "payout-failed": N_("Payout marked as failed"),
    "payout": N_("Payout"),
    "freeze": N_("Freeze"),
    "unfreeze": N_("Unfreeze"),
    "recharge": N_("Recharge"),
    "correct": N_("Correction"),
    "fee": N_("Fee"),
}


_DAY_MS: Final = 86_400_000


def refund_report(subject: str, text: str) -> Callable[[RefundReportContent, Words], Message]:
    """Return what writes of a refund that was reversed or made at the provider."""

    def compose(it: RefundReportContent, words: Words) -> Message:
        _, amount = words.gettext, words.amount(it.amount)
        language = words.localizer.language
        return Message(
            subject=_(subject, amount=amount),
            paragraphs=[_(text, shop=words.shop, amount=amount)],
            facts=[
                (_("Amount"), amount),
                (_("Reason"), refund_failures.text_of(it.reason, language) or "–"),
                (_("When"), words.when(it.at)),
                (_("Order"), it.order_id),
            ],
            action=(
                _("See the payment"),
                words.url(f"/dashboard/{it.merchant_id}/payments/{it.order_id}"),
            ),
        )

    return compose


def dispute(it: DisputeContent, words: Words) -> Message:
    """Write of a dispute that was opened."""
    _ = words.gettext
    deadline = (
        _("nobody has named a time yet") if it.respond_by is None else words.when(it.respond_by)
    )
    return Message(
        subject=_("A payment of {amount} is disputed", amount=words.amount(it.amount)),
        paragraphs=[
            _(
                "A customer of {shop} disputes a payment. If you can show that "
                "it was right, hand in evidence before the deadline: without a "
                "response the money is usually lost.",
                shop=words.shop,
            )
        ],
        facts=[
            (_("Amount"), words.amount(it.amount)),
            (_("Reason"), it.reason or "–"),
            (_("Respond until"), deadline),
            (_("Order"), it.order_id),
        ],
        action=(
            _("Respond to the dispute"),
            words.url(f"/dashboard/{it.merchant_id}/disputes/{it.dispute_id}"),
        ),
    )


def payout(subject: str, text: str) -> Callable[[PayoutContent, Words], Message]:
    """Return what writes of a payout, paid or failed."""

    def compose(it: PayoutContent, words: Words) -> Message:
        _, amount = words.gettext, words.amount(it.amount)
        returned = (
            N_("Your bank returned a payout of {amount}"),
            N_(
                "Your bank returned a payout of {shop} that had been sent. Its "
                "money is available again."
            ),
        )
        own_subject, own_text = returned if it.returned else (subject, text)
        is_held = it.returned or payouts.names_account(it.reason)
        waits = (
            [
                _(
                    "Unless you have changed your bank account since then, the "
                    "next payout waits until an owner of your team enters another "
                    "account or the operator confirms this one. If it is closed or "
                    "wrong, enter another one on the page of payouts; if it is "
                    "right, write to the operator."
                )
            ]
            if is_held
            else []
        )
        facts = [
            (_("Amount"), amount),
            (_("Bank reference"), it.reference),
            (_("Reason"), it.reason),
        ]
        return Message(
            subject=_(own_subject, amount=amount),
            paragraphs=[_(own_text, shop=words.shop, amount=amount), *waits],
            facts=[fact for fact in facts if fact[1]],
            action=(
                _("See the payout"),
                words.url(f"/dashboard/{it.merchant_id}/payouts/{it.payout_id}"),
            ),
        )

    return compose


def audit_entry(
    subject: str, text: str, label: str, page: str
) -> Callable[[AuditContent, Words], Message]:
    """Return what writes of a change that somebody made, and of the page where it stands."""

    def compose(it: AuditContent, words: Words) -> Message:
        _ = words.gettext
        return Message(
            subject=_(subject, shop=words.shop),
            paragraphs=[_(text, shop=words.shop)],
            facts=[
                (_("What"), f"{it.action}: {it.subject}"),
                (_("By whom"), it.who),
                (_("When"), words.when(it.at)),
            ],
            action=(_(label), words.url(f"/dashboard/{it.merchant_id}/{page}")),
        )

    return compose


def account_change(it: AccountChangeContent, words: Words) -> Message:
    """Write of a change of an account, to its person."""
    _ = words.gettext
    change = _(ACCOUNT_CHANGE[it.change])
    return Message(
        subject=_("{change}", change=change),
        paragraphs=[
            _("{change}. It is your account {email}.", change=change, email=it.email),
            _(
                "If you did not expect this, change your password at once and "
                "contact the operator of this service."
            ),
        ],
        facts=_facts_of_change(it, change, words),
        action=(_("See your account"), words.url("/security")),
    )


def account_change_staff(it: AccountChangeContent, words: Words) -> Message:
    """Write of a change of an account, to other administrators."""
    _ = words.gettext
    change = _(ACCOUNT_CHANGE[it.change])
    return Message(
        subject=_("{change}: {email}", change=change, email=it.email),
        paragraphs=[
            _(
                "{change}. It is the account of somebody on the staff: {email}.",
                change=change,
                email=it.email,
            ),
            _("If nobody on the staff expected this, end the person’s logins and ask them."),
        ],
        facts=_facts_of_change(it, change, words),
        action=(_("See the staff"), words.url("/console/people")),
    )


def _facts_of_change(it: AccountChangeContent, change: str, words: Words) -> list[Fact]:
    _ = words.gettext
    return [
        (_("What"), change),
        (_("By whom"), it.who),
        (_("Reason"), it.reason),
        (_("When"), words.when(it.at)),
    ]


def factors_waiting(it: FactorResetContent, words: Words) -> Message:
    """Write to whom second factors end after a waiting time, with the link that stops it."""
    _ = words.gettext
    return Message(
        subject=_("Your second factors are about to be reset"),
        paragraphs=[
            _(
                "Your passkeys, authenticator and recovery codes are removed "
                "on {time}. After that, you can log in with your password "
                "alone.",
                time=words.when(it.until),
            )
        ],
        facts=[(_("When"), words.when(it.at))],
        action=(_("Stop the reset"), words.url(words.secret)) if words.secret else None,
        note=_("If you still have your second factors, or did not ask for this, stop it."),
    )


def login(it: LoginContent, words: Words) -> Message:
    """Write of a login from elsewhere."""
    _ = words.gettext
    return Message(
        subject=_("New login to your account"),
        paragraphs=[
            _("Somebody has logged in to your account where it was not seen before."),
            _(
                "If that was you, there is nothing to do. If not, end that "
                "login and change your password at once."
            ),
        ],
        facts=[
            (_("When"), words.when(it.at)),
            (_("Device"), it.device or "–"),
            (_("Address"), it.address),
        ],
        action=(_("See your logins"), words.url("/security")),
    )


def invitation(it: InvitationContent, words: Words) -> Message:
    """Write to whom somebody invites: subject and sentences have no words of the inviter's."""
    _ = words.gettext
    of_merchant = [(_("The merchant calls itself"), words.shop)] if words.shop else []
    return Message(
        subject=_("You are invited to a team on OpenTill"),
        paragraphs=[
            _(
                "You are invited to a team on OpenTill. Whoever invites you "
                "chose the names below themselves; nobody has checked them."
            ),
            _("The link works once, for 24 hours. Whoever has it can use it: do not pass it on."),
        ],
        facts=[
            *of_merchant,
            (_("Invited by"), it.by),
            (_("Works until"), words.when(it.expires_at)),
        ],
        is_branded=False,
        action=(_("Accept the invitation"), words.url(words.secret)),
        note=_("If you did not expect this, ignore this mail."),
    )


def reset(_it: PasswordResetContent, words: Words) -> Message:
    """Write to whoever wants a new password; without a link where staff have made one."""
    _ = words.gettext
    if not words.secret:
        return Message(
            subject=_("Choose a new password"),
            paragraphs=[
                _("Somebody, hopefully you, wants to choose a new password for this address."),
                _(
                    "Whoever runs the payments has made a link for that, which "
                    "still works: follow that one. If you do not have it, ask them "
                    "for another."
                ),
            ],
            note=_("If that was not you, ignore this mail: your password stays as it is."),
        )
    return Message(
        subject=_("Choose a new password"),
        paragraphs=[
            _("Somebody, hopefully you, wants to choose a new password for this address."),
            _("The link works once, for 24 hours. Whoever has it can use it: do not pass it on."),
        ],
        action=(_("Choose a new password"), words.url(words.secret)),
        note=_("If that was not you, ignore this mail: your password stays as it is."),
    )


def digest(it: DigestContent, words: Words) -> Message:
    """Write of what a day brought."""
    _ = words.gettext
    date = words.localizer.moment_in(it.at, words.zone).rpartition(",")[0]
    facts: list[Fact] = []
    for day in it.days:
        currency = day.paid[1]
        facts += [
            (_("Payments") + f" ({currency})", words.localizer.number(day.payments)),
            (_(NC_("daily summary", "Paid")), words.amount(day.paid)),
            (_(NC_("daily summary", "Refunded")), words.amount(day.refunded)),
            (_("Lost to disputes"), words.amount(day.disputed)),
            (_("Net"), words.amount(day.net)),
        ]
    return Message(
        subject=_("{shop}: {date}", shop=words.shop, date=date),
        paragraphs=[
            _(
                N_("What happened on {date} ({zone}).")
                if facts
                else N_("Nothing was paid, refunded or disputed on {date} ({zone})."),
                date=date,
                zone=words.zone.key,
            )
        ],
        facts=facts,
        action=(_("See the dashboard"), words.url(f"/dashboard/{it.merchant_id}/")),
        note=_("An owner can turn this daily message off in the settings."),
    )


def test(it: TestContent, words: Words) -> Message:
    """Write to see that mail arrives."""
    return Message(
        subject=words.gettext("A test of OpenTill's mail"),
        paragraphs=[words.gettext("If you read this, mail works.")],
        facts=[(words.gettext("When"), words.when(it.at))],
    )


def violated(it: ViolationsContent, words: Words) -> Message:
    """Write of books that are wrong."""
    _ = words.gettext
    return Message(
        subject=_("The books are wrong"),
        paragraphs=[
            _(
                "The continuous check of the ledger has found {number} "
                "violations. Look into them before you pay anybody out:",
                number=words.localizer.number(it.found),
            )
        ],
        note="opentill ledger check",
    )


def stuck(it: OutageContent, words: Words) -> Message:
    """Write of a gateway that says nothing."""
    _ = words.gettext
    return Message(
        subject=_("The gateway {gateway} does not respond", gateway=it.gateway),
        paragraphs=[
            _(
                "Payments through {gateway} have been waiting for a response "
                "for a long time. Customers may have paid; OpenTill goes on "
                "asking.",
                gateway=it.gateway,
            )
        ],
        facts=[
            (_("Payments"), words.localizer.number(it.payments)),
            (_("The oldest since"), words.when(it.since)),
        ],
        note="opentill orders",
    )


def approval(it: ApprovalContent, words: Words) -> Message:
    """Write of something that waits for a second person."""
    _, amount = words.gettext, words.amount(it.amount)
    return Message(
        subject=_(
            "{kind} of {amount}: a second person is needed",
            kind=_(MOVEMENT_KIND[it.kind]),
            amount=amount,
        ),
        paragraphs=[
            _("This waits for somebody else than who asked for it. Nothing has moved yet.")
        ],
        facts=[
            (_("What"), _(MOVEMENT_KIND[it.kind])),
            (_("Amount"), amount),
            (_("Merchant"), it.shop),
            (_("Reason"), it.reason),
            (_("By whom"), it.who),
            (_("When"), words.when(it.at)),
        ],
        action=(_("See the approvals"), words.url("/console/approvals")),
    )


def deadline(
    text: str, text_responded: str, label: str
) -> Callable[[DeadlineContent, Words], Message]:
    """Return what writes of a dispute's deadline, to members or to staff."""

    def compose(it: DeadlineContent, words: Words) -> Message:
        _, amount = words.gettext, words.amount(it.amount)
        left = words.localizer.duration(it.days * _DAY_MS)
        facts: list[Fact] = [
            (_("Amount"), amount),
            (_("Merchant"), it.shop),
            (_("Reason"), it.reason or "–"),
            (_("Respond until"), words.when(it.respond_by)),
            (_("Order"), it.order_id),
        ]
        return Message(
            subject=_(
                "Disputed payment of {amount}: less than {left} to respond",
                amount=amount,
                left=left,
            ),
            paragraphs=[_(text_responded if it.responded else text, shop=it.shop, left=left)],
            facts=facts,
            action=(_(label), words.url(it.path)),
        )

    return compose
