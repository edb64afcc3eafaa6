"""``opentill orders show|history|confirm|revoke`` and ``opentill refunds done|failed``."""

from functools import partial
from typing import TYPE_CHECKING

import typer

from opentill.cli import inputs, output, session
from opentill.cli.groups import add_group
from opentill.cli.output import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from opentill.db.database import Tx
    from opentill.gateways.model import RefundOutcome
    from opentill.orders import Order
    from opentill.refunds import Refund


def register(app: typer.Typer) -> None:
    """Add the groups."""
    add_group(app, "orders", "Orders.", show=show, history=history, confirm=confirm, revoke=revoke)
    summary = "Refunds that no gateway reports on: their results, as the operator knows them."
    add_group(app, "refunds", summary, done=refund_done, failed=refund_failed)


def show(order_id: str, *, as_json: Json = False) -> None:
    """Show an order."""
    from opentill import orders

    found = session.settings()

    async def work(tx: "Tx") -> "Order":
        order = await orders.find_anywhere(tx, order_id)
        return await orders.with_livemode(tx, order, deployment=found.livemode)

    order = session.query(work, found)
    shown = {"merchantId": order.merchant_id, **output.plain(orders.OrderDetail.of(order))}
    output.show(shown, as_json=as_json)


def history(order_id: str, *, as_json: Json = False) -> None:
    """Show all that happened to an order."""
    from opentill import orders

    async def work(tx: "Tx") -> "Sequence[object]":
        order = await orders.find_anywhere(tx, order_id)
        return await orders.history(tx, order.merchant_id, order.id)

    output.show(session.query(work), as_json=as_json)


def confirm(
    order_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Confirm an order whose money arrived, for example by bank transfer."""
    from opentill import orders

    change = partial(orders.confirm_manually, livemode=session.settings().livemode)
    _change(change, "orders confirm", order_id, reason, by, as_json=as_json)


def revoke(
    order_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Revoke an unpaid order: it cannot be paid any more."""
    from opentill import orders

    _change(orders.revoke_manually, "orders revoke", order_id, reason, by, as_json=as_json)


def _change(
    change: "Callable[..., Awaitable[Order]]",
    action: str,
    order_id: str,
    reason: str,
    by: str,
    *,
    as_json: bool,
) -> None:
    from opentill import merchants, orders

    who, found = inputs.who(by), session.settings()

    async def work(tx: "Tx", now: int) -> "Order":
        order = await orders.find_anywhere(tx, order_id)
        actor = merchants.Actor(who, reason)
        await merchants.record_audit(tx, actor, action, order.merchant_id, order_id, now)
        changed = await change(tx, order.merchant_id, order_id, who, reason, now)
        return await orders.with_livemode(tx, changed, deployment=found.livemode)

    output.show(orders.OrderDetail.of(session.transact(work, found)), as_json=as_json)


def refund_done(
    refund_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """End a refund as done: its money was sent back."""
    from opentill.gateways.model import RefundOutcome

    _end_refund(refund_id, RefundOutcome(status="SUCCEEDED"), reason, by, as_json=as_json)


def refund_failed(
    refund_id: str, *, reason: inputs.Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """End a refund as failed: its money returns to the merchant's balance."""
    from opentill.gateways.model import RefundOutcome

    outcome = RefundOutcome(status="REFUSED", reason=reason.strip()[:200])
    _end_refund(refund_id, outcome, reason, by, as_json=as_json)


def _end_refund(
    refund_id: str, outcome: "RefundOutcome", reason: str, by: str, *, as_json: bool
) -> None:
    from opentill import gateways, merchants, orders, refunds
    from opentill.core.errors import Invalid

    reporting = set(session.settings().gateways) - gateways.OPERATOR_MAY_REPORT

    async def work(tx: "Tx", now: int) -> "Refund":
        refund = await refunds.find_anywhere(tx, refund_id)
        attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
        if attempt.gateway in reporting or refund.status != "PROCESSING":
            why = "refund must be PROCESSING, and of no gateway that reports by itself"
            raise Invalid("refund", why)
        actor, action = merchants.Actor(inputs.who(by), reason), f"refund {outcome.status.lower()}"
        await merchants.record_audit(tx, actor, action, refund.merchant_id, refund_id, now)
        ids = (refund.merchant_id, refund_id)
        return await refunds.apply_outcome(tx, *ids, outcome, now, gateway=attempt.gateway)

    output.show(refunds.RefundOut.of(session.transact(work)), as_json=as_json)
