"""The dialog in which a merchant refunds a payment, above the page of the payment."""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Final

from starlette.responses import Response

from opentill import merchants, orders, people, refunds
from opentill.core import money
from opentill.core.errors import Conflict, Invalid, KeyReused, NotPermitted, Unavailable
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.portal import form_ids, identity_proof, refund_form, render
from opentill.portal.refund_form import Refusal
from opentill.portal.request import PageRequest
from opentill.refunds import RefundBody

_REASON: Final = "on the page of a refund"
# Returns the template's values for the payment's page, which is shown behind the dialog.
Behind = Callable[[PageRequest], Awaitable[Mapping[str, object]]]


async def show(request: PageRequest, behind: Behind) -> Response:
    """Show the effect of a refund of the query's amount, by default of all that is left."""
    return await _render_dialog(request, behind, request.query.get("amount"))


async def create(request: PageRequest, behind: Behind) -> Response:
    """Refund the confirmed amount.

    Sending the same form again has no effect.
    """
    form, merchant_id = await request.form(), request.merchant_id
    async with request.app.db.connection() as tx:
        order = await _find_order(tx, request)
    amount = refund_form.read_entry(form.get("amount", ""), order)
    refusal = refund_form.check(form, order)
    if refusal is not None:
        return await _render_dialog(request, behind, amount, form, refusal)
    if _needs_proof(request, order, amount):
        response = await identity_proof.require(request, "payments.refund")
        if response is not None:
            return response
    actor = people.actor_of(request.login, _REASON)
    body = RefundBody(amount=amount, reason=refund_form.reason_of(form))

    async def work(tx: Tx) -> str:
        # Lock order: the first two calls lock the merchant and the audit log, then comes the order.
        await merchants.require(tx, merchant_id, "refund")
        await merchants.record_audit(tx, actor, "orders refund", merchant_id, order.id, request.now)
        locked = await orders.lock(tx, merchant_id, order.id)
        await refund_form.check_figures(tx, locked, form, request.now)
        refund = await refunds.create(
            tx, merchant_id, order.id, body, request.now, source=locked.source
        )
        return refund.id

    try:
        refund_id = await form_ids.run_once(request, work)
    except (refund_form.Stale, KeyReused, Invalid) as problem:
        refusal = refund_form.refusal_of(request, order, problem)
    except merchants.CapabilityOff:
        refusal = Refusal(403, {})  # the page itself says why
    except (Conflict, Unavailable):
        return refund_form.unknown_page(request, form, _path(order))
    else:
        return render.see_other(request, f"{_path(order)}?refund={refund_id}")
    return await _render_dialog(request, behind, amount, form, refusal)


async def _render_dialog(
    request: PageRequest,
    behind: Behind,
    amount: str | None,
    form: Mapping[str, str] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    async with request.app.db.snapshot() as tx:
        order = await _find_order(tx, request)
        preview = await refund_form.preview(tx, order, amount, request.now)
    frame = refund_form.Frame(
        back=_path(order),
        values=await behind(request),
        may_refund=request.may("payments.refund"),
    )
    return refund_form.page(request, preview, frame, form, refusal)


async def _find_order(tx: Tx, request: PageRequest) -> Order:
    order = await orders.find(tx, request.merchant_id, request.ids["order"])
    if not request.may("payments.refund"):
        raise NotPermitted
    return order


def _path(order: Order) -> str:
    return f"/dashboard/{order.merchant_id}/payments/{order.id}"


def _needs_proof(request: PageRequest, order: Order, amount: str) -> bool:
    """Return whether a refund exceeds the amount above which it needs a step-up."""
    limit = request.app.settings.refund_proof_above
    try:
        minor = money.parse(amount, order.currency)
    except ValueError:
        return False  # the quote refuses an amount that cannot be parsed
    return limit is not None and Decimal(minor).scaleb(-money.exponent(order.currency)) > limit
