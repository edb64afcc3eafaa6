"""Approvals by a second person: movements of money above the limit, approved or rejected.

The requester cannot approve a request, but may reject and so withdraw it. A decision requires a
step-up. A request that somebody else has decided meanwhile is not decided again; the page says so.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import (
    adjustments,
    approvals,
    ledger,
    merchants,
    payouts,
    people,
    reconciliation,
)
from opentill.approvals import Waiting
from opentill.console import audit_entries, proof_facts
from opentill.console.labels import GIVE_A_REASON
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import Account
from opentill.people import Approver
from opentill.portal import login_cookies, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_MOST_DECIDED: Final = 50  # the page shows at most this many decided requests
# Ids with these prefixes are in ``approvals``, all others are ids of adjustments.
_REQUEST_PREFIXES: Final = ("preq_", "areq_")


async def list_approvals(request: PageRequest) -> Response:
    """List the requests that wait for approval."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    reasons: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        waiting = await approvals.list_waiting(tx)
        decided = await approvals.list_decided(tx, _MOST_DECIDED)
        runs = await payouts.list_waiting_runs(tx, request.app.settings.approval_above, request.now)
        names = await merchants.names(tx, (row.merchant_id for row in (*waiting, *decided)))
        refusals = await _find_refusals(tx, request, waiting)
        effects = await _find_effects(tx, waiting)

    def write_amount(minor: int, currency: str) -> str:
        return request.localizer.amount(Money(minor, currency))

    def limit_of(row: Waiting) -> tuple[str, bool] | None:
        return _limit(request, row)

    return render.page(
        request,
        "approvals.html",
        status,
        waiting=waiting,
        runs=runs,
        decided=decided,
        limit_of=limit_of,
        refusals=refusals,
        effects=effects,
        link_ids=partial(audit_entries.link_ids, request),
        names=names,
        amount=write_amount,
        me=people.actor_of(request.login, "").who,
        errors=errors or {},
        reasons=reasons or {},
        zone=ZONE,
    )


async def _find_refusals(
    tx: Tx, request: PageRequest, waiting: Sequence[Waiting]
) -> dict[str, str]:
    """Return why the person cannot approve requests of others, by the requests' ids."""
    refusals: dict[str, str] = {}
    for asked_by in {row.asked_by for row in waiting}:
        try:
            await people.check_second(tx, asked_by, approver(request), request.now)
        except Invalid as problem:
            text = NOT_SECOND_PERSON.get(problem.field or "")
            if text is not None:
                refusals |= {row.id: text for row in waiting if row.asked_by == asked_by}
    return refusals


async def _find_effects(
    tx: Tx, waiting: Sequence[Waiting]
) -> dict[str, list[tuple[Account, int, int]]]:
    """Return the balances before and after adjustments and payouts, by the requests' ids.

    Other requests change a payment, whose page shows their effect.
    """
    merchant_ids = sorted({row.merchant_id for row in waiting})
    balances = {
        (balance.merchant_id, balance.currency): balance
        for balance in await ledger.find_balances(tx, merchant_ids)
    }
    effects: dict[str, list[tuple[Account, int, int]]] = {
        row.id: adjustments.moved_by(row, balances.get((row.merchant_id, row.currency)))
        for row in await adjustments.list_waiting(tx)
    }
    for row in waiting:
        balance = balances.get((row.merchant_id, row.currency))
        if row.kind == "payout" and balance is not None:
            after = balance.available - row.amount_minor - row.fee_minor
            effects[row.id] = [("available", balance.available, after)]
    return effects


def _limit(request: PageRequest, row: Waiting) -> tuple[str, bool] | None:
    """Return the limit in a request's currency, and whether the request alone exceeds it.

    A request that does not exceeds it together with the movements of 24 hours.
    """
    above = request.app.settings.approval_above
    if above is None:
        return None
    minor = int(above.scaleb(money.exponent(row.currency)))
    text = request.localizer.amount(Money(minor, row.currency))
    return text, abs(row.amount_minor) + row.fee_minor > minor


def approver(request: PageRequest) -> Approver:
    """Return the logged-in person as approver.

    The approver has a function that says whether a given person has logged in with this browser.
    """
    knows = partial(login_cookies.has_logged_in, request.app.settings, request.headers)
    return Approver(people.actor_of(request.login, "").who, knows)


async def approve_request(request: PageRequest) -> Response:
    """Approve a request of another person."""
    request_id, rules = request.ids["approval"], approvals.Rules.from_settings(request.app.settings)

    async def work(tx: Tx) -> None:
        await approvals.approve(tx, request_id, approver(request), rules, request.now)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        return await _page(request, 400, {request_id: _error_text(problem)})
    except merchants.CapabilityOff:
        error = N_("This merchant's payouts are switched off. The request keeps waiting.")
        return await _page(request, 400, {request_id: error})
    return render.see_other(request, f"{PLACE}?done=approved")


async def reject_request(request: PageRequest) -> Response:
    """Reject a request with a reason."""
    form = await request.form()
    request_id, reason = request.ids["approval"], form.get("reason", "").strip()
    if not reason:
        return await _page(request, 400, {request_id: GIVE_A_REASON})
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> None:
        if request_id.startswith(_REQUEST_PREFIXES):
            await approvals.reject(tx, request_id, actor, request.now)
        else:
            await reconciliation.reject_adjustment(
                tx, request_id, actor.who, actor.reason, request.now
            )

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        error = _error_text(problem)
        return await _page(request, 400, {request_id: error}, {request_id: reason})
    except NotFound:
        return await _page(request, 404, {request_id: _DECIDED})
    return render.see_other(request, f"{PLACE}?done=rejected")


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
_DECIDED: Final = N_("Somebody has already decided about this.")
_ERRORS: Final = {
    **NOT_SECOND_PERSON,
    "by": N_("Somebody other than its requester must approve it."),
    "movement": _DECIDED,
    "payout": _DECIDED,
    "amount": N_("The balance does not allow this amount now. The request keeps waiting."),
    "merchant": N_("The merchant was closed after this was requested. Reject it."),
    "reason": GIVE_A_REASON,
}


def _error_text(problem: Invalid) -> str:
    return _ERRORS.get(problem.field or "", N_("This could not be done. Nothing was moved."))


PLACE: Final = f"{CONSOLE_PATH}/approvals"
pages: Final = (
    Page("GET", PLACE, "balance.read", list_approvals, menu=N_("Approvals"), group="money"),
    Page(
        "POST",
        f"{PLACE}/{{approval:id}}/approve",
        "approvals.decide",
        approve_request,
        proves=N_("Approve a request"),
        about=proof_facts.of_request,
    ),
    Page(
        "POST",
        f"{PLACE}/{{approval:id}}/reject",
        "approvals.decide",
        reject_request,
        fields=("reason",),
        proves=N_("Reject a request"),
        about=proof_facts.of_request,
    ),
)
