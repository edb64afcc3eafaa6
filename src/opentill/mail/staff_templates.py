"""Templates of mails about the deployment, to staff, and of the test mail."""

from typing import Final

from opentill.mail.model import (
    ApprovalContent,
    Message,
    MessageContext,
    OutageContent,
    TestContent,
    ViolationsContent,
)
from opentill.web.translations import N_

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
