"""Refunding a payment: how much, what that moves, and then, once it is confirmed, the refund.

To ask is a GET and changes nothing. The form that confirms it carries its own id, by which it
refunds once however often it is sent, and what it showed: if a refund would move something else by
now, it is shown again and nothing is done.
"""

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import approvals, merchants, orders, refunds
from opentill.core import money
from opentill.core.errors import Conflict, Invalid, KeyReused, Unavailable
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.orders import Order
from opentill.people import Permission
from opentill.portal import endpoint, form_ids, render
from opentill.portal.payment_details import amounts
from opentill.portal.request import PageRequest
from opentill.refunds import Quote, RefundBody
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255  # contract.md#refund-create
_KEPT: Final = ("reason", "confirm", "force")


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How those of a portal refund: ``find`` raises NotFound for what they may not see.

    ``actor`` is who refunds, with the reason that was typed, ``page`` the payment's page, and
    ``done`` what its address has behind it once the refund of an id is made. Staff (``of_staff``)
    give a reason for the audit log, and may refund where the merchant's refunds are switched off.
    """

    permission: Permission
    find: Callable[[Tx, PageRequest], Awaitable[Order]]
    actor: Callable[[PageRequest, str], Actor]
    page: Callable[[PageRequest, Order], str]
    done: Callable[[str], str]
    of_staff: bool


class _Stale(Exception):
    """The refund would not move what was shown any more."""


class Refused(msgspec.Struct, frozen=True):
    """Why a form is refused: a text by field, and an amount that they name."""

    status: int
    errors: Mapping[str, str]
    amount: str = ""


_FINE: Final = Refused(200, {})
_STALE: Final = Refused(
    409,
    {
        "amount": N_(
            "Something has changed since this was shown, and nothing was "
            "refunded by this form. Check the amounts, then confirm again"
        )
    },
)


async def show(request: PageRequest, way: Way) -> Response:
    """Ask how much to refund and, once that is in the address, show what it would move."""
    return await _form(request, way, request.query.get("amount"), {}, _FINE)


async def _form(
    request: PageRequest,
    way: Way,
    amount: str | None,
    typed: Mapping[str, str],
    refused: Refused,
) -> Response:
    quoted = None
    async with request.app.db.snapshot() as tx:
        order = await way.find(tx, request)
        merchant = await merchants.find(tx, order.merchant_id)
        if amount is not None:
            try:
                quoted = await quote(tx, order, amount, request.now)
            except Invalid as problem:
                refused = _why(request, order, problem)
    left = order.amount_minor - order.refund_held_minor
    return render.page(
        request,
        "payment_refund.html",
        refused.status,
        merchant=merchant,
        order=order,
        quote=quoted,
        seen="" if quoted is None else seen(quoted),
        left=left if order.status in refunds.REFUNDABLE else 0,
        form_id=form_ids.new_form_id(),
        asked=text(left, order.currency) if amount is None else amount,
        exact="" if quoted is None else text(quoted.amount_minor, order.currency),
        typed={name: typed.get(name, "") for name in _KEPT},
        amount=amounts(request.localizer),
        back=request.base + way.page(request, order),
        of_staff=way.of_staff,
        refunds=request.may(way.permission),
        errors=refused.errors,
        wait=refused.amount,
    )


async def create(request: PageRequest, way: Way) -> Response:
    """Refund what was shown, once it is confirmed; the same form again leads to the same refund."""
    form = await request.form()
    async with request.app.db.connection() as tx:
        order = await way.find(tx, request)
    amount = form.get("amount", "")
    refused = _unconfirmed(form, order, of_staff=way.of_staff)
    if refused is not None:
        return await _form(request, way, amount, form, refused)
    asked = None if way.of_staff else await _proof_of_large(request, order, amount)
    if asked is not None:
        return asked
    actor = way.actor(request, form.get("reason", "").strip())

    async def work(tx: Tx) -> str:
        if not way.of_staff:
            return await _refund(tx, order, form, actor, request.now)
        rules = approvals.Rules.from_settings(request.app.settings)
        return await _refund_by_staff(tx, order, form, actor, rules, request.now)

    try:
        refund_id = await form_ids.run_once(request, work)
    except (_Stale, KeyReused):
        refused = _STALE
    except merchants.CapabilityOff:  # the page says why
        refused = Refused(
            403,
            {"force": N_("Refunds are switched off. Confirm that you refund all the same")}
            if way.of_staff
            else {},
        )
    except Invalid as problem:
        refused = _why(request, order, problem)
    except (Conflict, Unavailable):
        back = request.base + way.page(request, order)
        return render.page(
            request,
            "payment_refund_unknown.html",
            503,
            form=form,
            back=back,
            of_staff=way.of_staff,
        )
    else:
        done = f"?waits={refund_id}" if refund_id.startswith("areq_") else way.done(refund_id)
        return render.see_other(request, way.page(request, order) + done)
    return await _form(request, way, amount, form, refused)


async def _proof_of_large(request: PageRequest, order: Order, amount: str) -> Response | None:
    """Ask for a step-up before a member's refund above the setting; staff's always takes one."""
    above = request.app.settings.refund_proof_above
    try:
        minor = money.parse(amount.strip(), order.currency)
    except ValueError:
        return None  # what is wrong with it is said where it is refused
    if above is None or Decimal(minor).scaleb(-money.exponent(order.currency)) <= above:
        return None
    return await endpoint.prove_first(request)


async def _refund(tx: Tx, order: Order, form: Mapping[str, str], actor: Actor, now: int) -> str:
    """Refund what was seen. Raises _Stale if anything of it has changed, Invalid, CapabilityOff."""
    merchant_id, amount = order.merchant_id, form.get("amount", "").strip()
    await merchants.require(tx, merchant_id, "refund")
    # The merchant and the head of the audit log are locked before the order, as everywhere.
    await merchants.record_audit(tx, actor, "orders refund", merchant_id, order.id, now)
    locked = await orders.lock(tx, merchant_id, order.id)
    if seen(await quote(tx, locked, amount, now)) != form.get("seen"):
        raise _Stale
    body = RefundBody(amount=amount, reason=form.get("reason", "").strip())
    made = await refunds.create(tx, merchant_id, order.id, body, now, source=locked.source)
    return made.id


async def _refund_by_staff(
    tx: Tx, order: Order, form: Mapping[str, str], actor: Actor, rules: approvals.Rules, now: int
) -> str:
    """As ``_refund``, for the operator; above the limit it waits, and the request's id is returned.

    They may refund where the merchant's refunds are switched off.
    """
    merchant_id, amount = order.merchant_id, form.get("amount", "").strip()
    await merchants.lock(tx, merchant_id)
    await merchants.lock_audit_log(tx)
    locked = await orders.lock(tx, merchant_id, order.id)
    if seen(await quote(tx, locked, amount, now)) != form.get("seen"):
        raise _Stale
    asked = approvals.ActionRequest(
        action="refund",
        merchant_id=merchant_id,
        subject=order.id,
        actor=actor,
        refund=approvals.RefundDetails(amount=amount, forced=form.get("force") == "yes"),
    )
    made = await approvals.perform(tx, asked, rules, now)
    return made.id


def text(minor: int, currency: str) -> str:
    """Write an amount as it is typed: without decimals where the currency has none."""
    shown = money.show(minor, currency)
    return shown if money.exponent(currency) else shown.partition(".")[0]


async def quote(tx: Tx, order: Order, amount: str, now: int) -> Quote:
    """Return what a refund would move. Raises Invalid, BalanceTooLow too."""
    body = RefundBody(amount=amount.strip())
    found = await refunds.quote(tx, order.merchant_id, order.id, body, now, source=order.source)
    if found.balance_minor - found.debit_minor < found.least_minor and found.debit_minor:
        raise refunds.BalanceTooLow("amount", found.least_minor)
    return found


def seen(quote: Quote) -> str:
    """Return what a form showed: as long as that is so, it may be done."""
    moved = (quote.amount_minor, quote.left_minor, quote.debit_minor, quote.held_from)
    return ".".join(map(str, moved))


def _why(request: PageRequest, order: Order, problem: Invalid) -> Refused:
    """Return what is said where a quote or a refund is refused."""
    amount = amounts(request.localizer)
    match problem:
        case refunds.NotRefundable():
            return Refused(409, {"amount": N_("This payment cannot be refunded as it stands now")})
        case refunds.TooMuch(most_minor=0):
            return Refused(409, {"amount": N_("Nothing is left to refund")})
        case refunds.TooMuch(most_minor=most):
            return Refused(
                400,
                {"amount": N_("Enter an amount up to {wait}, what is left to refund")},
                amount(most, order.currency),
            )
        case refunds.BalanceTooLow(least_minor=least):
            shown = amount(least, order.settled_currency)
            return Refused(
                400,
                {
                    "amount": N_(
                        "The balance is too low for this refund: it may fall to "
                        "{wait}. Enter a smaller amount"
                    )
                },
                shown,
            )
        case Invalid(field="amount"):
            example = text(min(order.amount_minor, 10 ** money.exponent(order.currency)),
                            order.currency)  # fmt: skip
            return Refused(400, {"amount": N_("Enter an amount such as {wait}")}, example)
        case _:
            return Refused(
                409,
                {
                    "amount": N_(
                        "There is no exchange rate for this refund yet: the operator has to set one"
                    )
                },
            )


def _unconfirmed(form: Mapping[str, str], order: Order, *, of_staff: bool) -> Refused | None:
    """Return why a form is not to be taken as it is, None if it is."""
    if not of_staff <= len(form.get("reason", "").strip()) <= _LONGEST_REASON:
        return Refused(
            400,
            {
                "reason": N_("Say why, in 1 to 255 characters")
                if of_staff
                else N_("Enter a reason of at most 255 characters, or leave it empty")
            },
        )
    if len(form.get(form_ids.FIELD, "")) != len(form_ids.new_form_id()):
        return _STALE
    try:
        wanted = money.parse(form.get("amount", "").strip(), order.currency)
    except ValueError:
        return None  # what is wrong with it is said where it is refused
    try:
        confirmed = money.parse(form.get("confirm", "").strip(), order.currency)
    except ValueError:
        confirmed = None
    if confirmed != wanted:
        return Refused(
            400,
            {"confirm": N_("Enter {wait} to confirm this refund")},
            text(wanted, order.currency),
        )
    return None
