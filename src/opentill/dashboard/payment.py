"""The page of a payment: its facts, timeline and forms."""

from functools import partial
from typing import Any, Final

from starlette.responses import Response

from opentill import checkouts, merchants, orders, payouts, people, refunds, webhooks
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES
from opentill.dashboard import listed_payments, page_helpers, payment_refund, sessions_again
from opentill.dashboard.labels import PAYOUT_STATUS
from opentill.dashboard.listed_payments import Listed
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.portal import form_ids, notes, payment_details, payment_facts, refund_form, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.portal.unpaid import ENDED_BY_MERCHANT
from opentill.web import refund_failures
from opentill.web.translations import N_

_REASON: Final = "on the page of a payment"
_LONGEST_REASON: Final = 255  # characters
_MOST_OTHERS: Final = 4  # other payments of the customer


async def show(request: PageRequest) -> Response:
    """Show a payment with its timeline."""
    return await _render_payment(request)


async def _render_payment(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    note: str = "",
    how: str = "",
) -> Response:
    values = await _read_values(request)
    return render.page(
        request, "payment.html", status, **values, errors=errors or {}, note=note, how=how
    )


async def _read_values(request: PageRequest) -> dict[str, Any]:
    """Return the values of the page without ``errors``, ``note`` and ``how``."""
    payment = await payment_details.read(request.app, request.access, request.ids["order"])
    order = payment.order
    payout = None
    if order.settled_at is not None and request.access.may("payouts.read"):
        async with request.app.db.connection() as tx:
            payout = await payouts.find_first_since(
                tx, order.merchant_id, order.settled_currency, order.settled_at
            )
    refund_id, may_resend = request.query.get("refund"), request.access.may("events.resend")
    return {
        **payment_facts.template_values(payment, request.localizer, request.now),
        "resend_to": request.link("payments", payment.order.id, "resend") if may_resend else "",
        "refund": next((refund for refund in payment.refunds if refund.id == refund_id), None),
        "link": sessions_again.payment_page(request, payment.session) if payment.is_open else "",
        "again": await sessions_again.form_of(request, payment.order, payment.unpaid),
        "longest_note": LONGEST_NOTE,
        "most_notes": MOST_NOTES,
        "form_id": form_ids.new_form_id,
        "payout": payout
        and (
            payout,
            Money(payout.amount_minor, payout.currency),
            request.localizer.gettext(PAYOUT_STATUS[payout.status]),
        ),
        "is_next_payout": payout is None and request.access.may("payouts.read"),
        "others": await _other_payments(request, order),
        "failed_refunds": [
            (
                one,
                refund_failures.text_of(one.error_message or "", request.localizer.language),
                refund_form.query_to_repeat(one, payment.order),
                f"how-{one.id}",
            )
            for one in payment.refunds
            if one.needs_attention
        ],
    }


async def _other_payments(request: PageRequest, order: Order) -> list[tuple[Listed, Money]]:
    """Return the newest other payments of the customer, as far as the person may see customers."""
    if not order.customer_email or not request.access.may("customers.read"):
        return []
    newest = await orders.newest_of_customer(
        request.app.replica.reading(), order.merchant_id, order.customer_email, _MOST_OTHERS + 1
    )
    others = [other for other in newest if other.id != order.id][:_MOST_OTHERS]
    return [
        (listed, Money(listed.order.amount_minor, listed.order.currency))
        for listed in await listed_payments.read(request, others)
    ]


async def _values_behind(request: PageRequest) -> dict[str, Any]:
    """Return the template's values for the page that is shown behind the dialog of a refund."""
    return {**await _read_values(request), "note": "", "how": ""}


async def expire(request: PageRequest) -> Response:
    """Expire the session of a payment that is still unpaid."""
    merchant_id = request.merchant_id
    actor = people.actor_of(request.login, _REASON)
    cause = ENDED_BY_MERCHANT

    async def close(tx: Tx) -> None:
        order = await orders.find(tx, merchant_id, request.ids["order"])
        await checkouts.expire(tx, merchant_id, order.checkout_id, cause, request.now, actor=actor)

    try:
        await request.app.db.run(close)
    except Invalid:
        return await _render_payment(
            request,
            409,
            {
                "close": N_(
                    "This payment cannot be canceled: it was paid, or a payment of "
                    "it is on its way. Look at it again in a moment"
                )
            },
        )
    return _redirect_to_payment(request, "?done=canceled")


async def resend(request: PageRequest) -> Response:
    """Send an event of the payment to one endpoint again.

    A form that is older than the last attempt sends nothing, since the page shows a new result.
    """
    form, app, merchant_id = await request.form(), request.app, request.merchant_id
    event_id, endpoint_id = form.get("event", ""), form.get("endpoint", "")
    payment = await payment_details.read(app, request.access, request.ids["order"])
    if event_id not in {event.id for event in payment.events}:
        raise NotFound
    await page_helpers.limit_resends(request)

    async def send(tx: Tx) -> bool:
        deliveries = await webhooks.find_deliveries_of(tx, merchant_id, [event_id])
        attempts = sum(row.attempts for row in deliveries if row.endpoint_id == endpoint_id)
        if str(attempts) != form.get("attempts"):
            return False
        await webhooks.resend(tx, merchant_id, endpoint_id, event_id, request.now)
        return True

    try:
        is_resent = await app.db.run(send)
    except Invalid:  # the endpoint has been disabled meanwhile
        return await _render_payment(
            request,
            409,
            {event_id: N_("This endpoint is disabled. Enable it first, then send the event again")},
        )
    return _redirect_to_payment(request, f"?resent={is_resent:d}#{event_id}")


async def add_note(request: PageRequest) -> Response:
    """Add a note. Idempotent."""
    form, order_id = await request.form(), request.ids["order"]
    text, actor = form.get("note", ""), people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, order_id)
        await merchants.record_audit(tx, actor, "orders note", *ids, request.now)
        await orders.add_note(tx, *ids, text, actor.who, request.now, by_merchant=True)
        return order_id

    if refusal := await notes.add_once(request, work):
        status, error = refusal
        return await _render_payment(request, status, {"note": error}, note=text)
    return _redirect_to_payment(request, "?noted=1#timeline")


async def mark_refund_handled(request: PageRequest) -> Response:
    """Mark a failed refund as handled. Raises NotFound.

    Sending the same form again has no effect.
    """
    form, order_id, refund_id = await request.form(), request.ids["order"], request.ids["refund"]
    how = form.get("how", "").strip()
    if not 0 < len(how) <= _LONGEST_REASON:
        errors = {f"how-{refund_id}": N_("Describe how it was handled, in at most 255 characters")}
        return await _render_payment(request, 400, errors, how=how)
    actor = people.actor_of(request.login, how)

    async def work(tx: Tx) -> str:
        await merchants.record_audit(
            tx, actor, "refunds handled", request.merchant_id, refund_id, request.now
        )
        refund = await refunds.mark_handled(
            tx, request.merchant_id, refund_id, who=actor.who, how=how, now=request.now
        )
        if refund.order_id != order_id:
            raise NotFound
        return order_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused):  # somebody has handled it, or another refund has succeeded
        return _redirect_to_payment(request)
    return _redirect_to_payment(request, "?handled=1")


def _redirect_to_payment(request: PageRequest, suffix: str = "") -> Response:
    return page_helpers.redirect(request, "payments", request.ids["order"] + suffix)


_PLACE: Final = f"{DASHBOARD_PATH}/payments/{{order:id}}"
pages: Final = (
    Page("GET", _PLACE, "payments.read", show),
    Page(
        "GET",
        f"{_PLACE}/refund",
        "payments.read",
        partial(payment_refund.show, behind=_values_behind),
    ),
    Page(
        "POST",
        f"{_PLACE}/refund",
        "payments.refund",
        partial(payment_refund.create, behind=_values_behind),
        fields=(*refund_form.FIELDS, "why"),
    ),
    Page("POST", f"{_PLACE}/expire", "sessions.write", expire),
    Page(
        "POST",
        f"{_PLACE}/resend",
        "events.resend",
        resend,
        fields=("event", "endpoint", "attempts"),
    ),
    Page(
        "POST",
        f"{_PLACE}/refunds/{{refund:id}}/handled",
        "payments.refund",
        mark_refund_handled,
        fields=("how",),
    ),
    Page("POST", f"{_PLACE}/notes", "payments.note", add_note, fields=("note",)),
)
