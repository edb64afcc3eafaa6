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
from opentill.console.second_person import (
    CANNOT_CONFIRM,
    NOT_SECOND_PERSON,
    approver,
    find_refusals,
    find_reset_refusals,
)
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.ledger import Account
from opentill.merchants import operator_actions
from opentill.people import FactorReset
from opentill.portal import render
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
        requesters = [row.asked_by for row in waiting] + [view.run.created_by for view in runs]
        refusals = await find_refusals(tx, request, requesters)
        effects = await _find_effects(tx, waiting)
        resets = await _find_resets(tx, request)
        reset_refusals = await find_reset_refusals(tx, request, resets)

    may_approve, may_send = request.may("approvals.decide"), request.may("payouts.manage")
    # The rows of both sections: those that this person can approve, and all others.
    waiting_for_me = [row for row in waiting if may_approve and row.asked_by not in refusals]
    runs_for_me = [view for view in runs if may_send and view.run.created_by not in refusals]

    def write_amount(minor: int, currency: str) -> str:
        return request.localizer.amount(Money(minor, currency))

    def limit_of(row: Waiting) -> tuple[str, bool] | None:
        return _limit(request, row)

    return render.page(
        request,
        "approvals.html",
        status,
        sections=(
            (
                "for-me",
                waiting_for_me,
                runs_for_me,
                [reset for reset in resets if reset.id not in reset_refusals],
            ),
            (
                "for-others",
                [row for row in waiting if row not in waiting_for_me],
                [view for view in runs if view not in runs_for_me],
                [reset for reset in resets if reset.id in reset_refusals],
            ),
        ),
        waiting_ids=[row.id for row in waiting],
        decided=decided,
        limit_of=limit_of,
        refusals={requester: _refusal(requester, field) for requester, field in refusals.items()},
        reset_refusals={key: CANNOT_CONFIRM[field] for key, field in reset_refusals.items()},
        has_waiting=bool(waiting or runs or resets),
        has_limit=request.app.settings.approval_above is not None,
        effects=effects,
        link_ids=partial(audit_entries.link_ids, request),
        names=names,
        amount=write_amount,
        me=people.actor_of(request.login, "").who,
        errors=errors or {},
        reasons=reasons or {},
        zone=ZONE,
    )


async def _find_resets(tx: Tx, request: PageRequest) -> list[FactorReset]:
    """Return the resets of second factors that wait for a second administrator."""
    if not request.may("people.manage"):
        return []
    resets = await people.lost_factors.open_resets(tx)
    return [reset for reset in resets if reset.status == "ASKED"]


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


async def approve_request(request: PageRequest) -> Response:
    """Approve a request of another person."""
    request_id, rules = request.ids["approval"], approvals.Rules.from_settings(request.app.settings)

    async def work(tx: Tx) -> None:
        await approvals.approve(tx, request_id, approver(request), rules, request.now)

    try:
        await request.transact(work)
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
        await request.transact(work)
    except Invalid as problem:
        error = _error_text(problem)
        return await _page(request, 400, {request_id: error}, {request_id: reason})
    except NotFound:
        return await _page(request, 404, {request_id: _DECIDED})
    return render.see_other(request, f"{PLACE}?done=rejected")


_DECIDED: Final = N_("Somebody has already decided about this.")
_OF_ROOT: Final = N_(
    "The owner of the machine requested this and may be anybody. Somebody who has logged in must "
    "request it again."
)
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


def _refusal(requester: str, field: str) -> str:
    """Return why a person cannot approve the requests of a requester."""
    return _OF_ROOT if requester.startswith(operator_actions.ROOT) else _ERRORS[field]


PLACE: Final = f"{CONSOLE_PATH}/approvals"
pages: Final = (
    Page("GET", PLACE, "balance.read", list_approvals, menu=N_("Approvals"), group="money"),
    Page(
        "POST",
        f"{PLACE}/{{approval:id}}/approve",
        "approvals.decide",
        approve_request,
        proves=N_("Approve a request"),
        rehearsed=True,
        about=proof_facts.of_request,
    ),
    Page(
        "POST",
        f"{PLACE}/{{approval:id}}/reject",
        "approvals.decide",
        reject_request,
        fields=("reason",),
        proves=N_("Reject a request"),
        rehearsed=True,
        about=proof_facts.of_request,
    ),
)
