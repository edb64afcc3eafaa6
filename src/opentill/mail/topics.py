"""What can be mailed: the table of topics, what each says, and who of a merchant it is for.

A message is added by a struct of what it says (``contents.py``), a function that puts it into words
(``wording.py``, or ``customer_wording.py``), and a row of the table. All have one
template.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from opentill.mail import contents, customer_wording, wording
from opentill.mail.words import Message, Words
from opentill.people import STAFF_ROLES, MerchantRole, Permission, StaffRole, staff_may
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
    Topic("receipt", contents.Receipt, customer_wording.receipt),
    Topic("refund", contents.Refund, customer_wording.refund),
    Topic("refund_failed", contents.Refund, customer_wording.refund_failed),
    Topic(
        "refund_reversed",
        contents.RefundReport,
        wording.refund_report(
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
        contents.RefundReport,
        wording.refund_report(
            N_("A payment was refunded at the payment provider: {amount}"),
            N_(
                "{amount} of a payment to {shop} was refunded directly at the "
                "payment provider, not through OpenTill. The amount was taken "
                "from your balance."
            ),
        ),
        ("owner", "finance"),
    ),
    Topic("dispute_opened", contents.Dispute, wording.dispute, ("owner", "support")),
    Topic(
        "payout_paid",
        contents.Payout,
        wording.payout(
            N_("A payout of {amount} has been paid"),
            N_("A payout of {shop} has left for your bank."),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "payout_failed",
        contents.Payout,
        wording.payout(
            N_("A payout of {amount} has failed"),
            N_("A payout of {shop} could not be sent. Its money is available again."),
        ),
        ("owner", "finance"),
    ),
    Topic(
        "endpoint_disabled",
        contents.Entry,
        wording.entry(
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
        contents.Entry,
        wording.entry(
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
        contents.Entry,
        wording.entry(
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
        contents.Entry,
        wording.entry(
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
    Topic("digest", contents.Digest, wording.digest, ("owner", "finance")),
    Topic("new_login", contents.Login, wording.login),
    Topic("account_change", contents.AccountChange, wording.account_change),
    Topic(
        "account_change_staff",
        contents.AccountChange,
        wording.account_change_staff,
        staff=_who_may("people.manage"),
    ),
    Topic("factors_waiting", contents.FactorsWaiting, wording.factors_waiting),
    Topic("invitation", contents.Invitation, wording.invitation),
    Topic("reset", contents.Reset, wording.reset),
    Topic("books_violated", contents.Violated, wording.violated, staff=("admin", "finance")),
    Topic("gateway_away", contents.Stuck, wording.stuck, staff=("admin", "support")),
    Topic(
        "approval_waiting",
        contents.Approval,
        wording.approval,
        staff=_who_may("approvals.decide"),
    ),
    Topic(
        "dispute_deadline",
        contents.Deadline,
        wording.deadline(
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
        contents.Deadline,
        wording.deadline(
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
    Topic("test", contents.Test, wording.test),
)
BY_NAME: Final[Mapping[str, Topic]] = {topic.name: topic for topic in TOPICS}
