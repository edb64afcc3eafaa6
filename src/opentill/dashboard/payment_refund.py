"""Refunding a payment: how much, what that moves, and then, once it is confirmed, the refund.

To ask is a GET and changes nothing. The form that confirms it carries its own id, by which it
refunds once however often it is sent, and what it showed: if a refund would move something else by
now, it is shown again and nothing is done.
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
from opentill.core.errors import Conflict, Invalid, KeyReused, NotPermitted, Unavailable
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.orders import Order
from opentill.refunds import Quote, RefundBody

_REASON: Final = "on the page of a refund"
_LONGEST_REASON: Final = 255  # contract.md#refund-create
_KEPT: Final = ("reason", "confirm")


class _Stale(Exception):
    """The refund would not move what was shown any more."""


_FINE: Final = Refused(200, {})


async def show(request: PageRequest) -> Response:
    """Ask how much to refund and, once that is in the address, show what it would move."""
    return await _form(request, request.query.get("amount"), {}, _FINE)


async def _form(
    request: PageRequest,
    amount: str | None,
    typed: Mapping[str, str],
    refused: Refused,
) -> Response:
    merchant_id, quote = request.merchant_id, None
    async with request.app.db.snapshot() as tx:
        order = await orders.find(tx, merchant_id, request.ids["order"])
        if not request.access.may("payments.refund"):
            raise NotPermitted
        merchant = await merchants.find(tx, merchant_id)
        if amount is not None:
            try:
                quote = await refunding.quote(tx, order, amount, request.now)
            except Invalid as problem:
                refused = refunding.refused(request, order, problem)
    return _page(request, merchant, order, quote, amount, typed, refused)


def _page(
    request: PageRequest,
    merchant: Merchant,
    order: Order,
    quote: Quote | None,
    amount: str | None,
    typed: Mapping[str, str],
    refused: Refused,
) -> Response:
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
        form_field=once.FIELD,
        asked=refunding.text(left, order.currency) if amount is None else amount,
        exact="" if quote is None else refunding.text(quote.amount_minor, order.currency),
        typed={name: typed.get(name, "") for name in _KEPT},
        amount=amounts(request.localizer),
        errors=refused.errors,
        wait=refused.amount,
    )


async def create(request: PageRequest) -> Response:
    """Refund what was shown, once it is confirmed; the same form again leads to the same refund."""
    form, merchant_id, order_id = await request.form(), request.merchant_id, request.ids["order"]
    async with request.app.db.connection() as tx:
        order = await orders.find(tx, merchant_id, order_id)
    amount, reason = form.get("amount", ""), form.get("reason", "").strip()
    errors = refunding.unconfirmed(form, order)
    if errors:
        return await _form(request, amount, form, errors)

    async def work(tx: Tx) -> str:
        await merchants.require(tx, merchant_id, "refund")
        actor = people.actor_of(request.login, _REASON)
        await merchants.record_audit(tx, actor, "orders refund", merchant_id, order_id, request.now)
        locked = await orders.lock(tx, merchant_id, order_id)
        if refunding.seen(await refunding.quote(tx, locked, amount, request.now)) != form.get(
            "seen"
        ):
            raise _Stale
        body = RefundBody(amount=amount.strip(), reason=reason)
        made = await refunds.create(
            tx, merchant_id, order_id, body, request.now, source=locked.source
        )
        return made.id

    try:
        refund_id = await once.make(request, work)
    except (_Stale, KeyReused):
        return await _form(request, amount, form, Refused(409, {"amount": "error_refund_stale"}))
    except merchants.CapabilityOff:  # the page says why
        return await _form(request, amount, form, Refused(403, {}))
    except Invalid as problem:
        return await _form(request, amount, form, refunding.refused(request, order, problem))
    except (Conflict, Unavailable):
        return render.page(request, "payment_refund_unknown.html", 503, order=order, form=form)
    return render.see_other(
        request, f"/dashboard/{merchant_id}/payments/{order_id}?refund={refund_id}"
    )
