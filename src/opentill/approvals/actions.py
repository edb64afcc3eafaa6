"""The table of manual actions: how much money each moves, and how it is performed.

An action is measured and performed under the same locks: the merchant, the head of the audit log,
and the order.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from opentill import disputes, merchants, orders, payouts, refunds
from opentill.approvals.model import Action, ActionRequest, Rules
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways import accounts
from opentill.gateways.model import RefundOutcome
from opentill.orders import Order
from opentill.payouts import Payout
from opentill.refunds import NewMadeAtGateway, Refund, RefundBody

Done = Order | Refund | Dispute | Payout
# A reason is cut to this many characters when it becomes the error of a refund.
_LONGEST_ERROR: Final = 200


class Row(NamedTuple):
    """How an action is measured and performed.

    ``measure`` returns the amount that counts against the approval limit (minor units, 0 for none)
    and its currency. ``apply`` performs the action.
    """

    measure: Callable[[Tx, ActionRequest, Rules, int], Awaitable[tuple[int, str]]]
    apply: Callable[[Tx, ActionRequest, Rules, int], Awaitable[Done]]


async def _record(tx: Tx, request: ActionRequest, action: str, now: int, suffix: str = "") -> None:
    subject = f"{request.subject}{suffix}"
    await merchants.record_audit(tx, request.actor, action, request.merchant_id, subject, now)


# ── confirming orders ──


async def _measure_confirmation(
    tx: Tx, request: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    """Return the amount credited to the merchant; 0 if the customer has reported the transfer."""
    order = await orders.lock(tx, request.merchant_id, request.subject)
    if not orders.can(order, "confirmed"):
        raise Invalid("orderId", f"an order that is {order.status} cannot be confirmed")
    if await orders.awaits_confirmation(tx, order):
        return 0, order.settled_currency
    return order.gross_settled_minor, order.settled_currency


async def _confirm(tx: Tx, request: ActionRequest, rules: Rules, now: int) -> Order:
    await _record(tx, request, "orders confirm", now)
    who, reason = request.actor.who, request.actor.reason
    ids = request.merchant_id, request.subject
    return await orders.confirm_manually(tx, *ids, who, reason, now, livemode=rules.livemode)


# ── refunds ──


def _body(request: ActionRequest) -> RefundBody:
    if request.refund is None:
        raise AssertionError  # a request for a refund always has ``refund``
    number = request.refund.refund_no
    return RefundBody(amount=request.refund.amount, reason=request.actor.reason, refund_no=number)


async def _measure_refund(
    tx: Tx, request: ActionRequest, _rules: Rules, now: int
) -> tuple[int, str]:
    """Return the value of the refund in the merchant's currency."""
    order = await orders.lock(tx, request.merchant_id, request.subject)
    ids = request.merchant_id, request.subject
    if request.refund is not None and not request.refund.forced:
        await merchants.require(tx, request.merchant_id, "refund")
    quote = await refunds.quote(tx, *ids, _body(request), now, source=order.source)
    return orders.settled_share(order, quote.amount_minor), order.settled_currency


async def _refund(tx: Tx, request: ActionRequest, _rules: Rules, now: int) -> Refund:
    details, merchant_id = request.refund, request.merchant_id
    if details is None:
        raise AssertionError  # a request for a refund always has ``refund``
    off = (await merchants.find(tx, merchant_id)).refund_off
    if not details.forced:
        await merchants.require(tx, merchant_id, "refund")
    suffix = f", forced: refund is off ({off})" if details.forced and off is not None else ""
    await _record(tx, request, "orders refund", now, suffix)
    order = await orders.lock(tx, merchant_id, request.subject)
    return await refunds.create(
        tx, merchant_id, order.id, _body(request), now, source=order.source, forced=details.forced
    )


async def _refund_to_record(tx: Tx, request: ActionRequest) -> NewMadeAtGateway:
    """Return the refund made at the provider that a request records. Raises Invalid."""
    if request.refund is None:
        raise AssertionError  # a request to record a refund always has ``refund``
    order = await orders.lock(tx, request.merchant_id, request.subject)
    try:
        minor = money.parse(request.refund.amount, order.currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    return NewMadeAtGateway(
        amount_minor=minor, reason=request.actor.reason, provider_ref=request.refund.reference or ""
    )


async def _measure_recorded_refund(
    tx: Tx, request: ActionRequest, rules: Rules, _now: int
) -> tuple[int, str]:
    """Return the value of the refund in the merchant's currency; 0 if it is recorded already."""
    new, ids = await _refund_to_record(tx, request), (request.merchant_id, request.subject)
    existing_refund = await refunds.check_manual(
        tx, *ids, new, reporting=await accounts.with_self_reporting(tx, rules.reporting)
    )
    order = await orders.lock(tx, *ids)
    share = orders.settled_share(order, new.amount_minor)
    return 0 if existing_refund is not None else share, order.settled_currency


async def _record_refund(tx: Tx, request: ActionRequest, rules: Rules, now: int) -> Refund:
    new = await _refund_to_record(tx, request)
    amount = "" if request.refund is None else request.refund.amount
    await _record(tx, request, "refunds record", now, f" {amount} {new.provider_ref}"[:200])
    ids = request.merchant_id, request.subject
    return await refunds.record_manually(
        tx, *ids, new, now, reporting=await accounts.with_self_reporting(tx, rules.reporting)
    )


async def _measure_failed_refund(
    tx: Tx, request: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    refund = await refunds.find(tx, request.merchant_id, request.subject)
    await orders.lock(tx, request.merchant_id, refund.order_id)
    return refund.debit_minor, refund.debit_currency


async def _fail_refund(tx: Tx, request: ActionRequest, rules: Rules, now: int) -> Refund:
    await _record(tx, request, "refund refused", now)
    outcome = RefundOutcome(status="REFUSED", reason=request.actor.reason[:_LONGEST_ERROR])
    ids = request.merchant_id, request.subject
    return await refunds.end_manually(
        tx, *ids, outcome, now, reporting=await accounts.with_self_reporting(tx, rules.reporting)
    )


async def _reverse_refund(tx: Tx, request: ActionRequest, _rules: Rules, now: int) -> Refund:
    await _record(tx, request, "refunds reversed", now)
    reason = request.actor.reason[:_LONGEST_ERROR]
    return await refunds.reverse_manually(tx, request.merchant_id, request.subject, reason, now)


# ── disputes ──


async def _measure_win(tx: Tx, request: ActionRequest, _rules: Rules, _now: int) -> tuple[int, str]:
    dispute = await disputes.find(tx, request.merchant_id, request.subject)
    await orders.lock(tx, request.merchant_id, dispute.order_id)
    return dispute.debit_minor, dispute.debit_currency


async def _measure_recovery(
    tx: Tx, request: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    dispute = await disputes.find(tx, request.merchant_id, request.subject)
    await orders.lock(tx, request.merchant_id, dispute.order_id)
    return dispute.loss_minor, dispute.debit_currency


def _decision(event: disputes.Event, command: str) -> Callable[..., Awaitable[Dispute]]:
    async def decide(tx: Tx, request: ActionRequest, _rules: Rules, now: int) -> Dispute:
        await _record(tx, request, f"disputes {command}", now)
        ids = request.merchant_id, request.subject
        who, reason = request.actor.who, request.actor.reason
        return await disputes.decide(tx, *ids, event, who=who, reason=reason, now=now)

    return decide


# ── payouts ──


async def _measure_payout(
    tx: Tx, request: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    payout = await payouts.find(tx, request.merchant_id, request.subject)
    return payout.amount_minor + payout.fee_minor, payout.currency


async def _fail_payout(tx: Tx, request: ActionRequest, _rules: Rules, now: int) -> Payout:
    return await payouts.fail(tx, request.subject, request.actor.reason, request.actor.who, now)


async def _return_payout(tx: Tx, request: ActionRequest, _rules: Rules, now: int) -> Payout:
    reason, who = request.actor.reason, request.actor.who
    return await payouts.record_return(tx, request.subject, reason, who, now)


TABLE: Final[dict[Action, Row]] = {
    "confirm": Row(_measure_confirmation, _confirm),
    "refund": Row(_measure_refund, _refund),
    "refund-recorded": Row(_measure_recorded_refund, _record_refund),
    "refund-failed": Row(_measure_failed_refund, _fail_refund),
    "refund-reversed": Row(_measure_failed_refund, _reverse_refund),
    "dispute-won": Row(_measure_win, _decision("won", "win")),
    "dispute-recovered": Row(_measure_recovery, _decision("recovered", "recover")),
    "payout-failed": Row(_measure_payout, _fail_payout),
    "payout-returned": Row(_measure_payout, _return_payout),
}
