"""Refunding a payment as the operator: what that moves, then, once it is confirmed, the refund.

As on the merchant's page, but with a reason, for the audit log; and where the merchant's refunds
are switched off, only if that is overridden in so many words.
"""

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from opentill import merchants, orders, people, refunds
from opentill.backoffice import once, render
from opentill.backoffice import payment_refunding as refunding
from opentill.backoffice.payment_reading import amounts
from opentill.backoffice.payment_refunding import Refused
from opentill.backoffice.request import PageRequest
from opentill.console.payments import PLACE
from opentill.core.errors import Conflict, Invalid, KeyReused, Unavailable
from opentill.db.database import Tx
from opentill.orders import Order
from opentill.refunds import RefundBody

_KEPT: Final = ("reason", "confirm", "force")
# What is said otherwise than to the merchant.
_SAID: Final = {
    "error_refund_balance": "payment_error_balance",
    "error_refund_rate": "payment_error_rate",
}
_FINE: Final = Refused(200, {})


class _Stale(Exception):
    """The refund would not move what was shown any more."""


async def show(request: PageRequest) -> Response:
    """Ask how much to refund and, once that is in the address, show what it would move."""
    return await _form(request, request.query.get("amount"), {}, _FINE)


async def _form(
    request: PageRequest, amount: str | None, typed: Mapping[str, str], refused: Refused
) -> Response:
    quote = None
    async with request.app.db.snapshot() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
        merchant = await merchants.find(tx, order.merchant_id)
        if amount is not None:
            try:
                quote = await refunding.quote(tx, order, amount, request.now)
            except Invalid as problem:
                refused = refunding.refused(request, order, problem)
    await people.visit(request.app.db, request.login, order.merchant_id, request.now)
    left = order.amount_minor - order.refund_held_minor
    return render.page(
        request,
        "payment_refund.html",
        refused.status,
        merchant=merchant,
        order=order,
        quote=quote,
        seen="" if quote is None else refunding.seen(quote),
        left=left if order.status in refunds.REFUNDABLE else 0,
        form_id=once.new_form_id(),
        asked=refunding.text(left, order.currency) if amount is None else amount,
        exact="" if quote is None else refunding.text(quote.amount_minor, order.currency),
        typed={name: typed.get(name, "") for name in _KEPT},
        amount=amounts(request.localizer),
        manages=request.may("orders.manage"),
        errors={field: _SAID.get(key, key) for field, key in refused.errors.items()},
        wait=refused.amount,
    )


async def create(request: PageRequest) -> Response:
    """Refund what was shown, once it is confirmed; the same form again leads to the same refund."""
    form = await request.form()
    async with request.app.db.connection() as tx:
        order = await orders.find_anywhere(tx, request.ids["order"])
        merchant = await merchants.find(tx, order.merchant_id)
    amount, reason = form.get("amount", ""), form.get("reason", "").strip()
    forced = form.get("force") == "yes"
    refused = _unconfirmed(form, order, merchant, forced=forced)
    if refused is not None:
        return await _form(request, amount, form, refused)
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        return await _refund(tx, order, form, actor, request.now, forced=forced)

    try:
        await once.make(request, work)
    except (_Stale, KeyReused):
        return await _form(request, amount, form, Refused(409, {"amount": "error_refund_stale"}))
    except merchants.CapabilityOff:
        return await _form(request, amount, form, Refused(403, {"force": "payment_error_force"}))
    except Invalid as problem:
        return await _form(request, amount, form, refunding.refused(request, order, problem))
    except (Conflict, Unavailable):
        return render.page(request, "payment_refund_unknown.html", 503, order=order, form=form)
    return render.see_other(request, f"{PLACE}/{order.id}?done=refund")


def _unconfirmed(
    form: Mapping[str, str], order: Order, merchant: merchants.Merchant, *, forced: bool
) -> Refused | None:
    """Return why a form is not to be taken as it is, None if it is."""
    if not form.get("reason", "").strip():
        return Refused(400, {"reason": "payment_error_reason"})
    if merchant.refund_off is not None and not forced:
        return Refused(403, {"force": "payment_error_force"})
    return refunding.unconfirmed(form, order)


async def _refund(
    tx: Tx,
    order: Order,
    form: Mapping[str, str],
    actor: merchants.Actor,
    now: int,
    *,
    forced: bool,
) -> str:
    """Refund what was seen. Raises _Stale if anything of it has changed, Invalid, CapabilityOff."""
    amount, merchant_id = form.get("amount", "").strip(), order.merchant_id
    subject, off = order.id, (await merchants.find(tx, merchant_id)).refund_off
    if not forced:
        await merchants.require(tx, merchant_id, "refund")
    elif off is not None:
        subject += f", forced: refund is off ({off})"
    # The merchant and the head of the audit log are locked before the order, as everywhere.
    await merchants.record_audit(tx, actor, "orders refund", merchant_id, subject, now)
    locked = await orders.lock(tx, merchant_id, order.id)
    if refunding.seen(await refunding.quote(tx, locked, amount, now)) != form.get("seen"):
        raise _Stale
    body = RefundBody(amount=amount, reason=actor.reason)
    made = await refunds.create(
        tx, merchant_id, order.id, body, now, source=order.source, forced=forced
    )
    return made.id
