"""A payout of any merchant: its facts, and forms that record how its transfer ended."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from opentill import approvals, merchants, payouts, people
from opentill.approvals import ActionRequest, Rules, WaitingAction
from opentill.approvals.model import Action
from opentill.console.payout_labels import PAYOUT_ERROR
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.payouts import Payout, Status
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_FIELDS: Final = ("reference", "reason")
# What can be recorded of a payout with a status: the forms of its page, in their order.
_EVENTS: Final[Mapping[Status, tuple[str, ...]]] = {
    "PENDING": ("paid", "failed"),
    "PAID": ("returned",),
    "FAILED": (),
}
# The field of the form that a refusal is about.
_FIELD_OF: Final = {"bank-reference": "reference", "reason": "reason"}


async def show(request: PageRequest) -> Response:
    """Show a payout. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    event: str = "",
    errors: Mapping[str, str] | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        payout = await payouts.find_anywhere(tx, request.ids["payout"])
        merchant = await merchants.find(tx, payout.merchant_id)
    say_amount = request.localizer.amount
    return render.page(
        request,
        "payout_transfer.html",
        status,
        payout=payout,
        merchant=merchant,
        amount=say_amount(Money(payout.amount_minor, payout.currency)),
        fee=say_amount(Money(payout.fee_minor, payout.currency)),
        moved=say_amount(Money(payout.amount_minor + payout.fee_minor, payout.currency)),
        events=_EVENTS[payout.status] if request.may("payouts.manage") else (),
        event=event,
        errors={f"{event}-{name}": key for name, key in (errors or {}).items()},
        values={name: (typed or {}).get(name, "") for name in _FIELDS},
        zone=ZONE,
    )


async def _record(
    tx: Tx, request: PageRequest, event: str, reference: str, actor: Actor
) -> Payout | WaitingAction:
    payout_id, now = request.ids["payout"], request.now
    action = _ACTIONS.get(event)
    if action is None:
        return await payouts.pay(tx, payout_id, reference, actor.reason, actor.who, now)
    merchant_id = (await payouts.find_anywhere(tx, payout_id)).merchant_id
    asked = ActionRequest(action=action, merchant_id=merchant_id, subject=payout_id, actor=actor)
    done = await approvals.perform(tx, asked, Rules.from_settings(request.app.settings), now)
    if not isinstance(done, (Payout, WaitingAction)):
        raise TypeError  # it is an action of a payout
    return done


# What gives the merchant money back, which above the limit needs a second person.
_ACTIONS: Final[Mapping[str, Action]] = {"failed": "payout-failed", "returned": "payout-returned"}


async def record(request: PageRequest) -> Response:
    """Record how a transfer ended; the same form again finds it ended. Raises NotFound."""
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    event = form.get("event", "")
    if event != "paid" and event not in _ACTIONS:
        return await _page(request, 400)
    actor = people.actor_of(request.login, typed["reason"])
    if not typed["reason"]:
        return await _page(request, 400, event, {"reason": N_("Say why, in a few words.")}, typed)
    try:
        done = await request.app.db.run(
            lambda tx: _record(tx, request, event, typed["reference"], actor)
        )
    except Invalid as problem:
        field = _FIELD_OF.get(str(problem.field), "payout")
        error = {field: PAYOUT_ERROR[field]}
        return await _page(request, 400, event, error, typed)
    waits = isinstance(done, WaitingAction)
    return render.see_other(request, f"{request.path}?{'waits' if waits else 'done'}={event}")


PLACE: Final = f"{CONSOLE_PATH}/payout/{{payout:id}}"
pages: Final = (
    Page("GET", PLACE, "payouts.read", show),
    Page("POST", PLACE, "payouts.manage", record),
)
