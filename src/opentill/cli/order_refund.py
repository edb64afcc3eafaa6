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
    """A quote of a refund, which the operator is asked to confirm."""

    order: "Order"
    merchant: "Merchant"
    quote: "Quote"


@acting()
def refund(
    order: Annotated[str, typer.Argument(help="The order's id, or any id that leads to it.")],
    *,
    amount: Annotated[
        str | None, typer.Option(help="How much to refund; by default all that is left.")
    ] = None,
    number: Annotated[
        str | None,
        typer.Option("--number", help="A refundNo: repeating it does not refund twice."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Refund even if refunds of the merchant are disabled."),
    ] = False,
    actor: "Actor",
) -> output.Result:
    """Refund an order, after showing what it costs the merchant and asking for confirmation.

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
        return await _find_existing_refund(tx, order, body) or await _look(tx, order, body, now)

    quoted = session.transact(look)
    if not isinstance(quoted, _Seen):
        # A refund with this refund number exists already.
        return output.Result(RefundOut.from_refund(quoted))
    if not force:
        _check_on(quoted.merchant)
    output.say(_describe(quoted))
    if not yes:
        typer.confirm("Refund it?", abort=True, err=True)

    async def work(tx: "Tx", now: int) -> output.Result:
        return await _refund(tx, quoted, body, actor, now, forced=force)

    return session.transact(work)


async def _find_existing_refund(tx: "Tx", text: str, body: "RefundBody") -> "Refund | None":
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


def _describe(quoted: _Seen) -> str:
    from opentill.core import money

    order, quote = quoted.order, quoted.quote
    refunded, remaining, order_amount = (
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
        f"Refund of {refunded} {quote.currency} to {customer}, of {order.id} over {order_amount}; "
        f"{remaining} will be left to refund.\n"
        f"It costs {quoted.merchant.name} ({order.merchant_id}) {costs} {quote.debit_currency}: "
        f"the {quote.held_from} balance goes from {before} to {after}."
    )


def _moves(quote: "Quote") -> tuple[int, int, str]:
    """Return the parts of a quote that must not change until it is confirmed.

    Balances are not among them, because they may change for other reasons.
    """
    return quote.amount_minor, quote.debit_minor, quote.held_from


def _check_on(merchant: "Merchant") -> None:
    """Raise NotPermitted if the merchant's refunds are off, with advice."""
    from opentill.core.errors import NotPermitted
    from opentill.merchants import CapabilityOff

    try:
        merchant.require("refund")
    except CapabilityOff as off:
        advice = "--force refunds all the same, which the audit log says"
        raise NotPermitted(off.field, f"{off.reason}; {advice}") from None


async def _refund(
    tx: "Tx", quoted: _Seen, body: "RefundBody", actor: "Actor", now: int, *, forced: bool
) -> output.Result:
    """Refund as quoted. Raises Invalid if the quote has changed, and CapabilityOff."""
    from opentill import approvals, merchants, orders
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.refunds import RefundOut

    async def to_output(_tx: "Tx", refund: "Refund") -> RefundOut:
        return RefundOut.from_refund(refund)

    quote, order = quoted.quote, quoted.order
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
    return await manual_actions.perform_in(tx, action_request, to_output, now)
