"""A second payment of an order that its gateway keeps: the operator gives it back, and notes that.

By itself it goes back through its gateway (``payments.py``); one that the gateway refuses to give
back for good waits for a person. So does one whose gateway does not say what became of it, or is
not in use any more.
"""

from collections.abc import Container

from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.orders import service
from opentill.orders.model import PaymentAttempt


def is_kept(attempt: PaymentAttempt, reporting: Container[str]) -> bool:
    """Return whether it paid an order a second time, and its gateway may keep the money for good.

    ``reporting`` are gateways that always say by themselves what became of a refund.
    """
    refused = attempt.check_at is None
    return attempt.status == "DUPLICATE" and (refused or attempt.gateway not in reporting)


async def given_back_manually(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    attempt_id: str,
    actor: Actor,
    now: int,
    *,
    reporting: Container[str],
) -> None:
    """Record as the operator that the money of a second payment was given back.

    Raises NotFound for an attempt that is not the order's, and Invalid for one whose money has been
    given back, or may be by a gateway of ``reporting``, as in ``is_kept``.
    """
    await service.lock(tx, merchant_id, order_id)
    attempt = await service.find_attempt(tx, merchant_id, attempt_id)
    if attempt.order_id != order_id:
        raise NotFound
    if not is_kept(attempt, reporting):
        why = "attempt must be one whose gateway refuses to give it back, or does not say if it did"
        raise Invalid("attempt", why)
    outcome = RefundOutcome(status="SUCCEEDED", provider_ref=f"by {actor.who}: {actor.reason}")
    await service.given_back(tx, attempt, outcome, now, by_operator=True)
