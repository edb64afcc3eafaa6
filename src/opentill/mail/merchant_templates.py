"""Templates of mails to members, persons and staff: they make a message of a topic's content."""

from collections.abc import Callable
from typing import Final, TypeVar

from opentill import payouts
from opentill.mail.model import (
    DAY_MS,
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
    MessageContext,
    OutageContent,
    PasswordResetContent,
    PayoutContent,
    RefundReportContent,
    TestContent,
    ViolationsContent,
)
from opentill.web import refund_failures
from opentill.web.translations import N_, NC_

_Content = TypeVar("_Content")
_Template = Callable[[_Content, MessageContext], Message]

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


def refund_report(subject: str, text: str) -> _Template[RefundReportContent]:
    """Return the template of a refund that was reversed or made at the provider."""

    def template(content: RefundReportContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        language = context.localizer.language
        return Message(
            subject=_(subject, amount=amount),
            paragraphs=[_(text, shop=context.shop, amount=amount)],
            facts=[
                (_("Amount"), amount),
                (_("Reason"), refund_failures.text_of(content.reason, language) or "–"),
                (_("When"), context.when(content.at)),
                (_("Order"), content.order_id),
            ],
            action=(
                _("See the payment"),
                context.url(f"/dashboard/{content.merchant_id}/payments/{content.order_id}"),
            ),
        )

    return template


def dispute(content: DisputeContent, context: MessageContext) -> Message:
    """Report a new dispute to members."""
    _ = context.gettext
    deadline = (
        _("nobody has named a time yet")
        if content.respond_by is None
        else context.when(content.respond_by)
    )
    return Message(
        subject=_("A payment of {amount} is disputed", amount=context.amount(content.amount)),
        paragraphs=[
            _(
                "A customer of {shop} disputes a payment. If you can show that it was right, hand "
                "in evidence before the deadline: without a response the money is usually lost.",
                shop=context.shop,
            )
        ],
        facts=[
            (_("Amount"), context.amount(content.amount)),
            (_("Reason"), content.reason or "–"),
            (_("Respond until"), deadline),
            (_("Order"), content.order_id),
        ],
        action=(
            _("Respond to the dispute"),
            context.url(f"/dashboard/{content.merchant_id}/disputes/{content.dispute_id}"),
        ),
    )


def payout(subject: str, text: str) -> _Template[PayoutContent]:
    """Return the template of a payout, paid or failed."""

    def template(content: PayoutContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        returned = (
            N_("Your bank returned a payout of {amount}"),
            N_(
                "Your bank returned a payout of {shop} that had been sent. Its money is available "
                "again."
            ),
        )
        own_subject, own_text = returned if content.returned else (subject, text)
        paragraphs = [_(own_text, shop=context.shop, amount=amount)]
        if content.returned or payouts.names_account(content.reason):
            paragraphs.append(
                _(
                    "Unless you have changed your bank account since then, the next payout waits "
                    "until an owner of your team enters another account or the operator confirms "
                    "this one. If it is closed or wrong, enter another one on the page of "
                    "payouts; if it is right, write to the operator."
                )
            )
        facts = [
            (_("Amount"), amount),
            (_("Bank reference"), content.reference),
            (_("Reason"), content.reason),
        ]
        return Message(
            subject=_(own_subject, amount=amount),
            paragraphs=paragraphs,
            facts=[fact for fact in facts if fact[1]],
            action=(
                _("See the payout"),
                context.url(f"/dashboard/{content.merchant_id}/payouts/{content.payout_id}"),
            ),
        )

    return template


def audit_entry(subject: str, text: str, label: str, page: str) -> _Template[AuditContent]:
    """Return the template of an entry of the audit log; ``page`` shows what was changed."""

    def template(content: AuditContent, context: MessageContext) -> Message:
        _ = context.gettext
        return Message(
            subject=_(subject, shop=context.shop),
            paragraphs=[_(text, shop=context.shop)],
            facts=[
                (_("What"), f"{content.action}: {content.subject}"),
                (_("By whom"), content.who),
                (_("When"), context.when(content.at)),
            ],
            action=(_(label), context.url(f"/dashboard/{content.merchant_id}/{page}")),
        )

    return template


def account_change(content: AccountChangeContent, context: MessageContext) -> Message:
    """Report a change of an account to its person."""
    _ = context.gettext
    change = _(ACCOUNT_CHANGE[content.change])
    return Message(
        subject=_("{change}", change=change),
        paragraphs=[
            _("{change}. It is your account {email}.", change=change, email=content.email),
            _(
                "If you did not expect this, change your password at once and contact the "
                "operator of this service."
            ),
        ],
        facts=_facts_of_change(content, change, context),
        action=(_("See your account"), context.url("/security")),
    )


def account_change_staff(content: AccountChangeContent, context: MessageContext) -> Message:
    """Report a change of a staff account to other administrators."""
    _ = context.gettext
    change = _(ACCOUNT_CHANGE[content.change])
    return Message(
        subject=_("{change}: {email}", change=change, email=content.email),
        paragraphs=[
            _(
                "{change}. It is the account of somebody on the staff: {email}.",
                change=change,
                email=content.email,
            ),
            _("If nobody on the staff expected this, end the person’s logins and ask them."),
        ],
        facts=_facts_of_change(content, change, context),
        action=(_("See the staff"), context.url("/console/people")),
    )


def _facts_of_change(
    content: AccountChangeContent, change: str, context: MessageContext
) -> list[Fact]:
    _ = context.gettext
    return [
        (_("What"), change),
        (_("By whom"), content.who),
        (_("Reason"), content.reason),
        (_("When"), context.when(content.at)),
    ]


def factors_waiting(content: FactorResetContent, context: MessageContext) -> Message:
    """Warn a person whose second factors will be reset, with a link that stops the reset."""
    _ = context.gettext
    return Message(
        subject=_("Your second factors are about to be reset"),
        paragraphs=[
            _(
                "Your passkeys, authenticator and recovery codes are removed on {time}. After "
                "that, you can log in with your password alone.",
                time=context.when(content.until),
            )
        ],
        facts=[(_("When"), context.when(content.at))],
        action=(_("Stop the reset"), context.url(context.secret)) if context.secret else None,
        note=_("If you still have your second factors, or did not ask for this, stop it."),
    )


def login(content: LoginContent, context: MessageContext) -> Message:
    """Report a login from a new device or address."""
    _ = context.gettext
    return Message(
        subject=_("New login to your account"),
        paragraphs=[
            _("Somebody has logged in to your account where it was not seen before."),
            _(
                "If that was you, there is nothing to do. If not, end that login and change your "
                "password at once."
            ),
        ],
        facts=[
            (_("When"), context.when(content.at)),
            (_("Device"), content.device or "–"),
            (_("Address"), content.address),
        ],
        action=(_("See your logins"), context.url("/security")),
    )


def invitation(content: InvitationContent, context: MessageContext) -> Message:
    """Invite a person. The inviter's own texts stand in facts, not in the subject or sentences."""
    _ = context.gettext
    of_merchant = [(_("The merchant calls itself"), context.shop)] if context.shop else []
    return Message(
        subject=_("You are invited to a team on OpenTill"),
        paragraphs=[
            _(
                "You are invited to a team on OpenTill. Whoever invites you chose the names below "
                "themselves; nobody has checked them."
            ),
            _("The link works once, for 24 hours. Whoever has it can use it: do not pass it on."),
        ],
        facts=[
            *of_merchant,
            (_("Invited by"), content.by),
            (_("Works until"), context.when(content.expires_at)),
        ],
        is_branded=False,
        action=(_("Accept the invitation"), context.url(context.secret)),
        note=_("If you did not expect this, ignore this mail."),
    )


def reset(_content: PasswordResetContent, context: MessageContext) -> Message:
    """Send a link to a new password; without a link if one that staff have made still works."""
    _ = context.gettext
    return Message(
        subject=_("Choose a new password"),
        paragraphs=[
            _("Somebody, hopefully you, wants to choose a new password for this address."),
            _(
                N_(
                    "The link works once, for 24 hours. Whoever has it can use it: do not pass it "
                    "on."
                )
                if context.secret
                else N_(
                    "Whoever runs the payments has made a link for that, which still works: "
                    "follow that one. If you do not have it, ask them for another."
                )
            ),
        ],
        action=(_("Choose a new password"), context.url(context.secret))
        if context.secret
        else None,
        note=_("If that was not you, ignore this mail: your password stays as it is."),
    )


def digest(content: DigestContent, context: MessageContext) -> Message:
    """Report the figures of a day."""
    _ = context.gettext
    date = context.localizer.moment_in(content.at, context.zone).rpartition(",")[0]
    facts: list[Fact] = []
    for day in content.days:
        currency = day.paid[1]
        facts += [
            (_("Payments") + f" ({currency})", context.localizer.number(day.payments)),
            (_(NC_("daily summary", "Paid")), context.amount(day.paid)),
            (_(NC_("daily summary", "Refunded")), context.amount(day.refunded)),
            (_("Lost to disputes"), context.amount(day.disputed)),
            (_("Net"), context.amount(day.net)),
        ]
    return Message(
        subject=_("{shop}: {date}", shop=context.shop, date=date),
        paragraphs=[
            _(
                N_("What happened on {date} ({zone}).")
                if facts
                else N_("Nothing was paid, refunded or disputed on {date} ({zone})."),
                date=date,
                zone=context.zone.key,
            )
        ],
        facts=facts,
        action=(_("See the dashboard"), context.url(f"/dashboard/{content.merchant_id}/")),
        note=_("An owner can turn this daily message off in the settings."),
    )


def test(content: TestContent, context: MessageContext) -> Message:
    """Show that mail arrives."""
    return Message(
        subject=context.gettext("A test of OpenTill's mail"),
        paragraphs=[context.gettext("If you read this, mail works.")],
        facts=[(context.gettext("When"), context.when(content.at))],
    )


def violations(content: ViolationsContent, context: MessageContext) -> Message:
    """Alert staff to violations of integrity rules."""
    _ = context.gettext
    return Message(
        subject=_("The books are wrong"),
        paragraphs=[
            _(
                "The continuous check of the ledger has found {number} violations. Look into them "
                "before you pay anybody out:",
                number=context.localizer.number(content.violations),
            )
        ],
        note="opentill ledger check",
    )


def outage(content: OutageContent, context: MessageContext) -> Message:
    """Alert staff to an outage of a gateway."""
    _ = context.gettext
    return Message(
        subject=_("The gateway {gateway} does not respond", gateway=content.gateway),
        paragraphs=[
            _(
                "Payments through {gateway} have been waiting for a response for a long time. "
                "Customers may have paid; OpenTill goes on asking.",
                gateway=content.gateway,
            )
        ],
        facts=[
            (_("Payments"), context.localizer.number(content.payments)),
            (_("The oldest since"), context.when(content.since)),
        ],
        note="opentill orders",
    )


def approval(content: ApprovalContent, context: MessageContext) -> Message:
    """Remind staff of a request that waits for a second person."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_(
            "{kind} of {amount}: a second person is needed",
            kind=_(MOVEMENT_KIND[content.kind]),
            amount=amount,
        ),
        paragraphs=[
            _("This waits for somebody else than who asked for it. Nothing has moved yet.")
        ],
        facts=[
            (_("What"), _(MOVEMENT_KIND[content.kind])),
            (_("Amount"), amount),
            (_("Merchant"), content.shop),
            (_("Reason"), content.reason),
            (_("By whom"), content.who),
            (_("When"), context.when(content.at)),
        ],
        action=(_("See the approvals"), context.url("/console/approvals")),
    )


def deadline(text: str, text_responded: str, label: str) -> _Template[DeadlineContent]:
    """Return the template of a dispute's deadline, for members or for staff."""

    def template(content: DeadlineContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        left = context.localizer.duration(content.days * DAY_MS)
        facts: list[Fact] = [
            (_("Amount"), amount),
            (_("Merchant"), content.shop),
            (_("Reason"), content.reason or "–"),
            (_("Respond until"), context.when(content.respond_by)),
            (_("Order"), content.order_id),
        ]
        return Message(
            subject=_(
                "Disputed payment of {amount}: less than {left} to respond",
                amount=amount,
                left=left,
            ),
            paragraphs=[
                _(text_responded if content.responded else text, shop=content.shop, left=left)
            ],
            facts=facts,
            action=(_(label), context.url(content.path)),
        )

    return template
