"""``opentill orders show|history|confirm|revoke`` and ``opentill refunds done|failed``."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from opentill.db.database import Tx
    from opentill.gateways.model import RefundOutcome
    from opentill.orders import Order

_Reason = Annotated[str, typer.Option("--reason", help="Why; compulsory, for the audit log.")]


def register(app: typer.Typer) -> None:
    """Add the groups."""
    group = typer.Typer(help="Orders.", no_args_is_help=True)
    group.command("show")(show)
    group.command("history")(history)
    group.command("confirm")(confirm)
    group.command("revoke")(revoke)
    app.add_typer(group, name="orders")
    refunds = typer.Typer(
        help="Refunds that no gateway tells of: by hand, of one switched off, or answers lost.",
        no_args_is_help=True,
    )
    refunds.command("done")(refund_done)
    refunds.command("failed")(refund_failed)
    app.add_typer(refunds, name="refunds")


def show(order_id: str, *, as_json: Json = False) -> None:
    """Show an order."""
    from opentill import orders

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db, db.connection() as tx:
            order = await orders.find_anywhere(tx, order_id)
            order = await orders.with_livemode(tx, order, deployment=found.livemode)
            shown = {"merchantId": order.merchant_id, **output.plain(orders.OrderDetail.of(order))}
            output.show(shown, as_json=as_json)

    session.run(work())


def history(order_id: str, *, as_json: Json = False) -> None:
    """Show all that happened to an order."""
    from opentill import orders

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            order = await orders.find_anywhere(tx, order_id)
            output.show(await orders.history(tx, order.merchant_id, order.id), as_json=as_json)

    session.run(work())


def confirm(
    order_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that an order's money arrived, for example by bank transfer."""
    from opentill import orders

    change = partial(orders.confirm_manually, livemode=session.settings().livemode)
    _by_hand(change, "orders confirm", order_id, reason, by, as_json=as_json)


def revoke(
    order_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Void an unpaid order: nobody can pay it any more."""
    from opentill import orders

    _by_hand(orders.revoke_manually, "orders revoke", order_id, reason, by, as_json=as_json)


def _by_hand(
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

    async def step(tx: "Tx") -> "Order":
        order = await orders.find_anywhere(tx, order_id)
        now = await session.now(tx)
        await merchants.record_audit(
            tx, who=who, action=action, merchant_id=order.merchant_id, subject=order_id,
            reason=reason, now=now,
        )  # fmt: skip
        changed = await change(tx, order.merchant_id, order_id, who, reason, now)
        return await orders.with_livemode(tx, changed, deployment=found.livemode)

    async def work() -> None:
        async with session.database(found) as db:
            output.show(orders.OrderDetail.of(await db.run(step)), as_json=as_json)

    session.run(work())


def refund_done(
    refund_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that the money of a refund was sent back."""
    from opentill.gateways.model import RefundOutcome

    _end_refund(refund_id, RefundOutcome(status="SUCCEEDED"), reason, by, as_json=as_json)


def refund_failed(
    refund_id: str, *, reason: _Reason = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Say that a refund's money cannot be sent back: it returns to the merchant's balance."""
    from opentill.gateways.model import RefundOutcome

    outcome = RefundOutcome(status="REFUSED", reason=reason.strip()[:200])
    _end_refund(refund_id, outcome, reason, by, as_json=as_json)


def _end_refund(
    refund_id: str, outcome: "RefundOutcome", reason: str, by: str, *, as_json: bool
) -> None:
    from opentill import gateways, merchants, orders, refunds
    from opentill.core.errors import Invalid

    tells = set(session.settings().gateways) - gateways.OPERATOR_MAY_REPORT

    async def step(tx: "Tx") -> refunds.Refund:
        refund = await refunds.find_anywhere(tx, refund_id)
        attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
        if attempt.gateway in tells or refund.status != "PROCESSING":
            reason_text = "refund must be PROCESSING, and of no gateway that tells by itself"
            raise Invalid("refund", reason_text)
        now = await session.now(tx)
        await merchants.record_audit(
            tx, who=inputs.who(by), action=f"refund {outcome.status.lower()}",
            merchant_id=refund.merchant_id, subject=refund_id, reason=reason, now=now,
        )  # fmt: skip
        ids = (refund.merchant_id, refund_id)
        return await refunds.apply_outcome(tx, *ids, outcome, now, gateway=attempt.gateway)

    async def work() -> None:
        async with session.database() as db:
            output.show(refunds.RefundOut.of(await db.run(step)), as_json=as_json)

    session.run(work())
