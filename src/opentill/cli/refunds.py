"""``opentill refunds done|failed|reversed|handled|record|cases|dismiss``."""

from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, manual_actions, output, provider_reports, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.approvals.model import Action
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.refunds import Refund, RefundOut


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "refunds",
        "Record results of refunds and refunds made elsewhere; list refunds that need attention.",
        done=done,
        failed=failed,
        reversed=reversed_,
        handled=handled,
        record=record,
        cases=provider_reports.list_command(provider_reports.REFUNDS),
        dismiss=provider_reports.dismiss_command(provider_reports.REFUNDS),
    )


@acting()
def done(refund_id: str, *, actor: "Actor") -> "RefundOut":
    """Mark a refund as done: its money was sent to the customer."""
    from opentill import gateways, merchants, refunds
    from opentill.gateways import accounts
    from opentill.gateways.model import RefundOutcome

    settings = session.settings()

    async def work(tx: "Tx", now: int) -> "Refund":
        refund = await refunds.find_anywhere(tx, refund_id)
        ids, outcome = (refund.merchant_id, refund_id), RefundOutcome(status="SUCCEEDED")
        await merchants.record_audit(tx, actor, "refund succeeded", *ids, now)
        reporting = await accounts.with_self_reporting(
            tx, gateways.self_reporting(settings.gateways)
        )
        return await refunds.end_manually(tx, *ids, outcome, now, reporting=reporting)

    return refunds.RefundOut.from_refund(session.transact(work, settings))


@acting()
def failed(refund_id: str, *, actor: "Actor") -> output.Result:
    """Mark a refund as failed: the money returns to the merchant's balance.

    Above the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    return _give_back("refund-failed", refund_id, actor)


@acting()
def reversed_(refund_id: str, *, actor: "Actor") -> output.Result:
    """Reverse a refund that had succeeded: the money returns to the merchant's balance.

    Above the limit OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    return _give_back("refund-reversed", refund_id, actor)


@acting()
def handled(refund_id: str, *, actor: "Actor") -> "RefundOut":
    """Mark a failed refund as handled: the customer received the money in another way.

    The reason says how, and is shown in the audit log and the history of the order.
    """
    from opentill import merchants, refunds

    async def work(tx: "Tx", now: int) -> "Refund":
        refund = await refunds.find_anywhere(tx, refund_id)
        ids = (refund.merchant_id, refund_id)
        await merchants.record_audit(tx, actor, "refunds handled", *ids, now)
        return await refunds.mark_handled(tx, *ids, who=actor.who, how=actor.reason, now=now)

    return refunds.RefundOut.from_refund(session.transact(work))


def _give_back(action: "Action", refund_id: str, actor: "Actor") -> output.Result:
    from opentill import refunds

    async def find(tx: "Tx") -> str:
        return (await refunds.find_anywhere(tx, refund_id)).merchant_id

    async def to_output(_tx: "Tx", refund: "Refund") -> "RefundOut":
        return refunds.RefundOut.from_refund(refund)

    return manual_actions.perform(action, refund_id, actor, find, to_output)


@acting()
def record(
    order_id: str,
    amount: Annotated[str, typer.Argument(help="The refunded amount, such as 4.00.")],
    *,
    reference: Annotated[
        str, typer.Option(help="The provider's or bank's reference: it is recorded once.")
    ],
    actor: "Actor",
) -> output.Result:
    """Record a refund that was made at a provider which does not report it, or by transfer.

    Nothing is sent. To have a refund made, use `opentill orders refund`. Above the limit
    OPENTILL_APPROVAL_ABOVE it waits until somebody else approves it.
    """
    from opentill import approvals, orders, refunds
    from opentill.core import money

    async def to_output(_tx: "Tx", refund: "Refund") -> "RefundOut":
        return refunds.RefundOut.from_refund(refund)

    async def work(tx: "Tx", now: int) -> output.Result:
        order = await orders.find_anywhere(tx, order_id)
        minor = inputs.amount("amount", amount, order.currency) or 0
        details = approvals.RefundDetails(
            amount=money.show(minor, order.currency), reference=reference
        )
        action_request = approvals.ActionRequest(
            action="refund-recorded", merchant_id=order.merchant_id, subject=order_id,
            actor=actor, refund=details,
        )  # fmt: skip
        return await manual_actions.perform_in(tx, action_request, to_output, now)

    return session.transact(work)
