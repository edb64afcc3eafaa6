"""One payment of whichever merchant: what the merchant sees of it, and what staff can do to it."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, people, webhooks
from opentill.approvals import WaitingAction
from opentill.console import payment_actions, payment_refund
from opentill.console.payment_actions import ACTIONS, Action, Given
from opentill.console.payments import PLACE
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.db.database import Tx
from opentill.people import command_permission
from opentill.portal import form_ids, payment_details, payment_facts, render
from opentill.portal.labels import ORDER_STATUS
from opentill.portal.model import Page
from opentill.portal.payment_details import Payment
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255
_RESENT: Final = "on the page of a payment"


class Typed(msgspec.Struct, frozen=True):
    """What was typed into one form of the page, by its anchor, and what is wrong with it."""

    form: str = ""
    reason: str = ""
    amount: str = ""
    note: str = ""
    errors: Mapping[str, str] = {}  # a text by field
    wait: str = ""  # a value that a sentence names


class _Stale(Exception):
    """The payment has changed since the form was shown."""


async def show(request: PageRequest) -> Response:
    """Show a payment. Raises NotFound."""
    return await _page(request)


async def _read(request: PageRequest) -> Payment:
    """Read the payment in the path, and note the visit at its merchant. Raises NotFound."""
    app, order_id = request.app, request.ids["order"]
    async with app.db.connection() as tx:
        merchant_id = (await orders.find_anywhere(tx, order_id)).merchant_id
    access = await people.visit(app.db, request.login, merchant_id, request.now)
    return await payment_details.read(app, access, order_id)


async def _page(request: PageRequest, status: int = 200, typed: Typed | None = None) -> Response:
    found = await _read(request)
    shown = typed or Typed()
    manages = request.may("orders.manage")
    offers = [
        one
        for one in payment_actions.offers(found, request.app.settings)
        if request.may(one.action.permission)
    ]
    return render.page(
        request,
        "payment.html",
        status,
        **payment_facts.template_values(found, request.localizer),
        merchant=found.merchant,
        resend_to=request.console("payments", found.order.id, "resend") if manages else "",
        manages=manages,
        offers=offers,
        anchors=[one.anchor for one in offers],
        seen=payment_actions.seen(found.order),
        typed=shown,
        errors={f"{shown.form}-{name}": key for name, key in shown.errors.items()},
        wait=shown.wait,
        done=[one.name for one in ACTIONS],
        form_id=form_ids.new_form_id,
        longest_note=LONGEST_NOTE,
        most_notes=MOST_NOTES,
    )


async def act(request: PageRequest, action: Action) -> Response:
    """Do something to the payment, once for each form, if it still is as the form showed it."""
    form, order_id = await request.form(), request.ids["order"]
    async with request.app.db.connection() as tx:
        merchant_id = (await orders.find_anywhere(tx, order_id)).merchant_id
    reason, subject = form.get("reason", "").strip(), form.get("subject", "")
    typed = Typed(
        form=f"{action.name}-{subject}" if subject else action.name,
        reason=reason,
        amount=form.get("amount", ""),
    )
    if not 0 < len(reason) <= _LONGEST_REASON:
        typed = msgspec.structs.replace(
            typed, errors={"reason": N_("Say why, in 1 to 255 characters")}
        )
        return await _page(request, 400, typed)
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        await merchants.lock(tx, merchant_id)  # this and the next before the order, as everywhere
        await merchants.lock_audit_log(tx)
        order = await orders.lock(tx, merchant_id, order_id)
        if payment_actions.seen(order) != form.get("seen"):
            raise _Stale
        given = Given(request.app.settings, order, form, actor, request.now)
        done = await action.apply(tx, given)
        return done.id if isinstance(done, WaitingAction) else order_id

    try:
        made = await form_ids.run_once(request, work)
    except (_Stale, KeyReused):
        return await _stale(request, form, typed)
    except Invalid as problem:
        if problem.field != "amount":
            return await _stale(request, form, typed)
        typed = msgspec.structs.replace(
            typed, errors={"amount": N_("Enter an amount that is not more than what is left")}
        )
        return await _page(request, 400, typed)
    return _back(request, f"?done={action.name}" if made == order_id else f"?waits={made}")


async def _stale(request: PageRequest, form: Mapping[str, str], typed: Typed) -> Response:
    """Show what the payment was and is, with what was typed."""
    async with request.app.db.connection() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
    known = payment_actions.status_of(form.get("seen", ""))
    statuses = [one for one in (known, order.status) if one]
    wait = " → ".join(str(request.localizer.gettext(ORDER_STATUS[one])) for one in statuses)
    errors = {
        "reason": N_(
            "The payment has changed since this was shown ({wait}), or "
            "this form was used already. Nothing was done by it. Look at "
            "the payment, then send it again"
        )
    }
    return await _page(request, 409, msgspec.structs.replace(typed, errors=errors, wait=wait))


async def resend(request: PageRequest) -> Response:
    """Send an event of the payment again, to one endpoint, unless that was tried meanwhile."""
    form = await request.form()
    found = await _read(request)
    merchant_id, event_id = found.order.merchant_id, form.get("event", "")
    endpoint_id, actor = form.get("endpoint", ""), people.actor_of(request.login, _RESENT)
    if event_id not in {one.id for one in found.events}:
        raise NotFound

    async def send(tx: Tx) -> bool:
        deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [event_id])
        attempts = sum(one.attempts for one in deliveries if one.endpoint_id == endpoint_id)
        if str(attempts) != form.get("attempts"):
            return False
        await webhooks.resend(tx, merchant_id, endpoint_id, event_id, request.now)
        await merchants.record_audit(
            tx, actor, "webhooks resend", merchant_id, f"{event_id} to {endpoint_id}", request.now
        )
        return True

    try:
        sent = await request.app.db.run(send)
    except Invalid:  # it has been disabled since
        typed = Typed(
            form=event_id,
            errors={
                "endpoint": N_(
                    "This endpoint is disabled. Enable it first, then send the event again"
                )
            },
        )
        return await _page(request, 409, typed)
    return _back(request, f"?resent={'1' if sent else '0'}#{event_id}")


async def add_note(request: PageRequest) -> Response:
    """Add a note that the merchant's team reads too, once however often the form is sent."""
    form, order_id = await request.form(), request.ids["order"]
    async with request.app.db.connection() as tx:
        ids = ((await orders.find_anywhere(tx, order_id)).merchant_id, order_id)
    text = form.get("note", "")
    actor = people.actor_of(request.login, text.strip()[:_LONGEST_REASON])

    async def work(tx: Tx) -> str:
        await orders.add_note(tx, *ids, text, actor.who, request.now)
        await merchants.record_audit(tx, actor, "orders note", *ids, request.now)
        return order_id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        status, error = (
            422,
            N_(
                "This form was sent before, with other entries, and has done "
                "its work. Send it again if you want another one"
            ),
        )
    except NotesFull:
        status, error = (
            409,
            N_("There are as many notes as there may be, so this one was not added"),
        )
    except Invalid:
        status, error = 400, N_("Enter plain text of 1 to 5,000 characters")
    else:
        return _back(request, "?done=note")
    return await _page(request, status, Typed(form="note", note=text, errors={"note": error}))


def _back(request: PageRequest, more: str) -> Response:
    return render.see_other(request, f"{PLACE}/{request.ids['order']}{more}")


_PLACE: Final = f"{PLACE}/{{order:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show),
    Page("GET", f"{_PLACE}/refund", "payments.read", payment_refund.show),
    Page("POST", f"{_PLACE}/refund", command_permission("orders refund"), payment_refund.create),
    Page("POST", f"{_PLACE}/resend", command_permission("webhooks resend"), resend),
    Page("POST", f"{_PLACE}/notes", command_permission("orders note"), add_note),
    *(
        Page("POST", f"{_PLACE}/{one.name}", one.permission, partial(act, action=one))
        for one in ACTIONS
    ),
)
