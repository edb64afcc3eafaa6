"""Refunding a payment as staff, by the shared form (``portal/refund_form.py``).

Unlike members, staff give a reason for the audit log, and may override the merchant's capability
to refund if it is switched off.
"""

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from opentill import approvals, merchants, orders, people
from opentill.console.payments import PLACE
from opentill.core.errors import Conflict, Invalid, KeyReused, Unavailable
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.portal import form_ids, refund_form, render
from opentill.portal.refund_form import Refusal
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# Reads the payment, records the visit in the audit log, and returns the template's values for the
# payment's page, which is shown behind the dialog.
Behind = Callable[[PageRequest], Awaitable[Mapping[str, object]]]


async def show_refund_form(request: PageRequest, behind: Behind) -> Response:
    """Show the form, and record the visit in the audit log. Raises NotFound."""
    return await _page(request, behind, request.query.get("amount"))


async def create_refund(request: PageRequest, behind: Behind) -> Response:
    """Refund the confirmed amount, or ask a second person to approve it.

    Sending the same form again has no effect.
    """
    form, order = await request.form(), await _find_order(request)
    amount = refund_form.read_entry(form.get("amount", ""), order)
    merchant_id = order.merchant_id
    refusal = refund_form.check(form, order, reason_required=True)
    if refusal is not None:
        return await _page(request, behind, amount, form, refusal)
    action_request = approvals.ActionRequest(
        action="refund",
        merchant_id=merchant_id,
        subject=order.id,
        actor=people.actor_of(request.login, form.get("reason", "").strip()),
        refund=approvals.RefundDetails(amount=amount, forced=form.get("force") == "yes"),
    )
    rules = approvals.Rules.from_settings(request.app.settings)

    async def work(tx: Tx) -> str:
        # Locks are taken in this order: merchant, audit log, order.
        await merchants.lock(tx, merchant_id)
        await merchants.lock_audit_log(tx)
        locked = await orders.lock(tx, merchant_id, order.id)
        await refund_form.check_figures(tx, locked, form, request.now)
        return (await approvals.perform(tx, action_request, rules, request.now)).id

    try:
        result_id = await form_ids.run_once(request, work)
    except (refund_form.Stale, KeyReused, Invalid) as problem:
        refusal = refund_form.refusal_of(request, order, problem)
    except merchants.CapabilityOff:
        refusal = Refusal(
            403, {"force": N_("Refunds are switched off. Confirm that you refund all the same")}
        )
    except (Conflict, Unavailable):
        return refund_form.unknown_page(request, form, _path(order), by_staff=True)
    else:
        waits = result_id.startswith("areq_")
        result = f"?waits={result_id}" if waits else "?done=refund"
        return render.see_other(request, _path(order) + result)
    return await _page(request, behind, amount, form, refusal)


async def _page(
    request: PageRequest,
    behind: Behind,
    amount: str | None,
    form: Mapping[str, str] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    async with request.app.db.snapshot() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
        preview = await refund_form.preview(tx, order, amount, request.now)
        waits = preview.quote is not None and await approvals.will_wait(
            tx, order.merchant_id, people.actor_of(request.login, "").who,
            (orders.settled_share(order, preview.quote.amount_minor), order.settled_currency),
            approvals.Rules.from_settings(request.app.settings), request.now,
        )  # fmt: skip
    frame = refund_form.Frame(
        back=_path(order),
        values=await behind(request),
        may_refund=request.may("orders.refund"),
        by_staff=True,
        waits=waits,
    )
    return refund_form.page(request, preview, frame, form, refusal)


async def _find_order(request: PageRequest) -> Order:
    async with request.app.db.connection() as tx:
        return await orders.find_anywhere(tx, request.ids["order"])


def _path(order: Order) -> str:
    return f"{PLACE}/{order.id}"
