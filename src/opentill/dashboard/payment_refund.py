"""Refunding a payment: how much, what that moves, and then, once it is confirmed, the refund.

To ask is a GET and changes nothing. The form that confirms it carries its own id, by which it
refunds once however often it is sent, and what it showed: if a refund would move something else by
now, it is shown again and nothing is done.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, orders, people, refunds
from opentill.backoffice import once, render
from opentill.backoffice.request import PageRequest
from opentill.core import money
from opentill.core.errors import Conflict, Invalid, KeyReused, NotPermitted, Unavailable
from opentill.dashboard.payment_reading import amounts
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.orders import Order
from opentill.refunds import Quote, RefundBody

_REASON: Final = "on the page of a refund"
_LONGEST_REASON: Final = 255  # contract.md#refund-create
_KEPT: Final = ("reason", "confirm")


class _Stale(Exception):
    """The refund would not move what was shown any more."""


class _Refused(msgspec.Struct, frozen=True):
    """Why a form is refused: the key of a sentence by field, and an amount that they name."""

    status: int
    errors: Mapping[str, str]
    amount: str = ""


_FINE: Final = _Refused(200, {})


async def show(request: PageRequest) -> Response:
    """Ask how much to refund and, once that is in the address, show what it would move."""
    return await _form(request, request.query.get("amount"), {}, _FINE)


async def _form(
    request: PageRequest, amount: str | None, typed: Mapping[str, str], refused: _Refused
) -> Response:
    merchant_id, quote = request.merchant_id, None
    async with request.app.db.snapshot() as tx:
        order = await orders.find(tx, merchant_id, request.ids["order"])
        if not request.access.may("payments.refund"):
            raise NotPermitted
        merchant = await merchants.find(tx, merchant_id)
        if amount is not None:
            try:
                quote = await _quote(tx, order, amount, request.now)
            except Invalid as problem:
                refused = _refused(request, order, problem)
    return _page(request, merchant, order, quote, amount, typed, refused)


def _page(
    request: PageRequest,
    merchant: Merchant,
    order: Order,
    quote: Quote | None,
    amount: str | None,
    typed: Mapping[str, str],
    refused: _Refused,
) -> Response:
    left = order.amount_minor - order.refund_held_minor
    return render.page(
        request,
        "payment_refund.html",
        refused.status,
        merchant=merchant,
        order=order,
        quote=quote,
        seen="" if quote is None else _seen(quote),
        left=left if order.status in refunds.REFUNDABLE else 0,
        form_id=once.new_form_id(),
        form_field=once.FIELD,
        asked=_text(left, order.currency) if amount is None else amount,
        exact="" if quote is None else _text(quote.amount_minor, order.currency),
        typed={name: typed.get(name, "") for name in _KEPT},
        amount=amounts(request.localizer),
        errors=refused.errors,
        wait=refused.amount,
    )


def _text(minor: int, currency: str) -> str:
    """Write an amount as it is typed: without decimals where the currency has none."""
    shown = money.show(minor, currency)
    return shown if money.exponent(currency) else shown.partition(".")[0]


async def _quote(tx: Tx, order: Order, amount: str, now: int) -> Quote:
    """Return what a refund would move. Raises Invalid, BalanceTooLow too."""
    body = RefundBody(amount=amount.strip())
    found = await refunds.quote(tx, order.merchant_id, order.id, body, now, source=order.source)
    if found.balance_minor - found.debit_minor < found.least_minor and found.debit_minor:
        raise refunds.BalanceTooLow("amount", found.least_minor)
    return found


def _seen(quote: Quote) -> str:
    """Return what a form showed: as long as that is so, it may be done."""
    moved = (quote.amount_minor, quote.left_minor, quote.debit_minor, quote.held_from)
    return ".".join(map(str, moved))


def _refused(request: PageRequest, order: Order, problem: Invalid) -> _Refused:
    amount = amounts(request.localizer)
    match problem:
        case refunds.NotRefundable():
            return _Refused(409, {"amount": "error_refund_status"})
        case refunds.TooMuch(most_minor=0):
            return _Refused(409, {"amount": "error_refund_nothing"})
        case refunds.TooMuch(most_minor=most):
            return _Refused(400, {"amount": "error_refund_most"}, amount(most, order.currency))
        case refunds.BalanceTooLow(least_minor=least):
            shown = amount(least, order.settled_currency)
            return _Refused(400, {"amount": "error_refund_balance"}, shown)
        case Invalid(field="amount"):
            example = _text(min(order.amount_minor, 10 ** money.exponent(order.currency)),
                            order.currency)  # fmt: skip
            return _Refused(400, {"amount": "error_refund_amount"}, example)
        case _:
            return _Refused(409, {"amount": "error_refund_rate"})


async def create(request: PageRequest) -> Response:
    """Refund what was shown, once it is confirmed; the same form again leads to the same refund."""
    form, merchant_id, order_id = await request.form(), request.merchant_id, request.ids["order"]
    async with request.app.db.connection() as tx:
        order = await orders.find(tx, merchant_id, order_id)
    amount, reason = form.get("amount", ""), form.get("reason", "").strip()
    errors = _unconfirmed(form, order)
    if errors:
        return await _form(request, amount, form, errors)

    async def work(tx: Tx) -> str:
        await merchants.require(tx, merchant_id, "refund")
        actor = people.actor_of(request.login, _REASON)
        await merchants.record_audit(tx, actor, "orders refund", merchant_id, order_id, request.now)
        locked = await orders.lock(tx, merchant_id, order_id)
        if _seen(await _quote(tx, locked, amount, request.now)) != form.get("seen"):
            raise _Stale
        body = RefundBody(amount=amount.strip(), reason=reason)
        made = await refunds.create(
            tx, merchant_id, order_id, body, request.now, source=locked.source
        )
        return made.id

    try:
        refund_id = await once.make(request, work)
    except (_Stale, KeyReused):
        return await _form(request, amount, form, _Refused(409, {"amount": "error_refund_stale"}))
    except merchants.CapabilityOff:  # the page says why
        return await _form(request, amount, form, _Refused(403, {}))
    except Invalid as problem:
        return await _form(request, amount, form, _refused(request, order, problem))
    except (Conflict, Unavailable):
        return render.page(request, "payment_refund_unknown.html", 503, order=order, form=form)
    return render.see_other(
        request, f"/dashboard/{merchant_id}/payments/{order_id}?refund={refund_id}"
    )


def _unconfirmed(form: Mapping[str, str], order: Order) -> _Refused | None:
    """Return why a form is not to be taken as it is, None if it is."""
    if len(form.get("reason", "").strip()) > _LONGEST_REASON:
        return _Refused(400, {"reason": "error_refund_reason"})
    if len(form.get(once.FIELD, "")) != len(once.new_form_id()):
        return _Refused(409, {"amount": "error_refund_stale"})
    try:
        wanted = money.parse(form.get("amount", "").strip(), order.currency)
    except ValueError:
        return None  # what is wrong with it is said where it is refused
    try:
        confirmed = money.parse(form.get("confirm", "").strip(), order.currency)
    except ValueError:
        confirmed = None
    if confirmed != wanted:
        return _Refused(400, {"confirm": "error_refund_confirm"}, _text(wanted, order.currency))
    return None
