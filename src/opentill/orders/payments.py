"""Paying an order through a gateway: intent committed, gateway called, result committed."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import Gateways, candidates
from opentill.gateways.model import (
    Expires,
    Gateway,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundRequest,
)
from opentill.orders import queries, service
from opentill.orders.asking import may_ask
from opentill.orders.model import OPERATOR, Order, PaymentAttempt

_log: Final = structlog.get_logger()
_LONGEST_WAIT_MS: Final = 3_600_000
_DAY_MS: Final = 24 * 3_600_000
_MOST_GATEWAYS: Final = 3  # that one form is sent on to, while its customer waits
_PATIENCE_MS: Final = 12_000  # after which no further gateway is tried
# After its attempt, a call begins no more: it could still be on its way at the first check.
_LATEST_MS: Final = service.FIRST_CHECK_MS - 11_000  # calls last up to ten seconds


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """Who pays, as entered on the payment page."""

    email: str
    name: str | None
    prefilled: str | None = None  # the name that the merchant gave, where the payer enters none
    ip: str
    locale: str


def return_url(public_url: str, attempt: PaymentAttempt, session_id: str) -> str:
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
) -> PaymentAttempt | None:
    """Start to pay an order, and return its attempt; None if it is past paying.

    Harmless when it comes twice: while an attempt is on its way to the gateway or waits there,
    that one is returned. A gateway that surely was not reached is followed by the next that takes
    the method, in an attempt of its own; an unknown outcome never is. An attempt that took too long
    to be written is not sent: it could arrive after the gateway has reported to the worker that it
    does not know it. ``expires_at`` is until when the order can be paid. Raises Invalid on
    ``method`` for one that is not on offer.
    """
    started_ns = time.monotonic_ns()
    way = _Submission(gateways, merchant_id, order_id, payer, method)
    order, attempt, fresh = await db.run(lambda tx: way.begin(tx, now))
    tried: tuple[str, ...] = ()
    while attempt is not None and fresh:
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        if now + waited_ms - attempt.created_at > _LATEST_MS:
            late = PaymentOutcome(status="UNREACHABLE", reason="not_sent")
            return await _take_in(db, attempt, late, now)
        outcome = await gateways[attempt.gateway].pay(
            _request(order, attempt, payer, merchant_name, public_url, expires_at)
        )
        if isinstance(gateways, Gateways):
            gateways.note_reached(attempt.gateway, reached=outcome.status != "UNREACHABLE")
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        tried = (*tried, attempt.gateway)
        if outcome.status != "UNREACHABLE" or waited_ms > _PATIENCE_MS:
            return await _take_in(db, attempt, outcome, now)
        at = max(now + waited_ms, attempt.created_at + 1)
        go_on = partial(way.go_on, before=attempt, outcome=outcome, tried=tried, now=at)
        attempt, fresh = await db.run(go_on)
    return attempt


class _Submission(msgspec.Struct, frozen=True):
    """The way of one form to a gateway: its transactions, each of which may run again."""

    gateways: Mapping[str, Gateway]
    merchant_id: str
    order_id: str
    payer: Payer
    method: Method

    async def begin(self, tx: Tx, now: int) -> tuple[Order, PaymentAttempt | None, bool]:
        """Write the intent of the first attempt down, unless one is there; say if it is new."""
        order = await service.lock(tx, self.merchant_id, self.order_id)
        last = await queries.LAST_ATTEMPT.first(
            tx, merchant_id=self.merchant_id, order_id=self.order_id
        )
        if order.status != "PENDING":
            return order, last, False
        waiting = last is not None and (
            last.status == "PENDING"
            or (last.status == "ACTION_REQUIRED" and last.method == self.method)
        )
        if waiting:
            await queries.SET_CUSTOMER.run(
                tx,
                merchant_id=self.merchant_id,
                id=self.order_id,
                customer_email=self.payer.email,
                customer_name=self.payer.name or self.payer.prefilled,
            )
            return order, last, False
        able = candidates(self.gateways, self.method, order.currency)
        if not able:
            raise Invalid("method", "method must be one of the payment methods on offer")
        return order, await self._start(tx, order, able[0], now), True

    async def go_on(
        self,
        tx: Tx,
        *,
        before: PaymentAttempt,
        outcome: PaymentOutcome,
        tried: Sequence[str],
        now: int,
    ) -> tuple[PaymentAttempt, bool]:
        """End an attempt that never arrived and write the next one's intent down, if there is one.

        Not if the customer, in another tab, or a callback was faster.
        """
        ended = await service.apply_outcome(
            tx, self.merchant_id, before.id, outcome, now, gateway=before.gateway
        )
        order = await service.lock(tx, self.merchant_id, self.order_id)
        last = await queries.LAST_ATTEMPT.first(
            tx, merchant_id=self.merchant_id, order_id=self.order_id
        )
        overtaken = last is None or last.id != ended.id or order.status != "PENDING"
        able = candidates(self.gateways, self.method, order.currency)
        others = [name for name in able if name not in tried]
        if ended.status != "DECLINED" or overtaken or not others or len(tried) >= _MOST_GATEWAYS:
            return ended, False
        return await self._start(tx, order, others[0], now), True

    async def _start(self, tx: Tx, order: Order, gateway: str, now: int) -> PaymentAttempt:
        return await service.start_attempt(
            tx, order, gateway=gateway, method=self.method, email=self.payer.email,
            name=self.payer.name or self.payer.prefilled, locale=self.payer.locale,
            payer_ip=self.payer.ip, now=now,
        )  # fmt: skip


def _request(
    order: Order,
    attempt: PaymentAttempt,
    payer: Payer,
    merchant_name: str,
    public_url: str,
    expires_at: int | None,
) -> PaymentRequest:
    return PaymentRequest(
        attempt_id=attempt.id,
        method=attempt.method,
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


async def _take_in(
    db: Db, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply the outcome that the attempt's own gateway reported."""
    return await db.run(
        lambda tx: service.apply_outcome(
            tx, attempt.merchant_id, attempt.id, outcome, now, gateway=attempt.gateway
        )
    )


async def ask(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Ask the gateway what became of an attempt and apply the outcome.

    At most once in two seconds over all processes: a caller in between gets the attempt as it is.
    """
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return attempt
    if _for_the_operator(attempt):
        return attempt
    if not await may_ask(db, attempt, now):
        return attempt
    outcome = await gateway.find_payment(attempt.id, attempt.provider_ref)
    return await _take_in(db, attempt, _asked(outcome), now)


def _asked(outcome: PaymentOutcome) -> PaymentOutcome:
    """Return UNKNOWN for UNREACHABLE: a failed enquiry says nothing about the payment itself."""
    if outcome.status == "UNREACHABLE":
        return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
    return outcome


async def close(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Close the gateway's page of an attempt whose order is paid or over; ask about any other.

    Nobody shall pay late. Whoever does all the same has not lost it: it counts, or is given back.
    """
    gateway = gateways.get(attempt.gateway)
    theirs = not _for_the_operator(attempt)
    if theirs and isinstance(gateway, Expires) and await _is_over(db, attempt):
        outcome = await gateway.expire(attempt.id, attempt.provider_ref)
        return await _take_in(db, attempt, _asked(outcome), now)
    return await ask(db, gateways, attempt, now)


async def _is_over(db: Db, attempt: PaymentAttempt) -> bool:
    async with db.connection() as tx:
        order = await service.find(tx, attempt.merchant_id, attempt.order_id)
    return order.status not in ("CREATING", "PENDING")


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
    outcome = await gateway.refund(
        RefundRequest(
            refund_id=attempt.id,
            attempt_id=attempt.id,
            provider_ref=attempt.provider_ref,
            amount=Money(attempt.amount_minor, attempt.currency),
            reason="duplicate payment",
            callback_url=callback_url(public_url, attempt.gateway),
            repeated=not first,
        ),
    )
    if first and outcome.status == "UNREACHABLE":
        await db.run(lambda tx: queries.NOT_GIVEN_BACK.run(tx, merchant_id=merchant_id, id=id_))
    await db.run(lambda tx: service.given_back(tx, attempt, outcome, now))


def next_check(attempt: PaymentAttempt, now: int) -> int | None:
    """Return when to ask about an attempt again (Unix ms), ever more seldom; None: no more.

    An attempt whose outcome is unknown is asked for until it is known. One that waits for a
    customer who never came back is asked for daily after two days, and no more after 30: longer
    than any provider keeps a page open. A payment that the operator confirms is not asked for.
    """
    if _for_the_operator(attempt):
        return None
    age = now - attempt.created_at
    if attempt.status == "ACTION_REQUIRED" and age > 2 * _DAY_MS:
        return now + _DAY_MS if age <= 30 * _DAY_MS else None
    first = {"ACTION_REQUIRED": 60_000, "SUBMITTED": 5_000, "DUPLICATE": 5_000}
    wait = first.get(attempt.status, 2_000) << min(attempt.checks, 12)
    return now + min(wait, _LONGEST_WAIT_MS)


def _for_the_operator(attempt: PaymentAttempt) -> bool:
    return attempt.gateway == OPERATOR and attempt.status == "ACTION_REQUIRED"
