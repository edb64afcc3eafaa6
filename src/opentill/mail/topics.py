"""The table of topics: the content, the template and the recipients of each kind of mail.

A mail needs a struct of its content (``model.py``), a template (in the ``…_templates.py`` of what
it is about), and a row of the table. All mails have one layout.

Merchants switch mails to their customers and the digest on or off. Receipts are on by default: an
operator who sets up a mail server wants customers to get them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from opentill import merchants, people
from opentill.core import languages
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.mail import (
    alert_model,
    customer_templates,
    decision_model,
    merchant_templates,
    model,
    people_templates,
    queries,
)
from opentill.mail.digest_model import DigestContent
from opentill.mail.model import NO_MERCHANT, Message, MessageContext, NewMail, Preferences
from opentill.mail.prepaid_model import PrepaidContent
from opentill.merchants import Actor
from opentill.people import STAFF_ROLES, MerchantRole, Permission, StaffRole, staff_may
from opentill.web.language import supported
from opentill.web.translations import N_

SWITCHES: Final = ("receipts", "refunds", "digest")  # the fields of Preferences that are on or off
_SWITCH_OF_TOPIC: Final = {
    "receipt": "receipts", "refund": "refunds", "refund_failed": "refunds", "digest": "digest",
}  # fmt: skip
_CUSTOMER_TOPICS: Final = ("receipt", "refund", "refund_failed")
_ABOUT_DISPUTES: Final = (model.DeadlineContent, model.DisputeResponseContent)  # also to staff


class Topic(NamedTuple):
    """A row of the table. ``members`` and ``staff`` are the roles that get the mail."""

    name: str
    content: type[msgspec.Struct]
    template: Callable[[Any, MessageContext], Message]
    members: tuple[MerchantRole, ...] = ()
    staff: tuple[StaffRole, ...] = ()

    @property
    def is_for_customers(self) -> bool:
        """Whether customers get the mail, in the merchant's name."""
        return self.name in _CUSTOMER_TOPICS

    @property
    def switch(self) -> str:
        """The preference that turns the mail on or off; "" for one that is always sent."""
        return _SWITCH_OF_TOPIC.get(self.name, "")

    @property
    def is_about_merchant(self) -> bool:
        """Whether the mail is about a merchant, which may be a test, and not about a login.

        In test mode these mails are marked.
        """
        return self.is_for_customers or bool(self.members) or self.content in _ABOUT_DISPUTES


def _roles_with(permission: Permission) -> tuple[StaffRole, ...]:
    return tuple(role for role in STAFF_ROLES if staff_may(role, permission))


TOPICS: Final = (
    #     name, content, template, roles of members, roles of staff
    Topic("receipt", model.ReceiptContent, customer_templates.receipt),
    Topic("refund", model.RefundContent, customer_templates.refund),
    Topic("refund_failed", model.RefundContent, customer_templates.refund_failed),
    Topic(
        "refund_refused",
        model.RefundReportContent,
        merchant_templates.refund_report(
            N_("A refund of {amount} failed"),
            N_(
                "A refund by {shop} failed: the customer did not get the money, and it is on your "
                "balance again. Refund the payment again, or pay the customer in another way and "
                "mark the refund as handled."
            ),
        ),
        ("owner", "finance", "support"),
    ),
    Topic(
        "refund_reversed",
        model.RefundReportContent,
        merchant_templates.refund_report(
            N_("Refund of {amount} reversed"),
            N_(
                "The customer’s bank returned a refund from {shop}. The customer has not received"
                " the money, and it is back in your balance. You can refund the payment again."
            ),
        ),
        ("owner", "finance", "support"),
    ),
    Topic(
        "refund_at_gateway",
        model.RefundReportContent,
        merchant_templates.refund_report(
            N_("{amount} refunded at the payment provider"),
            N_(
                "{amount} of a payment to {shop} was refunded directly at the payment provider, "
                "not through OpenTill. The amount has been deducted from your balance."
            ),
            has_failed=False,
        ),
        ("owner", "finance"),
    ),
    Topic("dispute_opened", model.DisputeContent, merchant_templates.dispute, ("owner", "support")),
    Topic(
        "dispute_closed",
        decision_model.DisputeResultContent,
        merchant_templates.dispute_result,
        ("owner", "finance", "support"),
    ),
    Topic(
        "standing_changed",
        decision_model.StandingContent,
        merchant_templates.standing,
        ("owner", "finance", "support", "developer"),
    ),
    Topic(
        "payout_paid",
        model.PayoutContent,
        merchant_templates.payout(
            N_("Payout of {amount} paid"),
            N_("A payout has been paid to the bank account of {shop}."),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "payout_failed",
        model.PayoutContent,
        merchant_templates.payout(
            N_("Payout of {amount} returned"),
            N_(
                "A payout to the bank account of {shop} did not arrive. The money is back in "
                "your available balance."
            ),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "endpoint_disabled",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("Webhook endpoint of {shop} disabled"),
            N_(
                "OpenTill has stopped sending events to an endpoint of {shop} because deliveries "
                "kept failing. When you enable the endpoint again, only events that are already "
                "waiting are sent. Events that happen until then are not sent automatically: send"
                " them from the Events page of the dashboard, or read them from /v1/events."
            ),
            N_("View endpoints"),
            "developers/webhooks",
            N_("URL"),
        ),
        ("owner", "developer"),
    ),
    Topic(
        "endpoint_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("Webhook URL of {shop} changed"),
            N_(
                "Events of {shop}, such as customers’ payments, are now sent to a new URL. If "
                "nobody on your team made this change, change the URL back, rotate its secret and"
                " change your passwords."
            ),
            N_("View endpoints"),
            "developers/webhooks",
            N_("URL"),
        ),
        ("owner", "developer"),
    ),
    Topic(
        "key_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("API key of {shop} changed"),
            N_("If nobody on your team did this, revoke the key and change your passwords."),
            N_("View API keys"),
            "developers/keys",
            N_("API key"),
        ),
        ("owner", "developer"),
    ),
    Topic(
        "account_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("Bank account of {shop} changed"),
            N_(
                "The bank account for payouts of {shop} was changed. If nobody on your team made "
                "this change, contact us immediately and change your passwords."
            ),
            N_("View bank account"),
            "payouts/account",
            N_("Bank account"),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "gateway_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("Gateway account of {shop} changed"),
            N_(
                "An account at a payment provider that belongs to {shop} was changed. Payments "
                "through it go to its owner directly. If nobody on your team made this change, "
                "contact us immediately and change your passwords."
            ),
            N_("View gateway accounts"),
            "settings/gateway-accounts",
            N_("Gateway account"),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "prepaid_low",
        PrepaidContent,
        merchant_templates.prepaid(
            N_("Prepaid balance of {shop} is low"),
            N_(
                "The prepaid balance of {shop} pays the fees of less than three days, at the pace "
                "of the last week. When it is used up, customers are not offered your own gateway "
                "accounts."
            ),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "prepaid_empty",
        PrepaidContent,
        merchant_templates.prepaid(
            N_("Prepaid balance of {shop} is used up"),
            N_(
                "The prepaid balance of {shop} no longer pays the fees of payments, so customers "
                "are not offered your own gateway accounts. Top up the balance to offer them again."
            ),
        ),
        ("owner", "finance"),
    ),
    Topic("digest", DigestContent, merchant_templates.digest, ("owner", "finance")),
    Topic("new_login", model.LoginContent, people_templates.login),
    Topic("account_change", model.AccountChangeContent, people_templates.account_change),
    Topic(
        "account_change_staff",
        model.AccountChangeContent,
        people_templates.account_change_staff,
        staff=_roles_with("people.manage"),
    ),
    Topic("factors_waiting", model.FactorResetContent, people_templates.factors_waiting),
    Topic("application", decision_model.ApplicationContent, people_templates.application),
    Topic("invitation", model.InvitationContent, people_templates.invitation),
    Topic("reset", model.PasswordResetContent, people_templates.reset),
    Topic(
        "books_violated",
        model.ViolationsContent,
        people_templates.violations,
        staff=("admin", "finance"),
    ),
    Topic(
        "account_paused",
        alert_model.PausedAccountContent,
        people_templates.paused_account,
        staff=("admin", "support"),
    ),
    Topic("gateway_away", model.OutageContent, people_templates.outage, staff=("admin", "support")),
    Topic(
        "approval_waiting",
        model.ApprovalContent,
        people_templates.approval,
        staff=_roles_with("approvals.decide"),
    ),
    Topic(
        "dispute_deadline",
        model.DeadlineContent,
        merchant_templates.deadline(
            N_(
                "The deadline for a dispute of {shop} is in less than {left}, and no evidence has"
                " been submitted. If you do not respond, you usually lose the dispute and the "
                "amount."
            ),
            N_(
                "The deadline for a dispute of {shop} is in less than {left}, and no evidence has"
                " been submitted. If you do not respond, you usually lose the dispute and the "
                "amount."
            ),
            N_("Respond to dispute"),
        ),
        ("owner", "support"),
    ),
    Topic(
        "dispute_deadline_staff",
        model.DeadlineContent,
        merchant_templates.deadline(
            N_(
                "The deadline for a dispute of {shop} is in less than {left}. The merchant has "
                "not submitted evidence."
            ),
            N_(
                "The deadline for a dispute of {shop} is in less than {left}. The merchant has "
                "submitted evidence: send it to the bank, and add a note to the dispute when you "
                "have."
            ),
            N_("View dispute"),
        ),
        staff=_roles_with("disputes.decide"),
    ),
    Topic(
        "dispute_response",
        model.DisputeResponseContent,
        merchant_templates.dispute_response,
        staff=_roles_with("disputes.decide"),
    ),
    Topic("test", model.TestContent, people_templates.test),
)
BY_NAME: Final[Mapping[str, Topic]] = {topic.name: topic for topic in TOPICS}


# ── recipients ─────────────────────────────────────────────────────────────────────────────────


async def mails_to_members(
    tx: Tx,
    merchant_id: str,
    topic: str,
    cause: str,
    content: msgspec.Struct,
    order_id: str | None = None,
) -> list[NewMail]:
    """Return a mail for each member whose role gets a topic, in the merchant's language.

    Members of a closed merchant get none, because they can no longer open its pages.
    """
    if (await merchants.find(tx, merchant_id)).status == "CLOSED":
        return []
    roles = BY_NAME[topic].members
    members = [member for member in await people.members(tx, merchant_id) if member.role in roles]
    if not members:
        return []
    language = (await find_preferences(tx, merchant_id)).language
    return [
        NewMail(
            merchant_id=merchant_id,
            topic=topic,
            cause=cause,
            recipient=member.email,
            language=language,
            data=content,
            order_id=order_id,
        )
        for member in members
    ]


async def mails_to_staff(
    tx: Tx, topic: str, cause: str, content: msgspec.Struct, *, without_person_id: str | None = None
) -> list[NewMail]:
    """Return a mail, in their language, for each of the staff whose role gets a topic.

    ``without_person_id`` is left out.
    """
    staff = await queries.STAFF.all(tx, roles=list(BY_NAME[topic].staff))
    return [
        NewMail(
            merchant_id=NO_MERCHANT,
            topic=topic,
            cause=cause,
            recipient=recipient.email,
            language=recipient.language,
            data=content,
        )
        for recipient in staff
        if recipient.person_id != without_person_id
    ]


# ── preferences ────────────────────────────────────────────────────────────────────────────────


async def find_preferences(tx: Tx, merchant_id: str) -> Preferences:
    """Return a merchant's preferences, or the defaults."""
    preferences = await queries.PREFERENCES.first(tx, merchant_id=merchant_id)
    return preferences or Preferences(merchant_id=merchant_id)


async def change_preferences(
    tx: Tx,
    merchant_id: str,
    switches: Mapping[str, bool],
    language: str,
    now: int,
    *,
    actor: Actor,
) -> Preferences:
    """Change a merchant's preferences. Idempotent. Raises Invalid and NotFound."""
    supported_language = supported("merchant", language)
    if supported_language is None:
        raise Invalid(
            "language", f"language must be one of {', '.join(languages.offered('merchant'))}"
        )
    await merchants.lock(tx, merchant_id)
    old = await find_preferences(tx, merchant_id)
    new = msgspec.structs.replace(old, **switches, language=supported_language)
    changes = [
        f"{name}: {_text(getattr(old, name))} → {_text(getattr(new, name))}"
        for name in (*SWITCHES, "language")
        if getattr(old, name) != getattr(new, name)
    ]
    if not changes:
        return old
    new = msgspec.structs.replace(new, updated_at=now)
    await queries.SET_PREFERENCES.run(tx, new)
    await merchants.record_audit(tx, actor, "mail set", merchant_id, ", ".join(changes), now)
    return new


def _text(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
