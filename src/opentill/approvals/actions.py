"""The table of manual actions: how much each moves, and how it is performed.

Each is measured and performed under the same locks: the merchant, the head of the audit log, and
the order.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from opentill import disputes, merchants, orders, payouts, refunds
from opentill.approvals.model import Action, ActionRequest, Rules
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.gateways.model import RefundOutcome
from opentill.orders import Order
from opentill.payouts import Payout
from opentill.refunds import NewMadeAtGateway, Refund, RefundBody

Done = Order | Refund | Dispute | Payout
_LONGEST_ERROR: Final = 200  # characters of why a refund has failed


class Row(NamedTuple):
    """One action.

    ``measure`` returns the amount that counts against the limit (minor units, 0 for none) and its
    currency; ``apply`` performs the action.
    """

    measure: Callable[[Tx, ActionRequest, Rules, int], Awaitable[tuple[int, str]]]
    apply: Callable[[Tx, ActionRequest, Rules, int], Awaitable[Done]]


async def _record(tx: Tx, asked: ActionRequest, action: str, now: int, more: str = "") -> None:
    subject = f"{asked.subject}{more}"
    await merchants.record_audit(tx, asked.actor, action, asked.merchant_id, subject, now)


# ── confirming an order that no gateway has confirmed ──


async def _measure_confirmation(
    tx: Tx, asked: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    """Return what the merchant is credited; nothing if a customer waits for the confirmation."""
    order = await orders.lock(tx, asked.merchant_id, asked.subject)
    if not orders.can(order, "confirmed"):
        raise Invalid("orderId", f"an order that is {order.status} cannot be confirmed")
    if await orders.awaits_confirmation(tx, order):
        return 0, order.settled_currency
    return order.gross_settled_minor, order.settled_currency


async def _confirm(tx: Tx, asked: ActionRequest, rules: Rules, now: int) -> Order:
    await _record(tx, asked, "orders confirm", now)
    who, why = asked.actor.who, asked.actor.reason
    ids = asked.merchant_id, asked.subject
    return await orders.confirm_manually(tx, *ids, who, why, now, livemode=rules.livemode)


# ── refunds ──


def _body(asked: ActionRequest) -> RefundBody:
    if asked.refund is None:
        raise AssertionError  # the request of a refund has it
    number = asked.refund.refund_no
    return RefundBody(amount=asked.refund.amount, reason=asked.actor.reason, refund_no=number)


async def _measure_refund(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> tuple[int, str]:
    """Return what the refund is worth in the merchant's currency, whoever pays it."""
    order = await orders.lock(tx, asked.merchant_id, asked.subject)
    ids = asked.merchant_id, asked.subject
    if asked.refund is not None and not asked.refund.forced:
        await merchants.require(tx, asked.merchant_id, "refund")
    quote = await refunds.quote(tx, *ids, _body(asked), now, source=order.source)
    return orders.settled_share(order, quote.amount_minor), order.settled_currency


async def _refund(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> Refund:
    details, merchant_id = asked.refund, asked.merchant_id
    if details is None:
        raise AssertionError  # as in ``_body``
    off = (await merchants.find(tx, merchant_id)).refund_off
    if not details.forced:
        await merchants.require(tx, merchant_id, "refund")
    more = f", forced: refund is off ({off})" if details.forced and off is not None else ""
    await _record(tx, asked, "orders refund", now, more)
    order = await orders.lock(tx, merchant_id, asked.subject)
    return await refunds.create(
        tx, merchant_id, order.id, _body(asked), now, source=order.source, forced=details.forced
    )


async def _made_elsewhere(tx: Tx, asked: ActionRequest) -> NewMadeAtGateway:
    """Return a refund that was made at a provider, as somebody records it. Raises Invalid."""
    if asked.refund is None:
        raise AssertionError  # as in ``_body``
    order = await orders.lock(tx, asked.merchant_id, asked.subject)
    try:
        minor = money.parse(asked.refund.amount, order.currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    return NewMadeAtGateway(
        amount_minor=minor, reason=asked.actor.reason, provider_ref=asked.refund.reference or ""
    )


async def _measure_recorded_refund(
    tx: Tx, asked: ActionRequest, rules: Rules, _now: int
) -> tuple[int, str]:
    """Return what a refund that was made elsewhere takes; nothing if it is recorded already."""
    new, ids = await _made_elsewhere(tx, asked), (asked.merchant_id, asked.subject)
    existing_refund = await refunds.check_manual(tx, *ids, new, reporting=rules.reporting)
    order = await orders.lock(tx, *ids)
    share = orders.settled_share(order, new.amount_minor)
    return 0 if existing_refund is not None else share, order.settled_currency


async def _record_refund(tx: Tx, asked: ActionRequest, rules: Rules, now: int) -> Refund:
    new = await _made_elsewhere(tx, asked)
    amount = "" if asked.refund is None else asked.refund.amount
    await _record(tx, asked, "refunds record", now, f" {amount} {new.provider_ref}"[:200])
    ids = asked.merchant_id, asked.subject
    return await refunds.record_manually(tx, *ids, new, now, reporting=rules.reporting)


async def _measure_failed_refund(
    tx: Tx, asked: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    refund = await refunds.find(tx, asked.merchant_id, asked.subject)
    await orders.lock(tx, asked.merchant_id, refund.order_id)
    return refund.debit_minor, refund.debit_currency


async def _fail_refund(tx: Tx, asked: ActionRequest, rules: Rules, now: int) -> Refund:
    await _record(tx, asked, "refund refused", now)
    outcome = RefundOutcome(status="REFUSED", reason=asked.actor.reason[:_LONGEST_ERROR])
    ids = asked.merchant_id, asked.subject
    return await refunds.end_manually(tx, *ids, outcome, now, reporting=rules.reporting)


async def _reverse_refund(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> Refund:
    await _record(tx, asked, "refunds reversed", now)
    reason = asked.actor.reason[:_LONGEST_ERROR]
    return await refunds.reverse_manually(tx, asked.merchant_id, asked.subject, reason, now)


# ── disputes ──


async def _measure_win(tx: Tx, asked: ActionRequest, _rules: Rules, _now: int) -> tuple[int, str]:
    dispute = await disputes.find(tx, asked.merchant_id, asked.subject)
    await orders.lock(tx, asked.merchant_id, dispute.order_id)
    return dispute.debit_minor, dispute.debit_currency


async def _measure_recovery(
    tx: Tx, asked: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    dispute = await disputes.find(tx, asked.merchant_id, asked.subject)
    await orders.lock(tx, asked.merchant_id, dispute.order_id)
    return dispute.loss_minor, dispute.debit_currency


def _deciding(event: disputes.Event, command: str) -> Callable[..., Awaitable[Dispute]]:
    async def decide(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> Dispute:
        await _record(tx, asked, f"disputes {command}", now)
        ids = asked.merchant_id, asked.subject
        who, reason = asked.actor.who, asked.actor.reason
        return await disputes.decide(tx, *ids, event, who=who, reason=reason, now=now)

    return decide


# ── payouts ──


async def _measure_payout(
    tx: Tx, asked: ActionRequest, _rules: Rules, _now: int
) -> tuple[int, str]:
    payout = await payouts.find(tx, asked.merchant_id, asked.subject)
    return payout.amount_minor + payout.fee_minor, payout.currency


async def _fail_payout(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> Payout:
    return await payouts.fail(tx, asked.subject, asked.actor.reason, asked.actor.who, now)


async def _return_payout(tx: Tx, asked: ActionRequest, _rules: Rules, now: int) -> Payout:
    reason, who = asked.actor.reason, asked.actor.who
    return await payouts.record_return(tx, asked.subject, reason, who, now)


TABLE: Final[dict[Action, Row]] = {
    "confirm": Row(_measure_confirmation, _confirm),
    "refund": Row(_measure_refund, _refund),
    "refund-recorded": Row(_measure_recorded_refund, _record_refund),
    "refund-failed": Row(_measure_failed_refund, _fail_refund),
    "refund-reversed": Row(_measure_failed_refund, _reverse_refund),
    "dispute-won": Row(_measure_win, _deciding("won", "win")),
    "dispute-recovered": Row(_measure_recovery, _deciding("recovered", "recover")),
    "payout-failed": Row(_measure_payout, _fail_payout),
    "payout-returned": Row(_measure_payout, _return_payout),
}
