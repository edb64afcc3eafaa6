"""The page of a payout of any merchant, with forms that record the result of its transfer."""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from opentill import approvals, figures, merchants, payouts, people
from opentill.approvals import ActionRequest, Rules, WaitingAction
from opentill.approvals.model import Action
from opentill.console import proof_facts
from opentill.console.labels import GIVE_A_REASON
from opentill.console.payout_labels import PAYOUT_ERROR
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.payouts import Payout, Status
from opentill.portal import lists, payout_items, render
from opentill.portal.lists import Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.payout_items import Reader, Row
from opentill.portal.request import PageRequest
from opentill.web import forms
from opentill.web.translations import N_

_FIELDS: Final = ("reference", "reason")
# The events that staff can record of a payout with a status, in the order of their forms.
_EVENTS: Final[Mapping[Status, tuple[str, ...]]] = {
    "PENDING": ("paid", "failed"),
    "PAID": ("returned",),
    "FAILED": (),
}
# Maps the field of a refusal to a field of the form; all other refusals are about the payout.
_FIELD_OF: Final = {"bank-reference": "reference", "reason": "reason"}


async def show_payout(request: PageRequest) -> Response:
    """Show a payout. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    event: str = "",
    errors: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> Response:
    number = lists.page_number(request)
    async with request.app.db.snapshot() as tx:
        payout = await payouts.find_anywhere(tx, request.ids["payout"])
        merchant = await merchants.find(tx, payout.merchant_id)
        waits = await approvals.will_wait(
            tx, merchant.id, people.actor_of(request.login, "").who,
            (payout.amount_minor + payout.fee_minor, payout.currency),
            Rules.from_settings(request.app.settings), request.now,
        )  # fmt: skip
        runs = await payouts.find_runs_of_payouts(tx, [payout])
        account = await payouts.find_account(tx, merchant.id)
        contents = await figures.find_payout_contents(tx, merchant.id, payout.id)
        rows: list[Row] = []
        if contents is not None and contents.sums is not None:
            items = await figures.list_payout_items(tx, merchant.id, contents, number, lists.SIZE)
            reader = Reader(request.localizer, request.may)
            rows = await payout_items.rows(tx, merchant.id, payout.currency, items, reader)

    def write_amount(minor: int) -> str:
        return request.localizer.amount(Money(minor, payout.currency))

    return render.page(
        request,
        "payout_transfer.html",
        status,
        payout=payout,
        merchant=merchant,
        # The account may have been replaced since: then it is not the one that the payout went to.
        account=account if account and account.created_at <= payout.created_at else None,
        run=runs.get((merchant.id, payout.id)),
        amount=write_amount(payout.amount_minor),
        fee=write_amount(payout.fee_minor),
        total=write_amount(payout.amount_minor + payout.fee_minor),
        contents=contents,
        breakdown=payout_items.breakdown(contents, payout, write_amount) if contents else [],
        pager=Pager(number, contents.items if contents else 0),
        rows=rows,
        events=_EVENTS[payout.status] if request.may("payouts.manage") else (),
        waiting_events=tuple(_ACTIONS) if waits else (),
        event=event,
        errors={f"{event}-{name}": text for name, text in (errors or {}).items()},
        values={name: (values or {}).get(name, "") for name in _FIELDS},
        zone=ZONE,
    )


async def _apply_event(
    tx: Tx, request: PageRequest, event: str, reference: str, actor: Actor
) -> Payout | WaitingAction:
    payout_id, now = request.ids["payout"], request.now
    action = _ACTIONS.get(event)
    if action is None:
        return await payouts.pay(tx, payout_id, reference, actor.reason, actor.who, now)
    merchant_id = (await payouts.find_anywhere(tx, payout_id)).merchant_id
    action_request = ActionRequest(
        action=action, merchant_id=merchant_id, subject=payout_id, actor=actor
    )
    result = await approvals.perform(
        tx, action_request, Rules.from_settings(request.app.settings), now
    )
    if not isinstance(result, (Payout, WaitingAction)):
        raise TypeError  # actions of payouts return nothing else
    return result


# These events put money back on the merchant's balance: above the limit they need a second person.
_ACTIONS: Final[Mapping[str, Action]] = {"failed": "payout-failed", "returned": "payout-returned"}


async def record_result(request: PageRequest) -> Response:
    """Record the result of a payout's transfer. Raises NotFound.

    The same form sent again is refused, since the payout has another status by then.
    """
    form = await request.form()
    values = {name: form.get(name, "").strip() for name in _FIELDS}
    event = form.get("event", "")
    if event == "paid":
        forms.require_fields(form, ("reference",))
    elif event not in _ACTIONS:
        return await _page(request, 400)
    actor = people.actor_of(request.login, values["reason"])
    if not values["reason"]:
        return await _page(request, 400, event, {"reason": GIVE_A_REASON}, values)
    try:
        result = await request.transact(
            lambda tx: _apply_event(tx, request, event, values["reference"], actor)
        )
    except Invalid as problem:
        field = _FIELD_OF.get(str(problem.field), "payout")
        return await _page(request, 400, event, {field: PAYOUT_ERROR[field]}, values)
    state = "waits" if isinstance(result, WaitingAction) else "done"
    return render.see_other(request, f"{request.path}?{state}={event}")


async def redirect_old_link(request: PageRequest) -> Response:
    """Redirect from the former address of the page, which old messages and bookmarks have."""
    return render.see_other(request, f"{CONSOLE_PATH}/payouts/{request.ids['payout']}")


PLACE: Final = f"{CONSOLE_PATH}/payouts/{{payout:id}}"
pages: Final = (
    Page("GET", f"{CONSOLE_PATH}/payout/{{payout:id}}", "payouts.read", redirect_old_link),
    Page("GET", PLACE, "payouts.read", show_payout),
    Page(
        "POST",
        PLACE,
        "payouts.manage",
        record_result,
        fields=("event", "reason"),
        proves=N_("Record the result of a payout"),
        rehearsed=True,
        about=proof_facts.of_payout,
    ),
)
