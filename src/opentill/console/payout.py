"""A payout of any merchant: its facts, and forms that record how its transfer ended."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.responses import Response

from opentill import merchants, payouts, people
from opentill.backoffice import render
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.payouts import Payout, Status

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


_Record = Callable[[Tx, str, str, Actor, int], Awaitable[Payout]]


async def _pay(tx: Tx, payout_id: str, reference: str, actor: Actor, now: int) -> Payout:
    return await payouts.pay(tx, payout_id, reference, actor.reason, actor.who, now)


async def _fail(tx: Tx, payout_id: str, _reference: str, actor: Actor, now: int) -> Payout:
    return await payouts.fail(tx, payout_id, actor.reason, actor.who, now)


async def _return(tx: Tx, payout_id: str, _reference: str, actor: Actor, now: int) -> Payout:
    return await payouts.record_return(tx, payout_id, actor.reason, actor.who, now)


_RECORDS: Final[Mapping[str, _Record]] = {"paid": _pay, "failed": _fail, "returned": _return}


async def record(request: PageRequest) -> Response:
    """Record how a transfer ended; the same form again finds it ended. Raises NotFound."""
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    event = form.get("event", "")
    apply = _RECORDS.get(event)
    if apply is None:
        return await _page(request, 400)
    payout_id, now = request.ids["payout"], request.now
    actor = people.actor_of(request.login, typed["reason"])
    if not typed["reason"]:
        return await _page(request, 400, event, {"reason": "payout_error_reason"}, typed)
    try:
        await request.app.db.run(lambda tx: apply(tx, payout_id, typed["reference"], actor, now))
    except Invalid as problem:
        field = _FIELD_OF.get(str(problem.field), "payout")
        error = {field: f"payout_error_{field}"}
        return await _page(request, 400, event, error, typed)
    return render.see_other(request, f"{request.path}?done={event}")


PLACE: Final = f"{OF_CONSOLE}/payout/{{payout:id}}"
pages: Final = (
    Page("GET", PLACE, "payouts.read", show),
    Page("POST", PLACE, "payouts.manage", record),
)
