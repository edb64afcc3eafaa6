"""What a new merchant still lacks before it can take payments and get payouts."""

from typing import Final

import msgspec

from opentill.agreement import AgreementStatus
from opentill.merchants import Merchant
from opentill.orders import Order
from opentill.payouts import StoredAccount
from opentill.people import Link, Member
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_OWNER: Final = "owner"


class Task(msgspec.Struct, frozen=True):
    """A task of a merchant's set-up: ``name`` and ``act`` are message ids, ``about`` is a text.

    ``act`` is what staff can do about it, and ``href`` where; both are "" if the merchant does it.
    """

    name: str
    is_done: bool
    about: str = ""
    act: str = ""
    href: str = ""


def list_tasks(
    request: PageRequest,
    merchant: Merchant,
    members: list[Member],
    invited: list[Link],
    account: StoredAccount | None,
    agreement: AgreementStatus,
    payments: list[Order],
) -> list[Task]:
    """Return the tasks, none once all are done."""
    gettext = request.localizer.gettext
    place = request.console("merchants", merchant.id)
    owner = next((one for one in invited if one.role == _OWNER), None)
    has_owner = any(member.role == _OWNER for member in members)
    manages = request.may("people.manage")
    about, act = "", N_("Invite the owner") if manages else ""
    if owner is not None and not has_owner:
        about = gettext(N_("{email} is invited and has not accepted yet."), email=owner.email)
        act = N_("Send another invitation") if manages else ""
    may_enter = request.may("payouts.manage")
    tasks = [
        Task(N_("Owner joins"), has_owner, about, act, f"{place}/members" if act else ""),
        Task(
            N_("Agreement accepted"),
            agreement == "ACCEPTED",
            gettext(N_("The owner accepts it in the dashboard.")),
        ),
        Task(
            N_("Bank account entered"),
            account is not None,
            gettext(N_("Without it nothing can be paid out. The owner can enter it too.")),
            N_("Enter the bank account") if may_enter else "",
            f"{place}/bank-account" if may_enter else "",
        ),
        Task(
            N_("First payment"),
            bool(payments),
            gettext(N_("By a payment link, or with the API.")),
        ),
    ]
    return [] if all(task.is_done for task in tasks) else tasks
