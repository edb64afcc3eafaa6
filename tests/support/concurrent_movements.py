"""Runs every kind of money movement on one merchant at once, from many connections.

Meanwhile the worker runs its jobs, and the books are checked again and again.
"""

import asyncio
import collections
import random
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final

import asyncpg
import msgspec
import pytest

from opentill import (
    adjustments,
    callbacks,
    checkouts,
    disputes,
    merchants,
    orders,
    payouts,
    refunds,
    worker,
)
from opentill.adjustments import AdjustmentRequest
from opentill.context import App
from opentill.core.errors import Contended, Invalid
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome, RefundOutcome
from opentill.orders.settlement import service as settlement
from opentill.outgoing.client import merchant_client
from opentill.payouts import PayoutRequest
from support import world
from support.books import assert_books
from support.world import new_reference

CONNECTIONS: Final = 16
SERVERS: Final = 3  # each server has its own connection pool and receives callbacks
DAY_S: Final = 0.5  # in this many seconds, the business clock advances by a day
_random: Final = random.Random(3)


class RandomGateway:
    """A gateway whose outcomes are random; a refund keeps its first final outcome."""

    callback_needs_body = False

    def __init__(self) -> None:
        self.refunds: dict[str, str] = {}

    def methods(self, _currency: str) -> tuple[str, ...]:
        return ("CREDIT_CARD",)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        await asyncio.sleep(0)
        return PaymentOutcome(status=_random.choice(("SUCCEEDED", "VOIDED", "UNKNOWN")))

    async def refund(self, request: Any) -> RefundOutcome:
        await asyncio.sleep(0)
        statuses = ("SUCCEEDED", "SUCCEEDED", "REFUSED", "UNKNOWN")
        status = self.refunds.get(request.refund_id) or _random.choice(statuses)
        if status != "UNKNOWN":
            self.refunds[request.refund_id] = status
        return RefundOutcome(status=status)


# Names of the methods that move money. Each of them must run at least once.
MOVEMENTS: Final = {
    "buy", "confirm_old_attempt", "refund", "report_dispute", "dispute_manually", "settle",
    "pay_out", "end_payout", "adjust_balance", "change_terms", "buy_from_other_shop",
    "report_payments", "refund_at_gateway", "reverse_refund",
}  # fmt: skip


class ConcurrentMovements:
    """Random money movements of a merchant, and purchases from another one."""

    def __init__(self, db: Db, shop: tuple[str, str], other_shop: tuple[str, str]) -> None:
        """``shop`` and ``other_shop``: ids of a merchant and of its product."""
        self.db, self.other_shop = db, other_shop
        self.shop_id, self.product_id = shop
        self.servers: list[callbacks.Confirmations] = []
        self.started_at, self.ahead_ms = time.monotonic(), 0
        self.done: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.orders: list[str] = []
        self.attempts: list[orders.PaymentAttempt] = []
        self.other_attempts: list[orders.PaymentAttempt] = []

    def now(self) -> int:
        days = (time.monotonic() - self.started_at) / DAY_S
        return world.NOW + self.ahead_ms + int(days * world.DAY)

    async def record_audit(self, tx: Tx, action: str) -> None:
        """Record an operator's action, before any lock except the merchant's, as commands do."""
        actor = merchants.Actor("ann", "why")
        await merchants.record_audit(tx, actor, action, self.shop_id, "x", self.now())

    def pick_order_id(self) -> str:
        """Return an order's id, mostly of one of the last twelve, so that movements collide."""
        recent = self.orders[-12:] if _random.random() < 0.8 else self.orders
        return _random.choice(recent)

    async def pick_row_id(self, tx: Tx, table: str, where: str) -> str | None:
        sql = f"select id from {table} where merchant_id = $1 and {where} order by random() limit 1"
        row_id: str | None = await tx.fetchval(sql, self.shop_id)
        return row_id

    async def buy(self, tx: Tx) -> orders.PaymentAttempt:
        session = await world.create_session(tx, self.shop_id, self.product_id, self.now())
        order = await orders.find(tx, self.shop_id, session.order_id)
        attempt = await world.submit_attempt(tx, order, self.now(), "bank")
        if _random.random() < 0.7:
            await self._report_success(tx, attempt)
        else:
            await world.report_payment(tx, attempt, "ACTION_REQUIRED", self.now())
            if _random.random() < 0.5:
                await checkouts.expire(tx, self.shop_id, session.id, "over", self.now())
        return attempt

    async def _report_success(self, tx: Tx, attempt: orders.PaymentAttempt) -> None:
        amount = Money(attempt.amount_minor, attempt.currency)
        await world.report_payment(tx, attempt, "SUCCEEDED", self.now(), amount=amount)

    async def confirm_old_attempt(self, tx: Tx) -> None:
        await self._report_success(tx, _random.choice(self.attempts[-30:]))

    async def buy_from_other_shop(self, tx: Tx) -> orders.PaymentAttempt:
        """Start a payment; ``report_payments`` reports it in one batch with others."""
        session = await world.create_session(tx, *self.other_shop, self.now())
        order = await orders.find(tx, session.merchant_id, session.order_id)
        return await world.submit_attempt(tx, order, self.now(), "bank")

    async def report_payments(self) -> None:
        """Send callbacks about recent payments to several servers at once, some of them twice."""
        await asyncio.gather(
            *(
                _random.choice(self.servers).confirm(
                    attempt.gateway,
                    GatewayPaymentEvent(
                        attempt_id=attempt.id,
                        outcome=PaymentOutcome(
                            status="SUCCEEDED",
                            amount=Money(attempt.amount_minor, attempt.currency),
                        ),
                    ),
                )
                for attempts in (self.attempts, self.other_attempts)
                for attempt in _random.choices(attempts[-20:], k=4)
            )
        )

    async def refund(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.pick_order_id())
        await world.create_refund(
            tx, order, _random.choice((None, "0.01", "9.00", "50.00")), self.now()
        )

    async def refund_at_gateway(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.pick_order_id())
        if order.paid_attempt_id:
            minor, ref = _random.choice((1, 900, 5_000, 10_000)), f"rf-{_random.randrange(200)}"
            await world.report_refund_event(
                tx, order, "SUCCEEDED", self.now(), minor=minor, ref=ref
            )

    async def reverse_refund(self, tx: Tx) -> None:
        refund_id = await self.pick_row_id(tx, "refunds", "status = 'SUCCEEDED'")
        if refund_id:
            refund = await refunds.find(tx, self.shop_id, refund_id)
            order = await orders.find(tx, self.shop_id, refund.order_id)
            await world.report_refund_event(
                tx, order, "REFUSED", self.now(), refund=refund, minor=refund.amount_minor,
                ref=refund.provider_ref or "rf_1",
            )  # fmt: skip

    async def report_dispute(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.pick_order_id())
        if order.paid_attempt_id:
            status = _random.choice(("OPENED", "OPENED", "WON", "LOST", "RECOVERED"))
            ref = f"d-{order.id}-{_random.randrange(2)}"
            await world.report_dispute(tx, order, status, self.now(), ref=ref)

    async def dispute_manually(self, tx: Tx) -> None:
        event = _random.choice(("opened", "won", "lost", "recovered"))
        status = {"recovered": "'LOST'"}.get(event, "'OPEN'")
        # The order is chosen before the transaction's snapshot exists, which might lack the order.
        order_id = self.pick_order_id()
        dispute_id = await self.pick_row_id(tx, "disputes", f"status = {status}")
        await self.record_audit(tx, f"disputes {event}")
        if event == "opened":
            await disputes.open_manually(
                tx, self.shop_id, order_id, who="ann", reason="why", now=self.now()
            )
        elif dispute_id:
            await disputes.decide(
                tx, self.shop_id, dispute_id, event, who="ann", reason="why", now=self.now()
            )

    async def settle(self, tx: Tx) -> None:
        order_id = self.pick_order_id()
        await self.record_audit(tx, "settle")
        if _random.random() < 0.9:
            await orders.settle_one(tx, self.shop_id, order_id, self.now(), "why")
        else:
            await settlement.settle_batch(tx, self.shop_id, self.now(), "why", early=True)

    async def pay_out(self, tx: Tx) -> None:
        amount = _random.choice((None, 100, 20_000))
        payout_request = PayoutRequest(
            amount_minor=amount, fee_minor=25, reference=new_reference(), reason="why", by="ann"
        )
        await payouts.create(tx, self.shop_id, payout_request, None, self.now())

    async def end_payout(self, tx: Tx) -> None:
        payout_id = await self.pick_row_id(tx, "payouts", "status = 'PENDING'")
        if payout_id and _random.random() < 0.6:
            await payouts.pay(tx, payout_id, "TRN", "sent", "ann", self.now())
        elif payout_id:
            await payouts.fail(tx, payout_id, "closed", "ann", self.now())
        else:
            paid_id = await self.pick_row_id(tx, "payouts", "status = 'PAID'")
            if paid_id:
                await payouts.record_return(tx, paid_id, "closed", "ann", self.now())

    async def adjust_balance(self, tx: Tx) -> None:
        kind = _random.choice((*adjustments.KINDS, "correct"))
        amount = _random.choice((100, 2_500))
        is_correction = kind == "correct"
        adjustment_request = AdjustmentRequest(
            kind=kind, reference=new_reference(), reason="why", by="ann",
            amount_minor=-amount if is_correction and _random.random() < 0.5 else amount,
            account=_random.choice(("available", "pending")) if is_correction else "available",
            order_id=self.pick_order_id() if is_correction else None,
        )  # fmt: skip
        approval_limit = Decimal(10) if _random.random() < 0.3 else None
        adjustment = await adjustments.request(
            tx, self.shop_id, adjustment_request, approval_limit, self.now()
        )
        if adjustment.status == "WAITING":
            await adjustments.approve(tx, adjustment.id, "bob", self.now())

    async def change_terms(self, tx: Tx) -> None:
        rate = Decimal(_random.randrange(50)) / 1000
        await merchants.change(
            tx, self.shop_id, self.now(), who="ann", reason="why", platform_fee_rate=rate
        )
        await self.record_audit(tx, "merchants set")

    async def run_movement(self, movement: Callable[[Tx], Awaitable[object]]) -> None:
        """Run a movement in a transaction, and share its attempt after the commit."""
        result = await self.db.run(movement)
        self.done[movement.__name__] += 1
        if isinstance(result, orders.PaymentAttempt) and result.merchant_id != self.shop_id:
            self.other_attempts.append(result)
        elif isinstance(result, orders.PaymentAttempt):
            self.orders.append(result.order_id)
            self.attempts.append(result)

    def is_unfinished(self, end: float) -> bool:
        """Whether to continue: until ``end``, or longer until each movement has run once."""
        now = time.monotonic()
        return now < end or (set(self.done) < MOVEMENTS and now < end + 180)

    async def run_random_movements(self, end: float) -> None:
        """Run one movement after the other; rules may refuse it, other errors fail the test."""
        movements: tuple[Callable[[Tx], Awaitable[object]], ...] = (
            self.buy, self.buy, self.buy, self.buy_from_other_shop, self.buy_from_other_shop,
            self.confirm_old_attempt, self.refund, self.refund, self.refund_at_gateway,
            self.reverse_refund, self.report_dispute, self.report_dispute, self.dispute_manually,
            self.settle, self.pay_out, self.end_payout, self.adjust_balance, self.adjust_balance,
            self.change_terms,
        )  # fmt: skip
        while self.is_unfinished(end):
            is_report = _random.random() < 0.2
            movement = _random.choice(movements)
            if time.monotonic() > end and _random.random() < 0.5:
                missing = [each for each in movements if each.__name__ not in self.done]
                movement = _random.choice(missing or movements)
            try:
                if is_report:
                    await self.report_payments()
                    self.done["report_payments"] += 1
                else:
                    await self.run_movement(movement)
            except Invalid:
                self.refused[movement.__name__] += 1
            except Contended:  # the API returns 503 for this error
                self.refused["contended"] += 1

    async def check_books(self, end: float) -> int:
        """Check the books repeatedly while movements run; return how often."""
        checks = 0
        while self.is_unfinished(end):
            async with self.db.snapshot() as tx:
                await assert_books(tx)
            checks += 1
            await asyncio.sleep(0.5)
        return checks


UNFINISHED: Final = """
    select 'order ' || id || ' is ' || status from orders where status = 'CREATING'
        or settle_at <= $1
        or (reserve_status = 'HELD' and status <> 'DISPUTED' and reserve_release_at <= $1)
    union all
    select 'refund ' || id from refunds where status = 'PROCESSING'
    union all
    select 'attempt ' || id from payment_attempts
    where status = 'DUPLICATE' and check_at is not null
"""


async def run_movements(db: Db, database_url: str, seconds: float) -> ConcurrentMovements:
    """Run movements for some seconds, let jobs finish, and check the data."""
    async with db.transaction() as tx:
        shop = await world.create_merchant(
            tx, reserve_rate="0.1", reserve_days=4, settlement_delay_days=2, overdraft_minor=5_000
        )
        mug = await world.create_product(tx, shop.id, "100.00")
        other = await world.create_merchant(tx, fee_changes=("CREDIT_CARD=0.02+0.30",))
        jug = await world.create_product(tx, other.id, "20.00")
    pool = await Db.connect(database_url, CONNECTIONS, acquire_timeout_s=30)
    worker_pool = await Db.connect(database_url, 8, acquire_timeout_s=30)
    server_pools = [await Db.connect(database_url, 4, acquire_timeout_s=30) for _ in range(SERVERS)]
    run = ConcurrentMovements(pool, (shop.id, mug.id), (other.id, jug.id))
    stop = asyncio.Event()
    settings = Settings(database_url=database_url, secret_key="x" * 32, sandbox_secret="x" * 32)
    outgoing = merchant_client(settings)

    def create_app(app_pool: Db) -> App:
        gateways = {"bank": RandomGateway()}
        return App(
            settings=settings, db=app_pool, outgoing=outgoing, gateways=gateways, clock=run.now
        )

    run.servers = [callbacks.Confirmations(create_app(each)) for each in server_pools]
    patch = pytest.MonkeyPatch()
    patch.setattr(
        worker, "JOBS", [msgspec.structs.replace(job, pause_s=0.3) for job in worker.JOBS]
    )
    working = asyncio.create_task(worker.work(create_app(worker_pool), stop))
    try:
        for _ in range(4):
            await run.run_movement(run.buy)
            await run.run_movement(run.buy_from_other_shop)
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(run.run_random_movements(end))
            checks = tasks.create_task(run.check_books(end))
        assert checks.result() >= 1
        if working.done():
            working.result()  # if an error has ended the worker, this raises it
        await _wait_until_finished(run)
    finally:
        stop.set()
        await asyncio.wait([working], timeout=20)
        working.cancel()
        patch.undo()
        for each in (pool, worker_pool, *server_pools):
            await each.close()
    async with db.snapshot() as tx:
        await assert_consistent(tx, run)
    return run


async def _wait_until_finished(run: ConcurrentMovements) -> None:
    """Move the clock ahead so that all jobs are due, and wait until none has work."""
    run.ahead_ms = 400 * world.DAY
    unfinished: list[Any] = []
    end = time.monotonic() + 180
    while time.monotonic() < end:
        async with run.db.connection() as tx:
            unfinished = [row[0] for row in await tx.fetch(UNFINISHED, run.now())]
        if not unfinished:
            return
        await asyncio.sleep(0.2)
    assert not unfinished, unfinished


async def assert_consistent(tx: asyncpg.Connection | Any, run: ConcurrentMovements) -> None:
    """Fail on an overdrawn payout, a broken audit chain, a deadlock or a missing movement."""
    overdrawn = await tx.fetch(
        "select id, type, available_after from entries where available_after < 0"
        " and type = 'PAYOUT' and from_account = 'available'"
    )
    assert overdrawn == []
    assert (await merchants.verify_audit(tx)).breaks == []
    assert await tx.fetchval("select deadlocks from pg_stat_database where datname"
                             " = current_database()") == 0  # fmt: skip
    assert set(run.done) == MOVEMENTS
