"""Templates of mails about a merchant's payments, money and settings."""

from collections.abc import Callable
from typing import Final, TypeVar

from opentill import payouts
from opentill.mail.decision_model import DisputeResultContent, StandingContent
from opentill.mail.digest_model import DigestContent
from opentill.mail.model import (
    DAY_MS,
    AuditContent,
    DeadlineContent,
    DisputeContent,
    DisputeResponseContent,
    Fact,
    Message,
    MessageContext,
    PayoutContent,
    RefundReportContent,
)
from opentill.mail.prepaid_model import PrepaidContent
from opentill.web import dispute_reasons, refund_failures
from opentill.web.translations import N_, NC_

_Content = TypeVar("_Content")
_Template = Callable[[_Content, MessageContext], Message]


def refund_report(
    subject: str, text: str, *, has_failed: bool = True
) -> _Template[RefundReportContent]:
    """Return the template of a refund that failed, was reversed or was made at the provider.

    Codes of failures are no reason for a refund that was made (``has_failed`` is False).
    """

    def template(content: RefundReportContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        language = context.localizer.language
        if has_failed:
            reason = refund_failures.text_of(content.reason, language) or "–"
        else:
            reason = "" if content.reason in refund_failures.CODES else content.reason
        return Message(
            subject=_(subject, amount=amount),
            paragraphs=[_(text, shop=context.shop, amount=amount)],
            figure=amount,
            facts=[
                (_("Amount"), amount),
                *([(_("Reason"), reason)] if reason else []),
                (_("Date"), context.when(content.at)),
                (_("Order ID"), content.order_id),
            ],
            action=(
                _("View payment"),
                context.url(f"/dashboard/{content.merchant_id}/payments/{content.order_id}"),
            ),
        )

    return template


def dispute(content: DisputeContent, context: MessageContext) -> Message:
    """Report a new dispute to members."""
    _, language = context.gettext, context.localizer.language
    deadline = (
        _("no deadline yet") if content.respond_by is None else context.when(content.respond_by)
    )
    return Message(
        subject=_("A payment of {amount} was disputed", amount=context.amount(content.amount)),
        paragraphs=[
            _(
                "A customer of {shop} disputed a payment. To contest the dispute, submit "
                "evidence before the deadline. If you do not respond, you usually lose the "
                "dispute and the amount.",
                shop=context.shop,
            )
        ],
        facts=[
            (_("Amount"), context.amount(content.amount)),
            (_("Reason"), dispute_reasons.text_of(content.reason, language) or "–"),
            (_("Respond by"), deadline),
            (_("Order ID"), content.order_id),
        ],
        action=(
            _("Respond to dispute"),
            context.url(f"/dashboard/{content.merchant_id}/disputes/{content.dispute_id}"),
        ),
    )


_DISPUTE_RESULT: Final = {  # status of the dispute → subject and text
    "WON": (
        N_("Dispute of {amount} won"),
        N_(
            "The bank decided a dispute in favor of {shop}. You keep the payment, and the amount "
            "that was held for the dispute is available again."
        ),
    ),
    "LOST": (
        N_("Dispute of {amount} lost"),
        N_(
            "The bank decided a dispute in favor of the customer of {shop}. The amount and the "
            "dispute fee were deducted from your balance. Do not refund the payment as well."
        ),
    ),
    "RECOVERED": (
        N_("Money of a lost dispute of {amount} recovered"),
        N_(
            "The bank returned the money of a dispute that {shop} had lost. The amount is back in "
            "your balance."
        ),
    ),
}


def dispute_result(content: DisputeResultContent, context: MessageContext) -> Message:
    """Report to members that a dispute was decided, or that a loss was recovered."""
    _, language = context.gettext, context.localizer.language
    subject, text = _DISPUTE_RESULT[content.status]
    facts: list[Fact] = [
        (_("Disputed amount"), context.amount(content.amount)),
        (_("Reason"), dispute_reasons.text_of(content.reason, language) or "–"),
    ]
    if content.status == "LOST":
        (debit, currency), (fee, _currency) = content.debit, content.fee
        if content.debit != content.amount:
            facts.append((_("Deducted for the dispute"), context.amount(content.debit)))
        facts += [
            (_("Dispute fee"), context.amount(content.fee)),
            (_("Total deducted"), context.amount((debit + fee, currency))),
        ]
    return Message(
        subject=_(subject, amount=context.amount(content.amount)),
        paragraphs=[_(text, shop=context.shop)],
        facts=[*facts, (_("Date"), context.when(content.at)), (_("Order ID"), content.order_id)],
        action=(
            _("View dispute"),
            context.url(f"/dashboard/{content.merchant_id}/disputes/{content.dispute_id}"),
        ),
    )


def standing(content: StandingContent, context: MessageContext) -> Message:
    """Report to members that the merchant's account was suspended or restored."""
    _ = context.gettext
    subject, text = (
        (
            N_("The account of {shop} is suspended"),
            N_(
                "{shop} cannot accept payments, and payouts are paused. You can still log in, "
                "refund payments and respond to disputes. Contact the operator if you have not yet."
            ),
        )
        if content.suspended
        else (
            N_("The account of {shop} is active again"),
            N_(
                "The suspension has ended: {shop} can accept payments again, and payouts continue, "
                "unless the operator has switched them off separately."
            ),
        )
    )
    return Message(
        subject=_(subject, shop=context.shop),
        paragraphs=[_(text, shop=context.shop)],
        facts=[
            (_("Reason"), content.reason),
            (_("Date"), context.when(content.at)),
        ],
        action=(_("View account status"), context.url(f"/dashboard/{content.merchant_id}/")),
    )


def payout(subject: str, text: str) -> _Template[PayoutContent]:
    """Return the template of a payout, paid or failed."""

    def template(content: PayoutContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        returned = (
            N_("Payout of {amount} returned by your bank"),
            N_(
                "Your bank returned a payout that had been sent to the bank account of {shop}. "
                "The money is back in your available balance."
            ),
        )
        own_subject, own_text = returned if content.returned else (subject, text)
        paragraphs = [_(own_text, shop=context.shop, amount=amount)]
        if content.returned or payouts.names_account(content.reason):
            paragraphs.append(
                _(
                    "Unless you have changed your bank account since then, payouts are paused "
                    "until an owner enters another account or the operator confirms this one. If "
                    "the account is closed or wrong, enter another one on the Payouts page. If it"
                    " is correct, contact the operator."
                )
            )
        facts = [
            (_("Amount"), amount),
            (_("Bank reference"), content.reference),
            (_("Reason"), content.reason),
            (_("Date"), "" if content.at is None else context.when(content.at)),
        ]
        return Message(
            subject=_(own_subject, amount=amount),
            paragraphs=paragraphs,
            figure=amount,
            facts=[fact for fact in facts if fact[1]],
            action=(
                _("View payout"),
                context.url(f"/dashboard/{content.merchant_id}/payouts/{content.payout_id}"),
            ),
        )

    return template


# Action in the audit log → the subject of its mail, if its topic has one for several actions.
_SUBJECT_OF_ACTION: Final = {
    "keys create": N_("API key of {shop} created"),
    "keys regenerate": N_("API key of {shop} replaced"),
    "keys revoke": N_("API key of {shop} revoked"),
    "webhooks add": N_("Webhook endpoint of {shop} added"),
    "gateways add": N_("Gateway account of {shop} added"),
    "gateways rotate": N_("Credentials of a gateway account of {shop} replaced"),
    "gateways pause": N_("Gateway account of {shop} paused"),
    "gateways resume": N_("Gateway account of {shop} resumed"),
    "gateways retire": N_("Gateway account of {shop} retired"),
}
_SYSTEM: Final = "opentill"  # who made a change in the audit log, if no person did


def audit_entry(
    subject: str, text: str, label: str, page: str, object_label: str
) -> _Template[AuditContent]:
    """Return the template of an entry of the audit log.

    ``page`` shows what was changed, and ``object_label`` is the name of its kind.
    """

    def template(content: AuditContent, context: MessageContext) -> Message:
        _ = context.gettext
        return Message(
            subject=_(_SUBJECT_OF_ACTION.get(content.action, subject), shop=context.shop),
            paragraphs=[_(text, shop=context.shop)],
            facts=[
                (_(object_label), content.subject),
                (_("Changed by"), "OpenTill" if content.who == _SYSTEM else content.who),
                (_("Date"), context.when(content.at)),
            ],
            action=(_(label), context.url(f"/dashboard/{content.merchant_id}/{page}")),
        )

    return template


def prepaid(subject: str, text: str) -> _Template[PrepaidContent]:
    """Return the template of a prepaid balance that must be topped up."""

    def template(content: PrepaidContent, context: MessageContext) -> Message:
        _, left = context.gettext, context.amount(content.free)
        return Message(
            subject=_(subject, shop=context.shop),
            paragraphs=[
                _(text, shop=context.shop),
                _(
                    "Send a bank transfer to the operator of this service, who adds it to this "
                    "balance. Or move money from your available balance on the page of the prepaid "
                    "balance."
                ),
            ],
            figure=left,
            facts=[
                (_("Left for new payments"), left),
                (_("Fees of the last 7 days"), context.amount(content.fees)),
                (_("Date"), context.when(content.at)),
            ],
            action=(
                _("View prepaid balance"),
                context.url(f"/dashboard/{content.merchant_id}/balance/prepaid"),
            ),
        )

    return template


def digest(content: DigestContent, context: MessageContext) -> Message:
    """Report the figures of a day."""
    _ = context.gettext
    date = context.localizer.day_in(content.at, context.zone)
    facts: list[Fact] = []
    for day in content.days:
        currency = day.paid[1]
        facts += [
            (_("Payments") + f" ({currency})", context.localizer.number(day.payments)),
            (_(NC_("daily summary", "Paid")), context.amount(day.paid)),
            *(
                []
                if day.direct is None
                else [(_("Paid to your own accounts"), context.amount(day.direct))]
            ),
            (_(NC_("daily summary", "Refunded")), context.amount(day.refunded)),
            *(
                []
                if day.direct_refunded is None
                else [(_("Refunded from your own accounts"), context.amount(day.direct_refunded))]
            ),
            (_("Disputes lost"), context.amount(day.disputed)),
            *([] if day.fees is None else [(_("Fees"), context.amount(day.fees))]),
            (
                _("Net") if day.direct is None else _("Net in your balance"),
                context.amount(day.net),
            ),
        ]
    has_movements = bool(facts)
    if content.pending_refunds:
        facts.append(
            (_("Payments with a pending refund"), context.localizer.number(content.pending_refunds))
        )
    if content.failed_refunds:
        facts.append(
            (_("Payments with a failed refund"), context.localizer.number(content.failed_refunds))
        )
    paid = ", ".join(context.amount(day.volume) for day in content.days)
    return Message(
        subject=_(
            "{shop}: {amount} in payments on {date}", shop=context.shop, amount=paid, date=date
        )
        if paid
        else _("{shop}: no payments on {date}", shop=context.shop, date=date),
        paragraphs=[
            _(
                N_("Summary for {date} ({zone}).")
                if has_movements
                else N_("There were no payments, refunds or disputes on {date} ({zone})."),
                date=date,
                zone=context.zone.key,
            )
        ],
        facts=facts,
        action=(_("Open dashboard"), context.url(f"/dashboard/{content.merchant_id}/")),
        note=_("An owner can turn off this daily summary in the settings."),
    )


def dispute_response(content: DisputeResponseContent, context: MessageContext) -> Message:
    """Notify staff that a merchant responded to a dispute."""
    _, amount, language = (
        context.gettext,
        context.amount(content.amount),
        context.localizer.language,
    )
    if content.response == "CONTESTED":
        subject = N_("{shop} contested a dispute of {amount}")
        text = N_(
            "{shop} contested a dispute. Submit the evidence to the payment provider, and add a "
            "note to the dispute when you have."
        )
    else:
        subject = N_("{shop} accepted a dispute of {amount}")
        text = N_(
            "{shop} accepted a dispute: the customer keeps the money. Accept the dispute at the "
            "payment provider, and add a note to the dispute when you have."
        )
    deadline = (
        _("no deadline yet") if content.respond_by is None else context.when(content.respond_by)
    )
    return Message(
        subject=_(subject, shop=content.shop, amount=amount),
        paragraphs=[_(text, shop=content.shop)],
        facts=[
            (_("Amount"), amount),
            (_("Reason"), dispute_reasons.text_of(content.reason, language) or "–"),
            (_("Respond by"), deadline),
            (_("Evidence files"), context.localizer.number(content.files)),
            (_("Responded by"), content.who),
            (_("Date"), context.when(content.at)),
            (_("Order ID"), content.order_id),
        ],
        action=(_("View dispute"), context.url(f"/console/disputes/{content.dispute_id}")),
    )


def deadline(text: str, text_responded: str, label: str) -> _Template[DeadlineContent]:
    """Return the template of a dispute's deadline, for members or for staff."""

    def template(content: DeadlineContent, context: MessageContext) -> Message:
        _, amount = context.gettext, context.amount(content.amount)
        language = context.localizer.language
        time_left = context.localizer.duration(content.days * DAY_MS)
        facts: list[Fact] = [
            (_("Amount"), amount),
            (_("Merchant"), content.shop),
            (_("Reason"), dispute_reasons.text_of(content.reason, language) or "–"),
            (_("Respond by"), context.when(content.respond_by)),
            (_("Order ID"), content.order_id),
        ]
        return Message(
            subject=_(
                "Dispute of {amount}: less than {left} left to respond",
                amount=amount,
                left=time_left,
            ),
            paragraphs=[
                _(text_responded if content.responded else text, shop=content.shop, left=time_left)
            ],
            facts=facts,
            action=(_(label), context.url(content.path)),
        )

    return template
