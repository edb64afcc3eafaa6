"""Templates of mails to people about their accounts, and to staff about the deployment."""

from typing import Final

from opentill.mail.model import (
    AccountChangeContent,
    ApprovalContent,
    Fact,
    FactorResetContent,
    InvitationContent,
    LoginContent,
    Message,
    MessageContext,
    OutageContent,
    PasswordResetContent,
    TestContent,
    ViolationsContent,
)
from opentill.web.translations import N_

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
    """Build the mail that invites a person.

    Texts by the inviter are only in facts, not in sentences.
    """
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
    """Send a link for a new password, or none while a link that staff created is still valid."""
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
                    "Our team has already created a link for you, and it is still valid. Use that "
                    "link, or ask us for a new one if you do not have it."
                )
            ),
        ],
        action=(_("Choose a new password"), context.url(context.secret))
        if context.secret
        else None,
        note=_("If that was not you, ignore this mail: your password stays as it is."),
    )


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


def test(content: TestContent, context: MessageContext) -> Message:
    """Build the mail that tests the mail server."""
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
