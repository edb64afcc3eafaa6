"""The page of a payment of any merchant: the merchant's view of it, and the actions of staff."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, payouts, people, webhooks
from opentill.approvals import WaitingAction
from opentill.console import payment_actions, payment_refund, proof_facts, routes
from opentill.console.labels import GIVE_A_REASON_255, PAYMENT_ACTION
from opentill.console.payment_actions import ACTIONS, Action, ActionCall
from opentill.console.payments import PLACE
from opentill.console.payout_labels import PAYOUT_STATUS
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.payouts import Payout
from opentill.people import command_permission
from opentill.portal import form_ids, notes, payment_details, payment_facts, refund_form, render
from opentill.portal.labels import ORDER_STATUS
from opentill.portal.model import Page
from opentill.portal.payment_details import Payment
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255
_RESEND_REASON: Final = "on the page of a payment"


class FormInput(msgspec.Struct, frozen=True):
    """The input of one form of the page, and its error texts by field."""

    form: str = ""  # the anchor of the form; "" if none was sent
    reason: str = ""
    amount: str = ""
    note: str = ""
    errors: Mapping[str, str] = {}
    wait: str = ""  # the value of {wait} in an error text


class _Stale(Exception):
    """The payment has changed since the form was shown."""


async def show_payment(request: PageRequest) -> Response:
    """Show a payment. Raises NotFound."""
    return await _page(request)


async def _merchant_of(request: PageRequest) -> str:
    """Return the id of the merchant of the order in the path. Raises NotFound."""
    async with request.app.db.connection() as tx:
        return (await orders.find_anywhere(tx, request.ids["order"])).merchant_id


async def _read(request: PageRequest) -> Payment:
    """Read the payment in the path and record the visit in the audit log. Raises NotFound."""
    app, order_id, merchant_id = request.app, request.ids["order"], await _merchant_of(request)
    access = await people.visit(app.db, request.login, merchant_id, request.now)
    return await payment_details.read(app, access, order_id, ZONE)


async def _page(
    request: PageRequest, status: int = 200, form_input: FormInput | None = None
) -> Response:
    return render.page(request, "payment.html", status, **await _values(request, form_input))


async def _values(request: PageRequest, form_input: FormInput | None = None) -> dict[str, Any]:
    """Return the values of the page, and record the visit in the audit log. Raises NotFound."""
    payment = await _read(request)
    form_input = form_input or FormInput()
    manages = request.may("orders.manage")
    offers = [
        offer
        for offer in payment_actions.list_offers(payment, request.app.gateways)
        if request.may(offer.action.permission)
    ]
    who = people.actor_of(request.login, "").who
    async with request.app.db.connection() as tx:
        waiting = await payment_actions.list_waiting(
            tx, payment.order, offers, (who, request.app.settings, request.now)
        )
        payout = await _find_payout(tx, request, payment.order)
    return {
        **payment_facts.template_values(
            payment,
            request.localizer,
            request.now,
            partial(routes.attempt_facts, request),
            for_staff=True,
        ),
        "merchant": payment.merchant,
        "payout": payout
        and (
            payout,
            Money(payout.amount_minor, payout.currency),
            request.localizer.gettext(PAYOUT_STATUS[payout.status]),
        ),
        "is_next_payout": payout is None and request.may("payouts.read"),
        "resend_to": request.console("payments", payment.order.id, "resend") if manages else "",
        "manages": manages,
        "offers": offers,
        "waiting": waiting,
        "repeat_refund": partial(refund_form.query_to_repeat, by_staff=True),
        "anchors": [offer.anchor for offer in offers],
        "seen": payment_actions.state_token(payment.order),
        "form_input": form_input,
        "errors": {f"{form_input.form}-{name}": text for name, text in form_input.errors.items()},
        "wait": form_input.wait,
        "action_names": [action.name for action in ACTIONS],
        "form_id": form_ids.new_form_id,
        "longest_note": LONGEST_NOTE,
        "most_notes": MOST_NOTES,
    }


async def _find_payout(tx: Tx, request: PageRequest, order: Order) -> Payout | None:
    """Return the payout that sent the money of a settled payment, None if there is none yet."""
    if order.settled_at is None or not request.may("payouts.read"):
        return None
    return await payouts.find_first_since(
        tx, order.merchant_id, order.settled_currency, order.settled_at
    )


async def perform_action(request: PageRequest, action: Action) -> Response:
    """Perform an action, unless the payment has changed since it was shown.

    Sending the same form again has no effect.
    """
    form, order_id = await request.form(), request.ids["order"]
    merchant_id = await _merchant_of(request)
    reason, subject = form.get("reason", "").strip(), form.get("subject", "")
    form_input = FormInput(
        form=f"{action.name}-{subject}" if subject else action.name,
        reason=reason,
        amount=form.get("amount", ""),
    )
    if not 0 < len(reason) <= _LONGEST_REASON:
        errors = {"reason": GIVE_A_REASON_255}
        return await _page(request, 400, msgspec.structs.replace(form_input, errors=errors))
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        # Take the locks in this order: merchant, audit log, order.
        await merchants.lock(tx, merchant_id)
        await merchants.lock_audit_log(tx)
        order = await orders.lock(tx, merchant_id, order_id)
        if payment_actions.state_token(order) != form.get("seen"):
            raise _Stale
        call = ActionCall(request.app.settings, order, form, actor, request.now)
        result = await action.apply(tx, call)
        return result.id if isinstance(result, WaitingAction) else order_id

    try:
        result_id = await form_ids.run_once(request, work)
    except (_Stale, KeyReused):
        return await _show_stale(request, form, form_input)
    except Invalid as problem:
        if problem.field != "amount":
            return await _show_stale(request, form, form_input)
        errors = {"amount": N_("Enter an amount that is not more than what is left")}
        return await _page(request, 400, msgspec.structs.replace(form_input, errors=errors))
    return _redirect(
        request, f"?done={action.name}" if result_id == order_id else f"?waits={result_id}"
    )


async def _show_stale(
    request: PageRequest, form: Mapping[str, str], form_input: FormInput
) -> Response:
    """Show the form again with its input, and the payment's status then and now."""
    async with request.app.db.connection() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
    shown_status = payment_actions.status_of_token(form.get("seen", ""))
    statuses: list[orders.Status] = [order.status]
    if shown_status is not None:
        statuses.insert(0, shown_status)
    wait = " → ".join(str(request.localizer.gettext(ORDER_STATUS[status])) for status in statuses)
    errors = {
        "reason": N_(
            "The payment has changed since this was shown ({wait}), or "
            "this form was used already. Nothing was done by it. Look at "
            "the payment, then send it again"
        )
    }
    form_input = msgspec.structs.replace(form_input, errors=errors, wait=wait)
    return await _page(request, 409, form_input)


async def resend_event(request: PageRequest) -> Response:
    """Send an event of the payment to an endpoint again, unless it was attempted meanwhile."""
    form, payment = await request.form(), await _read(request)
    merchant_id, event_id = payment.order.merchant_id, form.get("event", "")
    endpoint_id, actor = form.get("endpoint", ""), people.actor_of(request.login, _RESEND_REASON)
    if event_id not in {event.id for event in payment.events}:
        raise NotFound

    async def send(tx: Tx) -> bool:
        deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [event_id])
        attempts = sum(d.attempts for d in deliveries if d.endpoint_id == endpoint_id)
        if str(attempts) != form.get("attempts"):
            return False
        await webhooks.resend(tx, merchant_id, endpoint_id, event_id, request.now)
        await merchants.record_audit(
            tx, actor, "webhooks resend", merchant_id, f"{event_id} to {endpoint_id}", request.now
        )
        return True

    try:
        is_sent = await request.app.db.run(send)
    except Invalid:
        error = N_("This endpoint is disabled. Enable it first, then send the event again")
        return await _page(request, 409, FormInput(form=event_id, errors={"endpoint": error}))
    return _redirect(request, f"?resent={'1' if is_sent else '0'}#{event_id}")


async def add_note(request: PageRequest) -> Response:
    """Add a note, which the merchant's team can read.

    Sending the same form again has no effect.
    """
    form = await request.form()
    text = form.get("note", "")
    ids = (await _merchant_of(request), request.ids["order"])
    actor = notes.author(request, text)

    async def work(tx: Tx) -> str:
        await orders.add_note(tx, *ids, text, actor.who, request.now)
        await merchants.record_audit(tx, actor, "orders note", *ids, request.now)
        return ids[1]

    if refusal := await notes.add_once(request, work):
        status, error = refusal
        form_input = FormInput(form="note", note=text, errors={"note": error})
        return await _page(request, status, form_input)
    return _redirect(request, "?done=note")


def _redirect(request: PageRequest, suffix: str) -> Response:
    return render.see_other(request, f"{PLACE}/{request.ids['order']}{suffix}")


_PLACE: Final = f"{PLACE}/{{order:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show_payment),
    Page("GET", f"{_PLACE}/refund", "payments.read",
         partial(payment_refund.show_refund_form, behind=_values)),
    Page("POST", f"{_PLACE}/refund", command_permission("orders refund"),
         partial(payment_refund.create_refund, behind=_values), fields=refund_form.FIELDS,
         rehearsed=True, about=proof_facts.of_payment),
    Page("POST", f"{_PLACE}/resend", command_permission("webhooks resend"), resend_event,
         fields=("event", "endpoint", "attempts")),
    Page("POST", f"{_PLACE}/notes", command_permission("orders note"), add_note,
         fields=("note",)),
    *(
        Page(
            "POST", f"{_PLACE}/{action.name}", action.permission,
            partial(perform_action, action=action), fields=("seen", "reason"),
            proves=PAYMENT_ACTION[action.name], rehearsed=True, about=proof_facts.of_payment,
        )
        for action in ACTIONS
    ),
)  # fmt: skip
