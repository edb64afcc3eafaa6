"""The intent to pay an order that nobody tried to pay, and its usual result: a statement each.

Each is a transaction of its own, which takes the place of one that locks the order, reads it and
its last attempt, and writes (decision 0119). An order that changed since it was read is left as it
is, and is looked at again under its lock.
"""

from functools import partial

import msgspec

from opentill.core import metrics
from opentill.db.database import Tx, once_committed
from opentill.gateways.model import Method, PaymentOutcome
from opentill.orders import service, transitions
from opentill.orders.model import Order, Payer, PaymentAttempt


async def start_first_attempt(
    tx: Tx, order: Order, gateway: str, method: Method, payer: Payer, now: int
) -> PaymentAttempt | None:
    """Record the intent as ``service.start_attempt`` does, of an order that nobody tried to pay.

    The order is not locked: None, and nothing is written, if it changed since it was read. By one
    statement, which may be a transaction of its own.
    """
    new, of_payer, cause = service.to_send(order, gateway, method, payer, now)
    attempt = await transitions.submit(tx, of_payer, new, cause, now)
    if attempt is not None:
        once_committed(tx, partial(metrics.count_started_attempt, gateway, method))
    return attempt


def as_sent(order: Order) -> Order:
    """Return an order as the intent to pay it leaves it."""
    return msgspec.structs.replace(
        order, status="CREATING", history_number=order.history_number + 1
    )


async def accept_sent(
    tx: Tx, sent: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt | None:
    """Apply that the customer must act, or that the outcome comes later, as ``service.apply_to``.

    ``sent`` is the order as the intent left it, not locked: None, and nothing is written, if it
    changed since, or if the outcome is another one.
    """
    match outcome.status:
        case "ACTION_REQUIRED" | "PENDING" as status:
            accepted = msgspec.structs.replace(
                attempt,
                status=status,
                provider_ref=outcome.provider_ref,
                action_url=outcome.action_url,
                qr_text=outcome.qr_text,
                reason=outcome.reason,
                check_at=now + service.WAITS[status],
            )
            return await transitions.accept(tx, sent, accepted, now)
        case _:
            return None
