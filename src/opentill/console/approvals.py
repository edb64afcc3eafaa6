"""The approvals that wait for a second person: what moves money above a limit.

Whoever asked for something cannot approve it, but may withdraw it by rejecting it. Deciding takes
a step-up; a decision that somebody else has taken meanwhile is said, and nothing is done twice.
"""

from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import approvals, merchants, people, reconciliation
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.people import Approver
from opentill.portal import login_cookies, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_BY_APPROVALS: Final = ("preq_", "areq_")  # how ids begin of what ``approvals`` rejects


async def show(request: PageRequest) -> Response:
    """List everything that waits."""
    return await _all(request)


async def _all(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        found = await approvals.waiting(tx)
        names = await merchants.names(tx, (one.merchant_id for one in found))

    def amount(minor: int, currency: str) -> str:
        return request.localizer.amount(Money(minor, currency))

    return render.page(
        request,
        "approvals.html",
        status,
        found=found,
        names=names,
        money=amount,
        me=people.actor_of(request.login, "").who,
        errors=errors or {},
        typed=typed or {},
        zone=ZONE,
    )


def approver(request: PageRequest) -> Approver:
    """Return who approves, and in a browser of whom."""
    knows = partial(login_cookies.knows, request.app.settings, request.headers)
    return Approver(people.actor_of(request.login, "").who, knows)


async def approve(request: PageRequest) -> Response:
    """Approve something, as somebody else than who asked for it."""
    wanted, rules = request.ids["approval"], approvals.Rules.from_settings(request.app.settings)

    async def work(tx: Tx) -> None:
        await approvals.approve(tx, wanted, approver(request), rules, request.now)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        return await _all(
            request,
            400,
            {
                wanted: _KEYS.get(
                    problem.field or "", N_("This could not be done. Nothing was moved.")
                )
            },
        )
    except merchants.CapabilityOff:
        return await _all(
            request,
            400,
            {wanted: N_("This merchant's payouts are switched off. It goes on waiting.")},
        )
    return render.see_other(request, f"{PLACE}?done=approved")


async def reject(request: PageRequest) -> Response:
    """Reject something, with a reason."""
    form = await request.form()
    wanted, reason = request.ids["approval"], form.get("reason", "").strip()
    if not reason:
        return await _all(request, 400, {wanted: N_("Say why, in a few words.")})
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> None:
        if wanted.startswith(_BY_APPROVALS):
            await approvals.reject(tx, wanted, actor, request.now)
        else:
            await reconciliation.reject_adjustment(tx, wanted, actor.who, actor.reason, request.now)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        error = _KEYS.get(problem.field or "", N_("This could not be done. Nothing was moved."))
        return await _all(request, 400, {wanted: error}, {wanted: reason})
    except NotFound:
        return await _all(request, 404, {wanted: N_("Somebody has decided about this already.")})
    return render.see_other(request, f"{PLACE}?done=rejected")


# What a refusal is about, by its field.
_KEYS: Final = {
    "by": N_("Somebody else than who asked for it must approve."),
    "invited": N_(
        "Whoever asked for this has invited this person or given them "
        "a new password within the last 72 hours. Somebody else must "
        "approve."
    ),
    "browser": N_(
        "Whoever asked for this has logged in in this browser. Approve it in a browser of your own."
    ),
    "movement": N_("Somebody has decided about this already."),
    "payout": N_("Somebody has decided about this already."),
    "amount": N_("The balance does not allow this amount now. It goes on waiting."),
    "merchant": N_("The merchant was closed after this was asked for: reject it."),
    "reason": N_("Say why, in a few words."),
}
PLACE: Final = f"{CONSOLE_PATH}/approvals"
pages: Final = (
    Page("GET", PLACE, "balance.read", show, menu=N_("Approvals")),
    Page("POST", f"{PLACE}/{{approval:id}}/approve", "approvals.decide", approve),
    Page("POST", f"{PLACE}/{{approval:id}}/reject", "approvals.decide", reject),
)
