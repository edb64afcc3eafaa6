"""What can be mailed: the table of topics, what each says, and who of a merchant it is for.

A message is added by a struct of what it says (``contents.py``), a function that puts it into words
(``merchant_templates.py``, or ``customer_templates.py``), and a row of the table. All have one
template.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from opentill import merchants, people
from opentill.core import languages
from opentill.core.errors import Invalid
from opentill.core.languages import Language
from opentill.db.database import Tx
from opentill.mail import customer_templates, merchant_templates, model, queries
from opentill.mail.model import OF_NOBODY, Message, NewMail, Preferences, StaffReader, Words
from opentill.merchants import Actor
from opentill.people import STAFF_ROLES, MerchantRole, Permission, StaffRole, staff_may
from opentill.web.language import supported
from opentill.web.translations import N_


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
    #     name, what it says, in words, for which roles of members, of staff
    Topic("receipt", model.ReceiptContent, customer_templates.receipt),
    Topic("refund", model.RefundContent, customer_templates.refund),
    Topic("refund_failed", model.RefundContent, customer_templates.refund_failed),
    Topic(
        "refund_reversed",
        model.RefundReportContent,
        merchant_templates.refund_report(
            N_("A refund of {amount} was reversed"),
            N_(
                "A refund by {shop} succeeded at first, but the customer’s "
                "bank sent the money back. The amount is on your balance "
                "again, and the customer did not get it. You can refund the "
                "payment again."
            ),
        ),
        ("owner", "finance", "support"),
    ),
    Topic(
        "refund_at_gateway",
        model.RefundReportContent,
        merchant_templates.refund_report(
            N_("A payment was refunded at the payment provider: {amount}"),
            N_(
                "{amount} of a payment to {shop} was refunded directly at the "
                "payment provider, not through OpenTill. The amount was taken "
                "from your balance."
            ),
        ),
        ("owner", "finance"),
    ),
    Topic("dispute_opened", model.DisputeContent, merchant_templates.dispute, ("owner", "support")),
    Topic(
        "payout_paid",
        model.PayoutContent,
        merchant_templates.payout(
            N_("A payout of {amount} has been paid"),
            N_("A payout of {shop} has left for your bank."),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "payout_failed",
        model.PayoutContent,
        merchant_templates.payout(
            N_("A payout of {amount} has failed"),
            N_("A payout of {shop} could not be sent. Its money is available again."),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "endpoint_disabled",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("A webhook endpoint of {shop} was switched off"),
            N_(
                "OpenTill sends no more events to an endpoint of {shop}, "
                "because it does not take them. Once it is switched on again, "
                "only those that wait already are sent. What happens until "
                "then is not sent by itself: send it from the page Events of "
                "the dashboard, or read it from /v1/events."
            ),
            N_("See the endpoints"),
            "developers/webhooks",
        ),
        ("owner", "developer"),
    ),
    Topic(
        "endpoint_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("A webhook address of {shop} was changed"),
            N_(
                "Events of {shop}, such as payments of customers, go to a new "
                "address. If nobody on your team changed it, change the "
                "address back, rotate its secret and change your passwords."
            ),
            N_("See the endpoints"),
            "developers/webhooks",
        ),
        ("owner", "developer"),
    ),
    Topic(
        "key_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("An API key of {shop} was changed"),
            N_(
                "Somebody has created, replaced or revoked an API key of "
                "{shop}. If that was none of you, revoke the key and change "
                "your passwords."
            ),
            N_("See the keys"),
            "developers/keys",
        ),
        ("owner", "developer"),
    ),
    Topic(
        "account_changed",
        model.AuditContent,
        merchant_templates.audit_entry(
            N_("The bank account of {shop} was changed"),
            N_(
                "Somebody has entered the bank account that payouts of {shop} "
                "go to. If that was none of you, write to whoever runs the "
                "payments at once, and change your passwords."
            ),
            N_("See the bank account"),
            "payouts/account",
        ),
        ("owner", "finance"),
    ),
    Topic("digest", model.DigestContent, merchant_templates.digest, ("owner", "finance")),
    Topic("new_login", model.LoginContent, merchant_templates.login),
    Topic("account_change", model.AccountChangeContent, merchant_templates.account_change),
    Topic(
        "account_change_staff",
        model.AccountChangeContent,
        merchant_templates.account_change_staff,
        staff=_who_may("people.manage"),
    ),
    Topic("factors_waiting", model.FactorResetContent, merchant_templates.factors_waiting),
    Topic("invitation", model.InvitationContent, merchant_templates.invitation),
    Topic("reset", model.PasswordResetContent, merchant_templates.reset),
    Topic(
        "books_violated",
        model.ViolationsContent,
        merchant_templates.violated,
        staff=("admin", "finance"),
    ),
    Topic(
        "gateway_away", model.OutageContent, merchant_templates.stuck, staff=("admin", "support")
    ),
    Topic(
        "approval_waiting",
        model.ApprovalContent,
        merchant_templates.approval,
        staff=_who_may("approvals.decide"),
    ),
    Topic(
        "dispute_deadline",
        model.DeadlineContent,
        merchant_templates.deadline(
            N_(
                "A dispute of {shop} can be responded to for less than {left}, "
                "and no evidence was handed in. Without a response the money "
                "is usually lost."
            ),
            N_(
                "A dispute of {shop} can be responded to for less than {left}, "
                "and no evidence was handed in. Without a response the money "
                "is usually lost."
            ),
            N_("Respond to the dispute"),
        ),
        ("owner", "support"),
    ),
    Topic(
        "dispute_deadline_staff",
        model.DeadlineContent,
        merchant_templates.deadline(
            N_(
                "A dispute of {shop} can be responded to for less than {left}. "
                "The merchant has handed in no evidence."
            ),
            N_(
                "A dispute of {shop} can be responded to for less than {left}. "
                "The merchant has handed in evidence: send it to the bank, and "
                "note at the dispute that you did."
            ),
            N_("See the dispute"),
        ),
        staff=_who_may("disputes.decide"),
    ),
    Topic("test", model.TestContent, merchant_templates.test),
)
BY_NAME: Final[Mapping[str, Topic]] = {topic.name: topic for topic in TOPICS}


CUSTOMER_TOPICS: Final = ("receipt", "refund", "refund_failed")
MONEY_TOPICS: Final = (
    "receipt",
    "refund",
    "refund_failed",
    "refund_reversed",
    "refund_at_gateway",
    "dispute_opened",
    "payout_paid",
    "payout_failed",
    "digest",
)
SWITCHES: Final = ("receipts", "refunds", "digest")


async def find_preferences(tx: Tx, merchant_id: str) -> Preferences:
    """Return what a merchant wants, which is what everybody has until it says something else."""
    found = await queries.PREFERENCES.first(tx, merchant_id=merchant_id)
    return found or Preferences(merchant_id=merchant_id)


async def change_preferences(
    tx: Tx,
    merchant_id: str,
    switches: Mapping[str, bool],
    language: str,
    now: int,
    *,
    actor: Actor,
) -> Preferences:
    """Set what a merchant wants; what is so already is no change. Raises Invalid and NotFound."""
    chosen = supported("merchant", language)
    if chosen is None:
        raise Invalid(
            "language", f"language must be one of {', '.join(languages.offered('merchant'))}"
        )
    await merchants.lock(tx, merchant_id)
    old = await find_preferences(tx, merchant_id)
    new = msgspec.structs.replace(old, **switches, language=chosen)
    changed = [name for name in (*SWITCHES, "language") if getattr(old, name) != getattr(new, name)]
    if not changed:
        return old
    new = msgspec.structs.replace(new, updated_at=now)
    await queries.SET_PREFERENCES.run(tx, new)
    subject = ", ".join(
        f"{name}: {_text(getattr(old, name))} → {_text(getattr(new, name))}" for name in changed
    )
    await merchants.record_audit(tx, actor, "mail set", merchant_id, subject, now)
    return new


def _text(value: object) -> str:
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


class Recipients(msgspec.Struct, frozen=True):
    """Addresses, and the language that they read."""

    emails: list[str]
    language: Language


async def find_members(tx: Tx, merchant_id: str, topic: Topic) -> Recipients:
    """Return the members whose role gets a topic: none of a closed merchant, who see no page."""
    if (await merchants.find(tx, merchant_id)).status == "CLOSED":
        return Recipients([], "en")
    found = await people.members(tx, merchant_id)
    emails = [one.email for one in found if one.role in topic.members]
    language = (await find_preferences(tx, merchant_id)).language if emails else "en"
    return Recipients(emails, language)


async def find_staff(tx: Tx, topic: Topic) -> list[StaffReader]:
    """Return the staff whose role gets a topic."""
    return await queries.STAFF.all(tx, roles=list(topic.staff))


def mails_to_staff(
    readers: Sequence[StaffReader], topic: Topic, cause: str, said: msgspec.Struct
) -> list[NewMail]:
    """Return a mail for each of some staff, in their own language."""
    return [
        NewMail(
            merchant_id=OF_NOBODY,
            topic=topic.name,
            cause=cause,
            recipient=one.email,
            language=one.language,
            data=said,
        )
        for one in readers
    ]


def mails_to_members(
    merchant_id: str, to: Recipients, topic: Topic, cause: str, said: msgspec.Struct
) -> list[NewMail]:
    """Return a mail for each of some members, in the language that they read."""
    return [
        NewMail(
            merchant_id=merchant_id,
            topic=topic.name,
            cause=cause,
            recipient=email,
            language=to.language,
            data=said,
        )
        for email in to.emails
    ]
