"""``opentill orders refund``: a refund by the operator, after showing its effect."""

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from opentill.cli import inputs, manual_actions, output, session
from opentill.cli.registration import acting

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor, Merchant
    from opentill.orders import Order
    from opentill.refunds import Quote, Refund, RefundBody


class _Seen(NamedTuple):
    """A quote of a refund, for confirmation by the operator."""

    order: "Order"
    merchant: "Merchant"
    quote: "Quote"


@acting()
def refund(
    order: Annotated[str, typer.Argument(help="The order's id, or any id that leads to it.")],
    *,
    amount: Annotated[
        str | None, typer.Option(help="How much of it; without it, all that is left.")
    ] = None,
    number: Annotated[
        str | None,
        typer.Option("--number", help="A refundNo: repeated with it, nothing is done twice."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Although the merchant's refunds are switched off.")
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Refund an order. Says first what it costs the merchant, and asks.

    Above the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    from opentill.core.errors import Invalid
    from opentill.refunds import RefundBody, RefundOut

    if not actor.reason:
        raise Invalid("reason", "reason must be text of 1 to 255 characters")
    if not yes and not sys.stdin.isatty():
        raise Invalid("yes", "yes must be given where nobody can be asked: --yes")
    body = RefundBody(amount=amount, reason=actor.reason, refund_no=number)

    async def look(tx: "Tx", now: int) -> "_Seen | Refund":
        return await _repeated(tx, order, body) or await _look(tx, order, body, now)

    seen = session.transact(look)
    if not isinstance(seen, _Seen):
        return output.Result(RefundOut.from_refund(seen))  # a repetition
    if not force:
        _check_on(seen.merchant)
    output.say(_described(seen))
    if not yes:
        typer.confirm("Refund it?", abort=True, err=True)

    async def work(tx: "Tx", now: int) -> output.Result:
        return await _refund(tx, seen, body, actor, now, forced=force)

    return session.transact(work)


async def _repeated(tx: "Tx", text: str, body: "RefundBody") -> "Refund | None":
    """Return the order's existing refund with this number, if any. Raises Invalid."""
    from opentill import orders, refunds
    from opentill.core.errors import Invalid

    if body.refund_no is None:
        return None
    if not 1 <= len(body.refund_no) <= 64:  # noqa: PLR2004 - contract.md#refund-create
        raise Invalid("number", "number must be text of 1 to 64 characters")
    order = await orders.find_by_anything(tx, text)
    first = await refunds.find_by_number(tx, order.merchant_id, body.refund_no)
    if first is None:
        return None
    amount_minor = inputs.amount("amount", body.amount, order.currency)
    if first.order_id == order.id and amount_minor in {None, first.amount_minor}:
        return first
    raise Invalid("number", "number must be one that no other refund of the merchant has")


async def _look(tx: "Tx", text: str, body: "RefundBody", now: int) -> _Seen:
    from opentill import merchants, orders, refunds

    order = await orders.find_by_anything(tx, text)
    merchant = await merchants.find(tx, order.merchant_id)
    quote = await refunds.quote(tx, order.merchant_id, order.id, body, now, source=order.source)
    return _Seen(order, merchant, quote)


def _described(seen: _Seen) -> str:
    from opentill.core import money

    order, quote = seen.order, seen.quote
    refunded, left, whole = (
        money.show(minor, quote.currency)
        for minor in (quote.amount_minor, quote.left_minor, order.amount_minor)
    )
    costs, before, after = (
        money.show(minor, quote.debit_currency)
        for minor in (
            quote.debit_minor,
            quote.balance_minor,
            quote.balance_minor - quote.debit_minor,
        )
    )
    customer = order.customer_email or "the customer"
    return (
        f"Refund of {refunded} {quote.currency} to {customer}, of {order.id} over {whole}; "
        f"{left} will be left to refund.\n"
        f"It costs {seen.merchant.name} ({order.merchant_id}) {costs} {quote.debit_currency}: "
        f"the {quote.held_from} balance goes from {before} to {after}."
    )


def _moves(quote: "Quote") -> tuple[int, int, str]:
    """Return the amounts that a refund moves, without balances that may change otherwise."""
    return quote.amount_minor, quote.debit_minor, quote.held_from


def _check_on(merchant: "Merchant") -> None:
    """Raise NotPermitted if the merchant's refunds are off, with advice."""
    from opentill.core.errors import NotPermitted
    from opentill.merchants import CapabilityOff

    try:
        merchant.require("refund")
    except CapabilityOff as off:
        how = "--force refunds all the same, which the audit log says"
        raise NotPermitted(off.field, f"{off.reason}; {how}") from None


async def _refund(
    tx: "Tx", seen: _Seen, body: "RefundBody", actor: "Actor", now: int, *, forced: bool
) -> output.Result:
    """Refund as quoted. Raises Invalid if the quote has changed, and CapabilityOff."""
    from opentill import approvals, merchants, orders
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.refunds import RefundOut

    async def shown(_tx: "Tx", refund: "Refund") -> RefundOut:
        return RefundOut.from_refund(refund)

    quote, order = seen.quote, seen.order
    await merchants.lock(tx, order.merchant_id)
    await merchants.lock_audit_log(tx)
    await orders.lock(tx, order.merchant_id, order.id)
    current = await _look(tx, order.id, body, now)
    if _moves(current.quote) != _moves(quote):
        raise Invalid(
            "order", "order must be as it was shown: it has changed meanwhile, look again"
        )
    details = approvals.RefundDetails(
        amount=money.show(quote.amount_minor, quote.currency),
        refund_no=body.refund_no,
        forced=forced,
    )
    action_request = approvals.ActionRequest(
        action="refund",
        merchant_id=order.merchant_id,
        subject=order.id,
        actor=actor,
        refund=details,
    )
    return await manual_actions.perform_in(tx, action_request, shown, now)
