"""One payment: what it is, all that happened to it, its receipt, and what can be done with it."""

from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import checkouts, merchants, orders, people, webhooks
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.dashboard import payment_refund
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.portal import form_ids, payment_details, payment_facts, render
from opentill.portal.labels import PAYMENT_METHOD
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.payment_details import amounts
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_REASON: Final = "on the page of a payment"


async def show(request: PageRequest) -> Response:
    """Show a payment: its facts and its timeline."""
    return await _payment(request)


async def _payment(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    note: str = "",
) -> Response:
    found = await payment_details.read(request.app, request.access, request.ids["order"])
    asked, resends = request.query.get("refund"), request.access.may("events.resend")
    return render.page(
        request,
        "payment.html",
        status,
        **payment_facts.template_values(found, request.localizer),
        resend_to=request.link("payments", found.order.id, "resend") if resends else "",
        refund=next((one for one in found.refunds if one.id == asked), None),
        errors=errors or {},
        note=note,
        longest_note=LONGEST_NOTE,
        most_notes=MOST_NOTES,
        form_id=form_ids.new_form_id(),
    )


async def receipt(request: PageRequest) -> Response:
    """Show what the customer paid, to be printed. Not of an order that nobody has paid."""
    found = await payment_details.read(request.app, request.access, request.ids["order"])
    order = found.order
    if order.paid_at is None:
        raise NotFound
    localizer = request.localizer
    done = [one for one in reversed(found.refunds) if one.status == "SUCCEEDED"]
    return render.page(
        request,
        "payment_receipt.html",
        form_id=form_ids.new_form_id(),
        payment=found,
        order=order,
        zone=found.zone,
        amount=amounts(localizer),
        refunds=done,
        earlier=order.refunded_minor - sum(one.amount_minor for one in done),
        kept=order.amount_minor - order.refunded_minor,
        method=localizer.gettext(PAYMENT_METHOD[order.payment_method])
        if order.payment_method
        else Markup(),
        card=found.card,
    )


async def expire(request: PageRequest) -> Response:
    """Close a payment that nobody has paid yet: its session can no longer be paid."""
    merchant_id = request.merchant_id
    actor = people.actor_of(request.login, _REASON)
    cause = f"ended by {request.login.email}"

    async def close(tx: Tx) -> None:
        order = await orders.find(tx, merchant_id, request.ids["order"])
        await checkouts.expire(tx, merchant_id, order.checkout_id, cause, request.now, actor=actor)

    try:
        await request.app.db.run(close)
    except Invalid:
        return await _payment(
            request,
            409,
            {
                "close": N_(
                    "This payment cannot be closed: it was paid, or a payment of "
                    "it is on its way. Look at it again in a moment"
                )
            },
        )
    return _back(request)


async def resend(request: PageRequest) -> Response:
    """Send an event of the payment again, to one endpoint.

    A form from before the last attempt sends nothing: what came of that is on the page.
    """
    form, app, merchant_id = await request.form(), request.app, request.merchant_id
    event_id, endpoint_id = form.get("event", ""), form.get("endpoint", "")
    found = await payment_details.read(request.app, request.access, request.ids["order"])
    if event_id not in {one.id for one in found.events}:
        raise NotFound
    await rate_limits.hit_merchant(app.db, app.settings, "resends", merchant_id, request.now)

    async def send(tx: Tx) -> bool:
        deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [event_id])
        attempts = sum(one.attempts for one in deliveries if one.endpoint_id == endpoint_id)
        if str(attempts) != form.get("attempts"):
            return False
        await webhooks.resend(tx, merchant_id, endpoint_id, event_id, request.now)
        return True

    try:
        sent = await app.db.run(send)
    except Invalid:  # it has been disabled since
        return await _payment(
            request,
            409,
            {event_id: N_("This endpoint is disabled. Enable it first, then send the event again")},
        )
    return _back(request, f"?resent={'1' if sent else '0'}#{event_id}")


async def add_note(request: PageRequest) -> Response:
    """Add a note, once however often the form is sent."""
    form, order_id = await request.form(), request.ids["order"]
    text, actor = form.get("note", ""), people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, order_id)
        await merchants.record_audit(tx, actor, "orders note", *ids, request.now)
        await orders.add_note(tx, *ids, text, actor.who, request.now, by_merchant=True)
        return order_id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return await _payment(
            request,
            422,
            {
                "note": N_(
                    "This form was sent before, with other entries, and has done "
                    "its work. Send it again if you want another one"
                )
            },
            note=text,
        )
    except NotesFull:
        return await _payment(
            request,
            409,
            {"note": N_("There are as many notes as there may be, so this one was not added")},
            note=text,
        )
    except Invalid:
        return await _payment(
            request,
            400,
            {"note": N_("Enter plain text of 1 to 5,000 characters")},
            note=text,
        )
    return _back(request, "?noted=1")


def _back(request: PageRequest, more: str = "") -> Response:
    path = f"/dashboard/{request.merchant_id}/payments/{request.ids['order']}{more}"
    return render.see_other(request, path)


_PLACE: Final = f"{DASHBOARD_PATH}/payments/{{order:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show),
    Page("GET", f"{_PLACE}/receipt", "payments.read", receipt),
    Page("GET", f"{_PLACE}/refund", "payments.read", payment_refund.show),
    Page("POST", f"{_PLACE}/refund", "payments.refund", payment_refund.create),
    Page("POST", f"{_PLACE}/expire", "sessions.write", expire),
    Page("POST", f"{_PLACE}/resend", "events.resend", resend),
    Page("POST", f"{_PLACE}/notes", "payments.note", add_note),
)
