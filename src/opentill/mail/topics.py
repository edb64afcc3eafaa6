"""What can be mailed: the table of topics, what each says, and who of a merchant it is for.

A message is added by a struct of what it says (``contents.py``), a function that puts it into words
(``wording.py``, or ``customer_wording.py``), a row of the table, and its sentences in
``catalogue``. All have one template.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from opentill.mail import contents, customer_wording, wording
from opentill.mail.words import Message, Words
from opentill.people import STAFF_ROLES, MerchantRole, Permission, StaffRole, staff_may


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
        wording.refund_report("refund_reversed_subject", "refund_reversed_text"),
        ("owner", "finance", "support"),
    ),
    Topic(
        "refund_at_gateway",
        contents.RefundReport,
        wording.refund_report("refund_at_gateway_subject", "refund_at_gateway_text"),
        ("owner", "finance"),
    ),
    Topic("dispute_opened", contents.Dispute, wording.dispute, ("owner", "support")),
    Topic(
        "payout_paid",
        contents.Payout,
        wording.payout("payout_paid_subject", "payout_paid_text"),
        ("owner", "finance"),
    ),
    Topic(
        "payout_failed",
        contents.Payout,
        wording.payout("payout_failed_subject", "payout_failed_text"),
        ("owner", "finance"),
    ),
    Topic(
        "endpoint_disabled",
        contents.Entry,
        wording.entry("endpoint_subject", "endpoint_text", "endpoint_open", "developers/webhooks"),
        ("owner", "developer"),
    ),
    Topic(
        "endpoint_changed",
        contents.Entry,
        wording.entry(
            "endpoint_changed_subject",
            "endpoint_changed_text",
            "endpoint_changed_open",
            "developers/webhooks",
        ),
        ("owner", "developer"),
    ),
    Topic(
        "key_changed",
        contents.Entry,
        wording.entry("key_subject", "key_text", "key_open", "developers/keys"),
        ("owner", "developer"),
    ),
    Topic(
        "account_changed",
        contents.Entry,
        wording.entry("account_subject", "account_text", "account_open", "payouts/account"),
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
        wording.deadline("deadline_text", "deadline_text", "deadline_open"),
        ("owner", "support"),
    ),
    Topic(
        "dispute_deadline_staff",
        contents.Deadline,
        wording.deadline("deadline_staff_text", "deadline_staff_responded", "deadline_staff_open"),
        staff=_who_may("disputes.decide"),
    ),
    Topic("test", contents.Test, wording.test),
)
BY_NAME: Final[Mapping[str, Topic]] = {topic.name: topic for topic in TOPICS}
