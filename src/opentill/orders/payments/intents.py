"""Recording the intent to pay an order through a gateway, before the gateway is called."""

from functools import partial
from typing import Final, NamedTuple

import msgspec

from opentill.core import metrics
from opentill.core.ids import new_id
from opentill.db.database import Tx, after_commit
from opentill.gateways.choice import RouteReason, encode_reason
from opentill.gateways.model import Method
from opentill.orders import transitions
from opentill.orders.model import NewAttempt, Order, PaymentAttempt
from opentill.orders.payments.model import Payer
from opentill.orders.payments.outcomes import FIRST_CHECK_MS


class Chosen(NamedTuple):
    """How a gateway was chosen: for which day its total counts (Unix ms), and the reason.

    ``prepaid_minor`` is the fee that the payment reserves in the prepaid balance; None: the account
    is not the merchant's own.
    """

    limit_day: int | None = None
    reason: RouteReason | None = None
    prepaid_minor: int | None = None


UNCHOSEN: Final = Chosen()


async def start_attempt(
    tx: Tx, order: Order, gateway: str, method: Method, payer: Payer, now: int
) -> PaymentAttempt:
    """Record the intent to pay a locked order through a gateway: the attempt, SUBMITTED.

    Commit this before calling the gateway: if the call's result is lost, the worker queries the
    gateway by the attempt's id until the outcome is known.
    """
    attempt = await start_unlocked(tx, order, gateway, method, payer, now)
    if attempt is None:
        raise transitions.NotLocked(order)
    return attempt


async def start_unlocked(
    tx: Tx,
    order: Order,
    gateway: str,
    method: Method,
    payer: Payer,
    now: int,
    chosen: Chosen = UNCHOSEN,
) -> PaymentAttempt | None:
    """Record the intent to pay an order that is not locked, as ``start_attempt`` does.

    Writes nothing and returns None if the order changed since it was read, if the gateway's account
    has reached its limit of the day, or if the prepaid balance is too low for the fee.
    """
    new = NewAttempt(
        merchant_id=order.merchant_id,
        id=new_id("att"),
        order_id=order.id,
        gateway=gateway,
        method=method,
        status="SUBMITTED",
        amount_minor=order.amount_minor,
        currency=order.currency,
        locale=payer.locale,
        payer_ip=payer.ip,
        check_at=now + FIRST_CHECK_MS,
        limit_day=chosen.limit_day,
        prepaid_minor=chosen.prepaid_minor,
        route=None if chosen.reason is None else encode_reason(chosen.reason),
    )
    with_payer = msgspec.structs.replace(
        order, customer_email=payer.email, customer_name=payer.order_name, payer_ip=payer.ip
    )
    cause = f"{new.id} by {method} through {gateway}"
    attempt = await transitions.submit(tx, with_payer, new, cause, now)
    if attempt is not None:
        after_commit(tx, partial(metrics.count_started_attempt, gateway, method))
    return attempt


def after_intent(order: Order) -> Order:
    """Return an order as it is after the intent to pay it was recorded."""
    return msgspec.structs.replace(
        order, status="CREATING", history_number=order.history_number + 1
    )
