"""Paying an order through a gateway: intent committed, gateway called, result committed."""

from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from opentill.core.db import Db, Tx
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.gateways.model import (
    Expires,
    Gateway,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundRequest,
)
from opentill.orders import queries, service
from opentill.orders.model import Attempt, Order

_log: Final = structlog.get_logger()
_LONGEST_WAIT_MS: Final = 3_600_000


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays, as told on the hosted page."""

    email: str
    name: str | None
    ip: str
    locale: str


def return_url(public_url: str, attempt: Attempt, session_id: str) -> str:
    """Return where a gateway sends the customer back to."""
    lang = f"?lang={attempt.locale}" if attempt.locale else ""
    return f"{public_url}/checkout/{session_id}/return/{attempt.id}{lang}"


def callback_url(public_url: str, gateway: str) -> str:
    """Return where a gateway reports to."""
    return f"{public_url}/gateways/{gateway}/callback"


async def submit(  # noqa: PLR0913 - a payment and its surroundings
    db: Db,
    gateways: Mapping[str, Gateway],
    *,
    merchant_id: str,
    order_id: str,
    payer: Payer,
    method: Method,
    merchant_name: str,
    public_url: str,
    now: int,
    expires_at: int | None = None,
) -> Attempt | None:
    """Start to pay an order, and return its attempt; None if it is past paying.

    Harmless when it comes twice: while an attempt is on its way to the gateway or waits there,
    that one is returned. ``expires_at`` is until when it can be paid. Raises Invalid on ``method``
    for one that is not on offer.
    """

    async def begin(tx: Tx) -> tuple[Order, Attempt | None, bool]:
        order = await service.lock(tx, merchant_id, order_id)
        last = await queries.LAST_ATTEMPT.first(tx, merchant_id, order_id)
        if order.status != "PENDING":
            return order, last, False
        waiting = last is not None and (
            last.status == "PENDING" or (last.status == "ACTION_REQUIRED" and last.method == method)
        )
        if waiting:
            await queries.SET_CUSTOMER.run(tx, merchant_id, order_id, payer.email, payer.name)
            return order, last, False
        chosen = _choose(gateways, method, order.currency)
        attempt = await service.start_attempt(
            tx, order, gateway=chosen, method=method, email=payer.email, name=payer.name,
            locale=payer.locale, payer_ip=payer.ip, now=now,
        )  # fmt: skip
        return order, attempt, True

    order, attempt, fresh = await db.run(begin)
    if attempt is None or not fresh:
        return attempt
    request = PaymentRequest(
        attempt_id=attempt.id,
        method=method,
        amount=Money(order.amount_minor, order.currency),
        description=order.product_name,
        merchant_name=merchant_name,
        customer_email=payer.email,
        customer_name=payer.name,
        payer_ip=payer.ip,
        return_url=return_url(public_url, attempt, order.checkout_id),
        callback_url=callback_url(public_url, attempt.gateway),
        locale=payer.locale,
        expires_at=expires_at,
    )
    outcome = await gateways[attempt.gateway].pay(request)
    return await _take_in(db, attempt, outcome, now)


def _choose(gateways: Mapping[str, Gateway], method: Method, currency: str) -> str:
    for name, gateway in gateways.items():
        if method in gateway.methods(currency):
            return name
    raise Invalid("method", "method must be one of the payment methods on offer")


async def _take_in(db: Db, attempt: Attempt, outcome: PaymentOutcome, now: int) -> Attempt:
    return await db.run(lambda tx: service.hear(tx, attempt.merchant_id, attempt.id, outcome, now))


async def ask(db: Db, gateways: Mapping[str, Gateway], attempt: Attempt, now: int) -> Attempt:
    """Ask the gateway what became of an attempt and take the answer in."""
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return attempt
    outcome = await gateway.find_payment(attempt.id, attempt.provider_ref)
    return await _take_in(db, attempt, _asked(outcome), now)


def _asked(outcome: PaymentOutcome) -> PaymentOutcome:
    """Only the question did not arrive: that says nothing about the payment asked for."""
    if outcome.status == "UNREACHABLE":
        return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
    return outcome


async def close(db: Db, gateways: Mapping[str, Gateway], attempt: Attempt, now: int) -> Attempt:
    """Close the gateway's page of an attempt whose order is paid or over; ask about any other.

    Nobody shall pay late. Whoever does all the same has not lost it: it counts, or is given back.
    """
    gateway = gateways.get(attempt.gateway)
    if isinstance(gateway, Expires) and await _is_over(db, attempt):
        outcome = await gateway.expire(attempt.id, attempt.provider_ref)
        return await _take_in(db, attempt, _asked(outcome), now)
    return await ask(db, gateways, attempt, now)


async def _is_over(db: Db, attempt: Attempt) -> bool:
    async with db.connection() as tx:
        order = await service.find(tx, attempt.merchant_id, attempt.order_id)
    return order.status not in ("CREATING", "PENDING")


async def give_back(
    db: Db, gateways: Mapping[str, Gateway], attempt: Attempt, public_url: str, now: int
) -> None:
    """Give a duplicate payment back at the gateway; the attempt's id names the refund too."""
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return
    outcome = await gateway.refund(
        RefundRequest(
            refund_id=attempt.id,
            attempt_id=attempt.id,
            provider_ref=attempt.provider_ref,
            amount=Money(attempt.amount_minor, attempt.currency),
            reason="duplicate payment",
            callback_url=callback_url(public_url, attempt.gateway),
        ),
    )
    await db.run(lambda tx: service.given_back(tx, attempt, outcome, now))


def next_check(attempt: Attempt, now: int) -> int | None:
    """Return when to ask about an attempt again (Unix ms), ever more seldom; None: no more.

    An attempt whose outcome is unknown is asked for until it is known. One that waits for a
    customer who never came back is asked for until two days after it began.
    """
    if attempt.status == "ACTION_REQUIRED" and now - attempt.created_at > 2 * 24 * 3_600_000:
        return None
    first = {"ACTION_REQUIRED": 60_000, "SUBMITTED": 5_000, "DUPLICATE": 5_000}
    wait = first.get(attempt.status, 2_000) << min(attempt.checks, 12)
    return now + min(wait, _LONGEST_WAIT_MS)
