"""A second payment of an order that its gateway keeps: the operator gives it back, and notes that.

By itself it goes back through its gateway (``payments.py``); one that the gateway refuses to give
back for good waits for a person.
"""

from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.orders import service
from opentill.orders.model import PaymentAttempt


def is_kept(attempt: PaymentAttempt) -> bool:
    """Return whether it paid an order a second time, and its gateway keeps the money for good."""
    return attempt.status == "DUPLICATE" and attempt.check_at is None


async def given_back_manually(
    tx: Tx, merchant_id: str, order_id: str, attempt_id: str, actor: Actor, now: int
) -> None:
    """Record as the operator that the money of a second payment was given back.

    Raises NotFound for an attempt that is not the order's, and Invalid for one whose money has been
    given back, or may be by its gateway.
    """
    await service.lock(tx, merchant_id, order_id)
    attempt = await service.find_attempt(tx, merchant_id, attempt_id)
    if attempt.order_id != order_id:
        raise NotFound
    if not is_kept(attempt):
        raise Invalid("attempt", "attempt must be one that its gateway refuses to give back")
    outcome = RefundOutcome(status="SUCCEEDED", provider_ref=f"by {actor.who}: {actor.reason}")
    await service.given_back(tx, attempt, outcome, now, by_operator=True)
