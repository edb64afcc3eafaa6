"""Duplicate payments: a second payment of an order is returned to its customer.

Its gateway is asked to return it. If the gateway refuses for good, does not report the outcome, or
is no longer in use, an operator returns the money and records that here.
"""

from collections.abc import Container, Mapping
from typing import Final

import structlog

from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import observe_call
from opentill.gateways.model import Gateway, PaymentOutcome, RefundOutcome, RefundRequest
from opentill.merchants import Actor
from opentill.orders import service
from opentill.orders.model import Order, PaymentAttempt
from opentill.orders.order_history import note
from opentill.orders.payments import queries
from opentill.orders.payments.outcomes import write_attempt
from opentill.orders.payments.service import callback_url
from opentill.orders.queries import ATTEMPT

_log: Final = structlog.get_logger()


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
    await given_back(tx, attempt, outcome, now, by_operator=True)


async def give_back(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, public_url: str, now: int
) -> None:
    """Give a duplicate payment back at the gateway; the attempt's id names the refund too."""
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return
    merchant_id, id_ = attempt.merchant_id, attempt.id
    first = bool(
        await db.run(lambda tx: queries.GIVING_BACK.run(tx, merchant_id=merchant_id, id=id_))
    )
    request = RefundRequest(
        refund_id=attempt.id,
        attempt_id=attempt.id,
        provider_ref=attempt.provider_ref,
        amount=Money(attempt.amount_minor, attempt.currency),
        reason="duplicate payment",
        callback_url=callback_url(public_url, attempt.gateway),
        repeated=not first,
    )
    outcome = await observe_call(attempt.gateway, "refund", gateway.refund(request))
    if first and outcome.status == "UNREACHABLE":
        await db.run(lambda tx: queries.NOT_GIVEN_BACK.run(tx, merchant_id=merchant_id, id=id_))
    await db.run(lambda tx: given_back(tx, attempt, outcome, now))


async def given_back(
    tx: Tx,
    attempt: PaymentAttempt,
    outcome: RefundOutcome,
    now: int,
    *,
    by_operator: bool = False,
) -> None:
    """Apply the outcome of giving a duplicate payment back, from a response or a callback.

    A gateway that refuses for good is not asked again: the operator sees it in the order's history.
    So it is where the gateway says afterwards that giving back has failed, such as for a customer's
    account that is closed. Then only the operator says that it was given back all the same.
    Repeated and late outcomes change nothing.
    """
    order = await service.lock(tx, attempt.merchant_id, attempt.order_id)
    current = await ATTEMPT.first(tx, merchant_id=attempt.merchant_id, id=attempt.id)
    if current is None or current.status not in ("DUPLICATE", "GIVEN_BACK"):
        return
    is_back = current.status == "GIVEN_BACK"
    if outcome.status == "SUCCEEDED" and not is_back:
        if current.check_at is None and not by_operator:
            # It may be late, and have failed since. If not, somebody has given it back elsewhere.
            _log.error(
                "duplicate said to be given back", attempt=attempt.id, by=outcome.provider_ref
            )
            return
        cause = f"{attempt.id} {outcome.provider_ref}".strip()
        done = PaymentOutcome(status="SUCCEEDED")
        await write_attempt(tx, current, "GIVEN_BACK", done, None, now)
        await note(tx, order, "payment_given_back", cause, now)
    elif outcome.status == "REFUSED" and (is_back or current.check_at is not None):
        if is_back and await _is_noted(tx, order, "payment_not_given_back", attempt.id):
            return  # the operator has given it back since
        _log.error(
            "duplicate not given back",
            attempt=attempt.id, was=current.status, reason=outcome.reason,
        )  # fmt: skip
        reason = outcome.reason or "refused"
        key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
        if is_back:
            await queries.CAME_BACK.run(tx, **key, reason=reason, now=now)
        else:
            await queries.STOP_GIVING_BACK.run(tx, **key, reason=reason)
        cause = f"{attempt.id}: {reason}"
        await note(tx, order, "payment_not_given_back", cause, now)


async def _is_noted(tx: Tx, order: Order, event: str, beginning: str) -> bool:
    """Return whether the order's history has an event whose cause begins so."""
    lines = await service.history(tx, order.merchant_id, order.id)
    return any(line.event == event and line.cause.startswith(beginning) for line in lines)
