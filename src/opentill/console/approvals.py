"""The approvals that wait for a second person: adjustments and payouts above a limit.

Whoever asked for something cannot approve it, but may withdraw it by rejecting it. Deciding takes
a step-up; a decision that somebody else has taken meanwhile is said, and nothing is done twice.
"""

from typing import Final

import msgspec
from starlette.responses import Response

from opentill import adjustments, merchants, payouts, people, reconciliation
from opentill.backoffice import render
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx

_PAYOUT: Final = "preq_"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits: what it is, of whom, and who asked for it."""

    id: str
    kind: str
    merchant_id: str
    money: Money
    fee: Money | None
    about: str  # the order of a correction, the reference of a payout
    reason: str
    asked_by: str
    created_at: int


async def waiting(tx: Tx) -> list[Waiting]:
    """Return everything that waits for a second person, oldest first."""
    found = [
        Waiting(
            id=one.id,
            kind=one.kind,
            merchant_id=one.merchant_id,
            money=Money(one.amount_minor, one.currency),
            fee=None,
            about=one.order_id or one.reference,
            reason=one.reason,
            asked_by=one.asked_by,
            created_at=one.created_at,
        )
        for one in await adjustments.waiting(tx)
    ]
    found += [
        Waiting(
            id=one.id,
            kind="payout",
            merchant_id=one.merchant_id,
            money=Money(one.amount_minor, one.currency),
            fee=Money(one.fee_minor, one.currency) if one.fee_minor else None,
            about=one.reference,
            reason=one.reason,
            asked_by=one.asked_by,
            created_at=one.created_at,
        )
        for one in await payouts.waiting(tx)
    ]
    return sorted(found, key=lambda one: (one.created_at, one.id))


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
        found = await waiting(tx)
        names = await merchants.names(tx, (one.merchant_id for one in found))
    return render.page(
        request,
        "approvals.html",
        status,
        found=found,
        names=names,
        me=people.actor_of(request.login, "").who,
        errors=errors or {},
        typed=typed or {},
        zone=ZONE,
    )


async def approve(request: PageRequest) -> Response:
    """Approve something, as somebody else than who asked for it."""
    wanted, who = request.ids["approval"], people.actor_of(request.login, "").who

    async def work(tx: Tx) -> None:
        if wanted.startswith(_PAYOUT):
            await payouts.approve(tx, wanted, who, request.now)
        else:
            await adjustments.approve(tx, wanted, who, request.now)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        return await _all(request, 400, {wanted: _KEYS.get(problem.field or "", "approvals_error")})
    except merchants.CapabilityOff:
        return await _all(request, 400, {wanted: "approvals_error_off"})
    return render.see_other(request, f"{PLACE}?done=approved")


async def reject(request: PageRequest) -> Response:
    """Reject something, with a reason."""
    form = await request.form()
    wanted, reason = request.ids["approval"], form.get("reason", "").strip()
    if not reason:
        return await _all(request, 400, {wanted: "approvals_error_reason"})
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> None:
        if wanted.startswith(_PAYOUT):
            await payouts.reject(tx, wanted, actor, request.now)
        else:
            await reconciliation.reject_adjustment(tx, wanted, actor.who, actor.reason, request.now)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        error = _KEYS.get(problem.field or "", "approvals_error")
        return await _all(request, 400, {wanted: error}, {wanted: reason})
    except NotFound:
        return await _all(request, 404, {wanted: "approvals_error_decided"})
    return render.see_other(request, f"{PLACE}?done=rejected")


# What a refusal is about, by its field.
_KEYS: Final = {
    "by": "approvals_error_same",
    "movement": "approvals_error_decided",
    "payout": "approvals_error_decided",
    "amount": "approvals_error_amount",
    "merchant": "approvals_error_closed",
    "reason": "approvals_error_reason",
}
PLACE: Final = f"{OF_CONSOLE}/approvals"
pages: Final = (
    Page("GET", PLACE, "balance.read", show, menu="menu_approvals"),
    Page("POST", f"{PLACE}/{{approval:id}}/approve", "approvals.decide", approve),
    Page("POST", f"{PLACE}/{{approval:id}}/reject", "approvals.decide", reject),
)
