"""Whose requests the logged-in person may approve, and why others' requests they may not."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from opentill import approvals, payouts, people
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.people import Approver, FactorReset
from opentill.portal import login_cookies
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# Error texts for a person who must not be the second person, by the field of the refusal.
NOT_SECOND_PERSON: Final = {
    "invited": N_(
        "You cannot approve this: the requester invited you, or gave you a new password, within "
        "the last 72 hours."
    ),
    "browser": N_(
        "You cannot approve this here: the requester has logged in with this browser. Use another "
        "browser."
    ),
}
# Why a person cannot confirm a reset of second factors, by the field of the refusal.
CANNOT_CONFIRM: Final = {
    **NOT_SECOND_PERSON,
    "by": N_("You requested this reset, so another administrator must confirm it."),
    "person": N_("This reset is for you, so another administrator must confirm it."),
}


def approver(request: PageRequest) -> Approver:
    """Return the logged-in person as approver.

    The approver has a function that says whether a given person has logged in with this browser.
    """
    knows = partial(login_cookies.has_logged_in, request.app.settings, request.headers)
    return Approver(people.actor_of(request.login, "").who, knows)


async def find_refusals(
    tx: Tx, request: PageRequest, requesters: Iterable[str]
) -> Mapping[str, str]:
    """Return the requesters whose requests the person cannot approve, each with the field.

    The field is ``by``, ``invited`` or ``browser``.
    """
    person, refusals = approver(request), dict[str, str]()
    for requester in set(requesters):
        try:
            await people.check_second(tx, requester, person, request.now)
        except Invalid as problem:
            refusals[requester] = problem.field or "by"
    return refusals


async def count_approvable(tx: Tx, request: PageRequest) -> int:
    """Count the requests and payout runs that wait for this person and not for a colleague."""
    requesters = list[str]()
    if request.may("approvals.decide"):
        requesters += [row.asked_by for row in await approvals.list_waiting(tx)]
    if request.may("payouts.manage"):
        above = request.app.settings.approval_above
        runs = await payouts.list_waiting_runs(tx, above, request.now)
        requesters += [view.run.created_by for view in runs]
    refusals = await find_refusals(tx, request, requesters)
    return sum(requester not in refusals for requester in requesters)


async def find_reset_refusals(
    tx: Tx, request: PageRequest, resets: Iterable[FactorReset]
) -> Mapping[str, str]:
    """Return the unconfirmed resets that the person cannot confirm: their ids, with the field.

    The field is one of ``CANNOT_CONFIRM``.
    """
    waiting = [reset for reset in resets if reset.status == "ASKED"]
    refusals = await find_refusals(tx, request, (reset.asked_by for reset in waiting))
    fields = {
        reset.id: "person"
        if reset.person_id == request.login.person_id
        else refusals.get(reset.asked_by, "")
        for reset in waiting
    }
    return {reset_id: field for reset_id, field in fields.items() if field}


async def count_confirmable_resets(tx: Tx, request: PageRequest) -> int:
    """Count the resets of second factors that wait for this person's confirmation."""
    resets = await people.lost_factors.open_resets(tx)
    refusals = await find_reset_refusals(tx, request, resets)
    return sum(reset.status == "ASKED" and reset.id not in refusals for reset in resets)
