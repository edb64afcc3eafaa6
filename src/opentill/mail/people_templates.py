"""Templates of mails to people about their accounts, and to staff about the deployment."""

from typing import Final

from opentill.mail.alert_model import PausedAccountContent
from opentill.mail.decision_model import ApplicationContent
from opentill.mail.labels import MOVEMENT_KIND, ROLE, STAFF_ROLE
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
from opentill.web import user_agents
from opentill.web.translations import N_

_JOINED: Final = "joined"
_INVITED_BY: Final = "invited by "  # with which the audit log begins the reason of _JOINED
ACCOUNT_CHANGE: Final = {
    "authenticator_on": N_("An authenticator was added"),
    "authenticator_off": N_("The authenticator was removed"),
    "codes": N_("Recovery codes were replaced"),
    "passkey_on": N_("A passkey was added"),
    "passkey_off": N_("A passkey was removed"),
    "password": N_("The password was changed"),
    "email": N_("The email address was changed"),
    "set_anew": N_("The account was reset"),
    "joined": N_("An invitation was accepted"),
    "role": N_("The role was changed"),
    "removed": N_("A role was removed"),
    "codes_wrong": N_("Wrong codes were entered after the correct password"),
    "factors_asked": N_("A reset of the second factors was requested"),
    "factors_begun": N_("A reset of the second factors was started"),
    "factors_stopped": N_("The reset of the second factors was stopped"),
    "factors_ended": N_("The second factors were reset"),
}


def account_change(content: AccountChangeContent, context: MessageContext) -> Message:
    """Report a change of an account to its person."""
    _ = context.gettext
    if content.change == _JOINED:
        return Message(
            subject=_("Welcome to OpenTill"),
            paragraphs=[
                _("Your account is ready. Log in with {email}.", email=content.email),
                _("If you did not accept an invitation, contact the operator of this service."),
            ],
            action=(_("Log in"), context.url("/login")),
        )
    change = _(ACCOUNT_CHANGE[content.change])
    return Message(
        subject=change,
        paragraphs=[
            _("{change} for your account {email}.", change=change, email=content.email),
            _(
                "If you did not expect this, change your password immediately and contact the "
                "operator of this service."
            ),
        ],
        facts=_facts_of_change(content, context),
        action=(_("View your account"), context.url("/security")),
    )


def account_change_staff(content: AccountChangeContent, context: MessageContext) -> Message:
    """Report a change of a staff account to other administrators."""
    _ = context.gettext
    if content.change == _JOINED:
        return Message(
            subject=_("{email} accepted an invitation", email=content.email),
            paragraphs=[
                _("{email} can now log in to the console.", email=content.email),
                _("If this was not expected, end the person’s logins and ask them about it."),
            ],
            facts=[
                (_("Invited by"), content.reason.removeprefix(_INVITED_BY)),
                (_("Date"), context.when(content.at)),
            ],
            action=(_("View staff"), context.url("/console/people")),
        )
    change = _(ACCOUNT_CHANGE[content.change])
    return Message(
        subject=_("{change}: {email}", change=change, email=content.email),
        paragraphs=[
            _(
                "{change} for the staff account {email}.",
                change=change,
                email=content.email,
            ),
            _("If this was not expected, end the person’s logins and ask them about it."),
        ],
        facts=_facts_of_change(content, context),
        action=(_("View staff"), context.url("/console/people")),
    )


def _facts_of_change(content: AccountChangeContent, context: MessageContext) -> list[Fact]:
    _ = context.gettext
    is_own = content.who.startswith(f"{content.email} ")  # the reason then only names a page
    return [
        (_("Changed by"), content.who),
        *([] if is_own else [(_("Reason"), content.reason)]),
        (_("Date"), context.when(content.at)),
    ]


def factors_waiting(content: FactorResetContent, context: MessageContext) -> Message:
    """Warn a person whose second factors will be reset, with a link that stops the reset."""
    _ = context.gettext
    return Message(
        subject=_(
            "Your second factors will be reset on {time}",
            time=context.localizer.day_in(content.until, context.zone),
        ),
        paragraphs=[
            _(
                "Your passkeys, authenticator and recovery codes will be removed on {time}. After"
                " that, you can log in with your password alone.",
                time=context.when(content.until),
            )
        ],
        facts=[(_("Requested on"), context.when(content.at))],
        action=(_("Stop the reset"), context.url(context.secret)) if context.secret else None,
        note=_("If you still have your second factors or did not request this, stop the reset."),
    )


def login(content: LoginContent, context: MessageContext) -> Message:
    """Report a login from a new device or address, or only the right password from there."""
    _ = context.gettext
    facts = [
        (_("Date"), context.when(content.at)),
        (_("Device"), user_agents.describe(content.device) or "–"),
        (_("IP address"), content.address),
    ]
    if content.pending:
        return Message(
            subject=_("Login without your second factor"),
            paragraphs=[
                _(
                    "Your password was entered on a new device or address. Your second factor was "
                    "not confirmed there, so the login was not completed."
                ),
                _(
                    "If this was you, you do not need to do anything. If not, somebody else knows "
                    "your password: change it immediately."
                ),
            ],
            facts=facts,
            action=(_("Change the password"), context.url("/security")),
        )
    return Message(
        subject=_("New login to your account"),
        paragraphs=[
            _("Your account was used to log in from a new device or address."),
            _(
                "If this was you, you do not need to do anything. If not, end that login and "
                "change your password immediately."
            ),
        ],
        facts=facts,
        action=(_("View your logins"), context.url("/security")),
    )


_ROLE: Final = dict[str, str]((*ROLE.items(), *STAFF_ROLE.items()))


def invitation(content: InvitationContent, context: MessageContext) -> Message:
    """Build the mail that invites a person, or that approves the person's application.

    Texts by the inviter are only in facts, not in sentences.
    """
    _ = context.gettext
    facts = [
        (_("Merchant"), context.shop),
        (_("Your role"), _(_ROLE[content.role]) if content.role else ""),
        ("", "") if content.has_applied else (_("Invited by"), content.by),
        (_("Expires on"), context.when(content.expires_at)),
    ]
    one_time = _(
        "The link works once and expires after 24 hours. Anyone who has it can use it, so do not "
        "share it."
    )
    if content.has_applied:
        subject = _("Your application was approved")
        paragraphs = [
            _(
                "Welcome to OpenTill. Create your login with the link below. Then set up your "
                "shop and accept your first payment."
            ),
            one_time,
        ]
    else:
        subject = _("You have been invited to a team on OpenTill")
        paragraphs = [
            _(
                "You have been invited to a team on OpenTill. The person who invited you entered "
                "the names below."
            ),
            one_time,
        ]
    return Message(
        subject=subject,
        paragraphs=paragraphs,
        facts=[fact for fact in facts if fact[1]],
        is_branded=False,
        action=(
            _("Create your login") if content.has_applied else _("Accept invitation"),
            context.url(context.secret),
        ),
        note=_("If you did not expect this, ignore this email."),
    )


def application(content: ApplicationContent, context: MessageContext) -> Message:
    """Confirm to an applicant that the application was received.

    Anybody can enter an address: the texts of the form are only in facts, not in sentences.
    """
    _ = context.gettext
    return Message(
        subject=_("We received your application"),
        paragraphs=[
            _(
                "Thank you for your application for an account on OpenTill. Our team reviews it. "
                "If we approve it, you get an email with a link to create your login."
            )
        ],
        facts=[(_("Shop"), content.name), (_("Received"), context.when(content.at))],
        is_branded=False,
        note=_("If you did not apply, ignore this email."),
    )


def reset(_content: PasswordResetContent, context: MessageContext) -> Message:
    """Send a link for a new password, or none while a link that staff created is still valid."""
    _ = context.gettext
    return Message(
        subject=_("Reset your password"),
        paragraphs=[
            _(
                "Someone requested a new password for the account that logs in with this email "
                "address."
            ),
            _(
                N_(
                    "The link works once and expires after 24 hours. Anyone who has it can use "
                    "it, so do not share it."
                )
                if context.secret
                else N_(
                    "Our team has already created a link for you, and it is still valid. Use that "
                    "link, or ask us for a new one if you do not have it."
                )
            ),
        ],
        action=(_("Reset your password"), context.url(context.secret)) if context.secret else None,
        note=_("If this was not you, ignore this email. Your password will not change."),
    )


def test(content: TestContent, context: MessageContext) -> Message:
    """Build the mail that tests the mail server."""
    return Message(
        subject=context.gettext("Test email from OpenTill"),
        paragraphs=[
            context.gettext("If you can read this email, the mail server is set up correctly.")
        ],
        facts=[(context.gettext("Date"), context.when(content.at))],
    )


def violations(content: ViolationsContent, context: MessageContext) -> Message:
    """Alert staff to violations of integrity rules."""
    _ = context.gettext
    return Message(
        subject=context.localizer.ngettext(
            "The ledger check found {number} violation",
            "The ledger check found {number} violations",
            content.violations,
        ),
        paragraphs=[
            _(
                "Entries and balances of the ledger do not agree. Investigate the violations "
                "before you send payouts."
            )
        ],
        action=(_("View ledger checks"), context.url("/console/books")),
        note=_("On the server, {command} lists the violations.", command="opentill ledger check"),
    )


def outage(content: OutageContent, context: MessageContext) -> Message:
    """Alert staff to an outage of a gateway."""
    _ = context.gettext
    return Message(
        subject=context.localizer.ngettext(
            "Gateway {gateway} is not responding: {number} payment waiting",
            "Gateway {gateway} is not responding: {number} payments waiting",
            content.payments,
            gateway=content.gateway,
        ).unescape(),
        paragraphs=[
            _(
                "Payments through {gateway} have been waiting for a response for a long time. "
                "Customers may have paid. OpenTill keeps querying the gateway.",
                gateway=content.gateway,
            )
        ],
        facts=[
            (_("Payments"), context.localizer.number(content.payments)),
            (_("Oldest since"), context.when(content.since)),
        ],
        action=(_("View gateways"), context.url("/console/gateways")),
        note=_("On the server, {command} lists the payments.", command="opentill orders"),
    )


def paused_account(content: PausedAccountContent, context: MessageContext) -> Message:
    """Alert staff to a gateway account that has paused itself."""
    _ = context.gettext
    return Message(
        subject=_("Gateway account {account} paused itself", account=content.account),
        paragraphs=[
            _(
                "{account} takes no payments for now, because of its failures. Other accounts take"
                " them, if there are any. It is tried again after the pause.",
                account=content.account,
            )
        ],
        facts=[
            (_("Reason"), content.reason),
            (_("Paused since"), context.when(content.at)),
            (_("Tried again after"), context.when(content.retry_at)),
        ],
        note="opentill gateways list",
    )


def approval(content: ApprovalContent, context: MessageContext) -> Message:
    """Remind staff of a request that waits for a second person."""
    _, amount = context.gettext, context.amount(content.amount)
    return Message(
        subject=_("Payout run of {amount}: download its bank file", amount=amount)
        if content.run_id
        else _(
            "{kind} of {amount} needs approval",
            kind=_(MOVEMENT_KIND[content.kind]),
            amount=amount,
        ),
        paragraphs=[
            _(
                "Its bank file must be downloaded by someone other than the person who started the "
                "run. No money has been moved yet."
            )
            if content.run_id
            else _(
                "This request must be approved by someone other than the person who made it. No "
                "money has been moved yet."
            )
        ],
        facts=[
            (_("Amount"), amount),
            (_("Reference"), content.reference)
            if content.run_id
            else (_("Merchant"), content.shop),
            (_("Reason"), content.reason),
            (_("Requested by"), content.who),
            (_("Date"), context.when(content.at)),
        ],
        action=(_("View the run"), context.url(f"/console/payout-runs/{content.run_id}"))
        if content.run_id
        else (_("View approvals"), context.url("/console/approvals")),
    )
