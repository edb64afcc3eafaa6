"""The jack hammer: all that moves money, on the same merchant, from many connections at once."""

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
SERVERS: Final = 3  # that take callbacks in, each with connections of its own
DAY_S: Final = 0.5  # a day of business passes in half a second
_random: Final = random.Random(3)


class Bank:
    """A gateway that does what it is asked, refuses, or gives no usable answer."""

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
        answers = ("SUCCEEDED", "SUCCEEDED", "REFUSED", "UNKNOWN")
        status = self.refunds.get(request.refund_id) or _random.choice(answers)
        if status != "UNKNOWN":
            self.refunds[request.refund_id] = status
        return RefundOutcome(status=status)


EVERYTHING: Final = {
    "buy", "confirm_late", "refund", "dispute", "dispute_by_hand", "settle", "pay_out",
    "payout_ends", "move", "change_terms", "buy_next_door", "report", "refund_at_gateway",
    "reverse_refund",
}  # fmt: skip


class Hammer:
    """One merchant, everybody who wants something of its money, and the merchant next door."""

    def __init__(self, db: Db, shop: tuple[str, str], next_door: tuple[str, str]) -> None:
        """Of each merchant its id and that of what it sells."""
        self.db, self.next_door = db, next_door
        self.shop_id, self.product_id = shop
        self.servers: list[callbacks.Confirmations] = []
        self.began, self.jump = time.monotonic(), 0
        self.done: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        self.orders: list[str] = []
        self.attempts: list[orders.PaymentAttempt] = []
        self.elsewhere: list[orders.PaymentAttempt] = []

    def now(self) -> int:
        return world.NOW + self.jump + int((time.monotonic() - self.began) / DAY_S * world.DAY)

    async def audit(self, tx: Tx, action: str) -> None:
        """As every command of an operator: before it locks anything but the merchant."""
        actor = merchants.Actor("ann", "why")
        await merchants.record_audit(tx, actor, action, self.shop_id, "x", self.now())

    def order_id(self) -> str:
        """The latest ones most often, so that many meet at the same."""
        recent = self.orders[-12:] if _random.random() < 0.8 else self.orders
        return _random.choice(recent)

    async def pick_id(self, tx: Tx, table: str, where: str) -> str | None:
        sql = f"select id from {table} where merchant_id = $1 and {where} order by random() limit 1"
        row_id: str | None = await tx.fetchval(sql, self.shop_id)
        return row_id

    async def buy(self, tx: Tx) -> orders.PaymentAttempt:
        session = await world.create_session(tx, self.shop_id, self.product_id, self.now())
        order = await orders.find(tx, self.shop_id, session.order_id)
        attempt = await world.submit_attempt(tx, order, self.now(), "bank")
        if _random.random() < 0.7:
            await self._received(tx, attempt)
        else:
            await world.report_payment(tx, attempt, "ACTION_REQUIRED", self.now())
            if _random.random() < 0.5:
                await checkouts.expire(tx, self.shop_id, session.id, "over", self.now())
        return attempt

    async def _received(self, tx: Tx, attempt: orders.PaymentAttempt) -> None:
        amount = Money(attempt.amount_minor, attempt.currency)
        await world.report_payment(tx, attempt, "SUCCEEDED", self.now(), amount=amount)

    async def confirm_late(self, tx: Tx) -> None:
        await self._received(tx, _random.choice(self.attempts[-30:]))

    async def buy_next_door(self, tx: Tx) -> orders.PaymentAttempt:
        """Begin to pay, so that the news of it come together with others'."""
        session = await world.create_session(tx, *self.next_door, self.now())
        order = await orders.find(tx, session.merchant_id, session.order_id)
        return await world.submit_attempt(tx, order, self.now(), "bank")

    async def report(self) -> None:
        """Be a gateway whose callbacks arrive at several servers at once, some of them twice."""
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
                for attempts in (self.attempts, self.elsewhere)
                for attempt in _random.choices(attempts[-20:], k=4)
            )
        )

    async def refund(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.order_id())
        await world.create_refund(
            tx, order, _random.choice((None, "0.01", "9.00", "50.00")), self.now()
        )

    async def refund_at_gateway(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.order_id())
        if order.paid_attempt_id:
            minor, ref = _random.choice((1, 900, 5_000, 10_000)), f"rf-{_random.randrange(200)}"
            await world.report_refund_event(
                tx, order, "SUCCEEDED", self.now(), minor=minor, ref=ref
            )

    async def reverse_refund(self, tx: Tx) -> None:
        refund_id = await self.pick_id(tx, "refunds", "status = 'SUCCEEDED'")
        if refund_id:
            refund = await refunds.find(tx, self.shop_id, refund_id)
            order = await orders.find(tx, self.shop_id, refund.order_id)
            await world.report_refund_event(
                tx, order, "REFUSED", self.now(), refund=refund, minor=refund.amount_minor,
                ref=refund.provider_ref or "rf_1",
            )  # fmt: skip

    async def dispute(self, tx: Tx) -> None:
        order = await orders.find(tx, self.shop_id, self.order_id())
        if order.paid_attempt_id:
            word = _random.choice(("OPENED", "OPENED", "WON", "LOST", "RECOVERED"))
            ref = f"d-{order.id}-{_random.randrange(2)}"
            await world.report_dispute(tx, order, word, self.now(), ref=ref)

    async def dispute_by_hand(self, tx: Tx) -> None:
        event = _random.choice(("opened", "won", "lost", "recovered"))
        status = {"recovered": "'LOST'"}.get(event, "'OPEN'")
        order_id = self.order_id()  # before the snapshot, which later ones are not in
        dispute_id = await self.pick_id(tx, "disputes", f"status = {status}")
        await self.audit(tx, f"disputes {event}")
        if event == "opened":
            await disputes.open_manually(
                tx, self.shop_id, order_id, who="ann", reason="why", now=self.now()
            )
        elif dispute_id:
            await disputes.decide(
                tx, self.shop_id, dispute_id, event, who="ann", reason="why", now=self.now()
            )

    async def settle(self, tx: Tx) -> None:
        order_id = self.order_id()
        await self.audit(tx, "settle")
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

    async def payout_ends(self, tx: Tx) -> None:
        payout_id = await self.pick_id(tx, "payouts", "status = 'PENDING'")
        if payout_id and _random.random() < 0.6:
            await payouts.pay(tx, payout_id, "TRN", "sent", "ann", self.now())
        elif payout_id:
            await payouts.fail(tx, payout_id, "closed", "ann", self.now())
        else:
            paid = await self.pick_id(tx, "payouts", "status = 'PAID'")
            if paid:
                await payouts.record_return(tx, paid, "closed", "ann", self.now())

    async def move(self, tx: Tx) -> None:
        kind = _random.choice((*adjustments.KINDS, "correct"))
        amount = _random.choice((100, 2_500))
        correct = kind == "correct"
        adjustment_request = AdjustmentRequest(
            kind=kind, reference=new_reference(), reason="why", by="ann",
            amount_minor=-amount if correct and _random.random() < 0.5 else amount,
            account=_random.choice(("available", "pending")) if correct else "available",
            order_id=self.order_id() if correct else None,
        )  # fmt: skip
        above = Decimal(10) if _random.random() < 0.3 else None
        adjustment = await adjustments.request(
            tx, self.shop_id, adjustment_request, above, self.now()
        )
        if adjustment.status == "WAITING":
            await adjustments.approve(tx, adjustment.id, "bob", self.now())

    async def change_terms(self, tx: Tx) -> None:
        rate = Decimal(_random.randrange(50)) / 1000
        await merchants.change(
            tx, self.shop_id, self.now(), who="ann", reason="why", platform_fee_rate=rate
        )
        await self.audit(tx, "merchants set")

    async def do(self, work: Callable[[Tx], Awaitable[object]]) -> None:
        """Do a thing in a transaction; what it made is there for everybody once it is committed."""
        result = await self.db.run(work)
        self.done[work.__name__] += 1
        if isinstance(result, orders.PaymentAttempt) and result.merchant_id != self.shop_id:
            self.elsewhere.append(result)
        elif isinstance(result, orders.PaymentAttempt):
            self.orders.append(result.order_id)
            self.attempts.append(result)

    def goes_on(self, end: float) -> bool:
        """Until the end, and on a busy machine until everything has happened once."""
        now = time.monotonic()
        return now < end or (set(self.done) < EVERYTHING and now < end + 180)

    async def hit(self, end: float) -> None:
        """Do one thing after the other; what the rules refuse is fine, and nothing else is."""
        movements: tuple[Callable[[Tx], Awaitable[object]], ...] = (
            self.buy, self.buy, self.buy, self.buy_next_door, self.buy_next_door,
            self.confirm_late, self.refund, self.refund, self.refund_at_gateway,
            self.reverse_refund,
            self.dispute, self.dispute, self.dispute_by_hand, self.settle, self.pay_out,
            self.payout_ends, self.move, self.move, self.change_terms,
        )  # fmt: skip
        while self.goes_on(end):
            reports = _random.random() < 0.2
            movement = _random.choice(movements)
            if time.monotonic() > end and _random.random() < 0.5:  # what it still waits for
                lacking = [each for each in movements if each.__name__ not in self.done]
                movement = _random.choice(lacking or movements)
            try:
                if reports:
                    await self.report()
                    self.done["report"] += 1
                else:
                    await self.do(movement)
            except Invalid:
                self.refused[movement.__name__] += 1
            except Contended:  # the client gets 503 and asks again, as the gateway does
                self.refused["contended"] += 1

    async def watch(self, end: float) -> int:
        """The books of any moment are right, not only those of the last."""
        looked = 0
        while self.goes_on(end):
            async with self.db.snapshot() as tx:
                await assert_books(tx)
            looked += 1
            await asyncio.sleep(0.5)
        return looked


STUCK: Final = """
    select 'order ' || id || ' is ' || status from orders where status = 'CREATING'
        or settle_at <= $1
        or (reserve_status = 'HELD' and status <> 'DISPUTED' and reserve_release_at <= $1)
    union all
    select 'refund ' || id from refunds where status = 'PROCESSING'
    union all
    select 'attempt ' || id from payment_attempts
    where status = 'DUPLICATE' and check_at is not null
"""


async def hammered(db: Db, database_url: str, seconds: float) -> Hammer:
    """Let everybody loose for so long, then see that all comes to rest and adds up."""
    async with db.transaction() as tx:
        shop = await world.create_merchant(
            tx, reserve_rate="0.1", reserve_days=4, settlement_delay_days=2, overdraft_minor=5_000
        )
        mug = await world.create_product(tx, shop.id, "100.00")
        other = await world.create_merchant(tx, fee_changes=("CREDIT_CARD=0.02+0.30",))
        jug = await world.create_product(tx, other.id, "20.00")
    many = await Db.connect(database_url, CONNECTIONS, acquire_timeout_s=30)
    jobs = await Db.connect(database_url, 8, acquire_timeout_s=30)
    pools = [await Db.connect(database_url, 4, acquire_timeout_s=30) for _ in range(SERVERS)]
    hammer = Hammer(many, (shop.id, mug.id), (other.id, jug.id))
    stop = asyncio.Event()
    settings = Settings(database_url=database_url, secret_key="x" * 32, sandbox_secret="x" * 32)
    outgoing = merchant_client(settings)

    def process(pool: Db) -> App:
        bank = {"bank": Bank()}
        return App(settings=settings, db=pool, outgoing=outgoing, gateways=bank, clock=hammer.now)

    app = process(jobs)
    hammer.servers = [callbacks.Confirmations(process(pool)) for pool in pools]
    patch = pytest.MonkeyPatch()
    patch.setattr(worker, "JOBS", [msgspec.structs.replace(job, rest_s=0.3) for job in worker.JOBS])
    working = asyncio.create_task(worker.work(app, stop))
    try:
        for _ in range(4):
            await hammer.do(hammer.buy)
            await hammer.do(hammer.buy_next_door)
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONNECTIONS):
                tasks.create_task(hammer.hit(end))
            watching = tasks.create_task(hammer.watch(end))
        assert watching.result() >= 1
        if working.done():
            working.result()  # a worker that has ended says why
        await _comes_to_rest(hammer)
    finally:
        stop.set()
        await asyncio.wait([working], timeout=20)
        working.cancel()
        patch.undo()
        for pool in (many, jobs, *pools):
            await pool.close()
    async with db.snapshot() as tx:
        await reckon(tx, hammer)
    return hammer


async def _comes_to_rest(hammer: Hammer) -> None:
    hammer.jump = 400 * world.DAY
    left: list[Any] = []
    until = time.monotonic() + 180
    while time.monotonic() < until:
        async with hammer.db.connection() as tx:
            left = [row[0] for row in await tx.fetch(STUCK, hammer.now())]
        if not left:
            return
        await asyncio.sleep(0.2)
    assert not left, left


async def reckon(tx: asyncpg.Connection | Any, hammer: Hammer) -> None:
    """Fail if a payout took more than there was, the audit chain is broken or anything waited."""
    below = await tx.fetch(
        "select id, type, available_after from entries where available_after < 0"
        " and type = 'PAYOUT' and from_account = 'available'"
    )
    assert below == []
    verdict = await merchants.verify_audit(tx)
    assert verdict.breaks == []
    assert await tx.fetchval("select deadlocks from pg_stat_database where datname"
                             " = current_database()") == 0  # fmt: skip
    assert set(hammer.done) == EVERYTHING
