"""Several gateways: the order of calls, failover, and isolation of slow ones."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from opentill import checkouts, orders, worker
from opentill.checkouts import jobs as checkout_jobs
from opentill.context import App
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.gateways import Gateway, Gateways, PaymentOutcome, PaymentRequest, RefundOutcome
from opentill.gateways.manual import ManualGateway
from opentill.orders import Order, PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.orders.payments import service as payments
from opentill.outgoing.client import merchant_client
from opentill.refunds import jobs as refund_jobs
from support.waits import find_waiting_session
from support.world import (
    DAY,
    NOW,
    create_merchant,
    create_order,
    create_refund,
    read_attempts,
    read_history,
)

PUBLIC = "http://127.0.0.1:9"


class Provider:
    """A gateway that returns a fixed status and records its calls."""

    def __init__(self, name: str, status: str = "ACTION_REQUIRED", delay_s: float = 0) -> None:
        self.name, self.status, self.delay_s = name, status, delay_s
        self.attempts: list[str] = []
        self.queries: list[str] = []

    def methods(self, currency: str) -> tuple[str, ...]:
        return ("CREDIT_CARD", "ALIPAY") if currency == "USD" else ()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        self.attempts.append(request.attempt_id)
        await asyncio.sleep(self.delay_s)
        url = f"https://{self.name}.example/pay" if self.status == "ACTION_REQUIRED" else ""
        return PaymentOutcome(status=self.status, action_url=url, reason=f"{self.name} says so")

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        self.queries.append(attempt_id)
        await asyncio.sleep(self.delay_s)
        return PaymentOutcome(status="SUCCEEDED")

    async def refund(self, request: Any) -> RefundOutcome:
        self.queries.append(request.refund_id)
        await asyncio.sleep(self.delay_s)
        return RefundOutcome(status="SUCCEEDED")

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        raise AssertionError(refund_id)

    async def close(self) -> None: ...


async def new(db: Db) -> Order:
    return await db.run(create_order)


async def pay(
    db: Db, gateways: Mapping[str, Any], order: Order, method: str = "CREDIT_CARD", now: int = NOW
) -> PaymentAttempt:
    entered = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method=method, ip="192.0.2.7", locale="en"
    )
    attempt = await checkouts.pay(db, gateways, order.checkout_id, entered, PUBLIC, now)
    assert attempt is not None
    return attempt


async def look(db: Db, order: Order) -> tuple[Order, list[PaymentAttempt]]:
    async with db.connection() as tx:
        current = await orders.find(tx, order.merchant_id, order.id)
        return current, await read_attempts(tx, order)


FAILOVERS = [
    #  first says         second says        asked      attempts end as                order
    ("UNREACHABLE", "ACTION_REQUIRED", (1, 1), ["DECLINED", "ACTION_REQUIRED"], "PENDING"),
    ("UNREACHABLE", "SUCCEEDED", (1, 1), ["DECLINED", "SUCCEEDED"], "PAID"),
    ("UNREACHABLE", "UNREACHABLE", (1, 1), ["DECLINED", "DECLINED"], "PENDING"),
    ("UNREACHABLE", "UNKNOWN", (1, 1), ["DECLINED", "SUBMITTED"], "CREATING"),
    ("UNKNOWN", "SUCCEEDED", (1, 0), ["SUBMITTED"], "CREATING"),
    ("NOT_FOUND", "SUCCEEDED", (1, 0), ["SUBMITTED"], "CREATING"),
    ("DECLINED", "SUCCEEDED", (1, 0), ["DECLINED"], "PENDING"),
    ("REFUSED", "SUCCEEDED", (1, 0), ["REFUSED"], "FAILED"),
    ("PENDING", "SUCCEEDED", (1, 0), ["PENDING"], "PENDING"),
]


@pytest.mark.parametrize(("first", "second", "calls", "ends", "becomes"), FAILOVERS)
async def test_only_unreachable_gateways_fail_over_to_the_next(
    db: Db, first: str, second: str, calls: tuple[int, int], ends: list[str], becomes: str
) -> None:
    first_provider, second_provider = Provider("one", first), Provider("two", second)
    order = await new(db)
    last = await pay(db, {"one": first_provider, "two": second_provider}, order)
    current, tried = await look(db, order)
    assert (len(first_provider.attempts), len(second_provider.attempts)) == calls
    assert ([attempt.status for attempt in tried], current.status) == (ends, becomes)
    assert last.id == tried[-1].id
    assert [attempt.gateway for attempt in tried] == ["one", "two"][: sum(calls)]
    assert len({attempt.id for attempt in tried}) == sum(calls)
    async with db.connection() as tx:
        events = [line.event for line in await read_history(tx, order)]
    assert events.count("submitted") == sum(calls)


async def test_the_next_intent_is_committed_before_its_call(db: Db) -> None:
    order = await new(db)

    class CheckingProvider(Provider):
        async def pay(self, request: PaymentRequest) -> PaymentOutcome:
            current, tried = await look(db, order)
            assert (tried[-1].id, tried[-1].status) == (request.attempt_id, "SUBMITTED")
            assert (current.status, tried[0].status) == ("CREATING", "DECLINED")
            assert request.return_url.split("/return/")[1].startswith(request.attempt_id)
            assert request.callback_url.endswith("/gateways/two/callback")
            return await super().pay(request)

    second_provider = CheckingProvider("two")
    await pay(db, {"one": Provider("one", "UNREACHABLE"), "two": second_provider}, order)
    assert len(second_provider.attempts) == 1


async def test_failover_ends_after_three_gateways(db: Db) -> None:
    gateways = {name: Provider(name, "UNREACHABLE") for name in ("a", "b", "c", "d")}
    order = await new(db)
    await pay(db, gateways, order)
    assert [len(gateway.attempts) for gateway in gateways.values()] == [1, 1, 1, 0]
    current, _ = await look(db, order)
    assert current.status == "PENDING"


async def test_an_unreachable_gateway_comes_last_for_a_while(db: Db) -> None:
    first_provider, second_provider = Provider("one", "UNREACHABLE"), Provider("two")
    gateways = Gateways({"one": first_provider, "two": second_provider}, {}, {})  # type: ignore[dict-item]
    for _ in range(3):
        await pay(db, gateways, await new(db))
    assert (len(first_provider.attempts), len(second_provider.attempts)) == (1, 3)


async def test_an_attempt_whose_write_waited_too_long_is_not_sent(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the worker could query it, get NOT_FOUND, and end it before the call has ended."""
    ahead_ns, real_ns = 0, time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: real_ns() + ahead_ns)
    first_provider, second_provider = Provider("one", "SUCCEEDED"), Provider("two", "SUCCEEDED")
    order = await new(db)
    async with db.transaction() as tx:
        await orders.lock(tx, *ids(order))
        paying = asyncio.create_task(
            pay(db, {"one": first_provider, "two": second_provider}, order)
        )
        while await find_waiting_session(tx) is None:
            await asyncio.sleep(0.01)
        ahead_ns = 4_001_000_000
    assert (await paying).status == "DECLINED"
    assert first_provider.attempts + second_provider.attempts == []
    again = await pay(db, {"one": first_provider, "two": second_provider}, order, now=NOW + 5_000)
    assert (again.status, (await look(db, order))[0].status) == ("SUCCEEDED", "PAID")


async def test_concurrent_payments_fail_over_once(db: Db) -> None:
    first_provider, second_provider = (
        Provider("one", "UNREACHABLE", delay_s=0.1),
        Provider("two", delay_s=0.1),
    )
    order = await new(db)
    gateways = {"one": first_provider, "two": second_provider}
    await asyncio.gather(*(pay(db, gateways, order) for _ in range(6)))
    _, tried = await look(db, order)
    assert [attempt.gateway for attempt in tried] == ["one", "two"]


async def test_a_slow_gateway_delays_no_other(database_url: str) -> None:
    """Sixty attempts and refunds of a gateway that hangs are due before those of another."""
    db = await Db.connect(database_url, 8, acquire_timeout_s=30)
    slow, quick = Provider("slow", delay_s=3600), Provider("quick")
    app = App(
        settings=Settings(), db=db, outgoing=merchant_client(Settings()),
        gateways={"slow": slow, "quick": quick}, clock=lambda: NOW + DAY // 24,
    )  # fmt: skip
    hung = {"slow": Provider("slow")}
    for _ in range(60):
        await pay(db, hung, await new(db))
    mine = [await new(db) for _ in range(3)]
    for order in mine:
        await pay(db, {"quick": quick}, order, now=NOW + 1)
    async with db.transaction() as tx:
        shop = await create_merchant(tx, overdraft_minor=10**6)
        assert shop
    stop = asyncio.Event()
    working = asyncio.create_task(worker.work(app, stop))
    try:
        for order in mine:
            for _ in range(600):
                if (await look(db, order))[0].status == "PAID":
                    break
                await asyncio.sleep(0.05)
            assert (await look(db, order))[0].status == "PAID"
        assert slow.queries
        async with db.transaction() as tx:
            await create_refund(
                tx, await orders.find(tx, mine[0].merchant_id, mine[0].id), None, NOW
            )
        for _ in range(600):
            if (await look(db, mine[0]))[0].status == "REFUNDED":
                break
            await asyncio.sleep(0.05)
        assert (await look(db, mine[0]))[0].status == "REFUNDED"
    finally:
        working.cancel()
        await asyncio.wait([working])
        await db.close()


async def test_attempts_of_a_removed_gateway_are_processed(db: Db) -> None:
    order = await new(db)
    await pay(db, {"old": Provider("old")}, order)
    others = order_jobs.jobs.GatewayFilter(("one",), included=False)
    then = NOW + 120_000
    assert await order_jobs.check_attempts(db, {}, PUBLIC, then, only=others) >= 1
    only = order_jobs.jobs.GatewayFilter(("one",))
    assert await order_jobs.check_attempts(db, {}, PUBLIC, then + DAY, only=only) == 0
    assert await refund_jobs.send_due(db, {}, PUBLIC, then, only=only) == 0


AGES = [
    #  status            gateway    age             asked again after
    ("ACTION_REQUIRED", "sandbox", 0, 60_000),
    ("ACTION_REQUIRED", "sandbox", 2 * DAY, 3_600_000),
    ("ACTION_REQUIRED", "sandbox", 2 * DAY + 1, DAY),
    ("ACTION_REQUIRED", "sandbox", 30 * DAY, DAY),
    ("ACTION_REQUIRED", "sandbox", 30 * DAY + 1, None),
    ("PENDING", "sandbox", 90 * DAY, 3_600_000),
    ("SUBMITTED", "sandbox", 90 * DAY, 3_600_000),
    ("ACTION_REQUIRED", "manual", 0, None),
    ("SUBMITTED", "manual", 0, 5_000),
]


@pytest.mark.parametrize(("status", "gateway", "age", "after"), AGES)
async def test_open_attempts_are_queried_at_growing_intervals(
    db: Db, status: str, gateway: str, age: int, after: int | None
) -> None:
    new_attempt = await pay(db, {"one": Provider("one")}, await new(db))
    attempt = msgspec.structs.replace(
        new_attempt, status=status, gateway=gateway, checks=20 if age else 0, created_at=NOW
    )
    again = payments.next_check(attempt, NOW + age)
    assert (None if again is None else again - NOW - age) == after


MANUAL: dict[str, Gateway] = {"manual": ManualGateway({"": "IBAN XX00 1234\nOpenTill Ltd"})}


async def transfer(db: Db) -> tuple[Order, PaymentAttempt]:
    order = await new(db)
    return order, await pay(db, MANUAL, order, "BANK_TRANSFER")


async def test_a_transfer_waits_and_is_confirmed_on_its_own_attempt(db: Db) -> None:
    order, attempt = await transfer(db)
    assert (attempt.status, attempt.qr_text) == ("ACTION_REQUIRED", "IBAN XX00 1234\nOpenTill Ltd")
    assert (await pay(db, MANUAL, order, "BANK_TRANSFER")).id == attempt.id
    for days in (0.001, 0.5, 0.9):
        at = NOW + int(days * DAY)
        await order_jobs.check_attempts(db, MANUAL, PUBLIC, at)
    assert (await look(db, order))[0].status == "PENDING"
    await db.run(
        lambda tx: orders.confirm_manually(tx, *ids(order), "ann", "statement 7", NOW + DAY)
    )
    current, tried = await look(db, order)
    assert (current.status, current.payment_method) == ("PAID", "BANK_TRANSFER")
    assert [(a.id, a.status) for a in tried] == [(attempt.id, "SUCCEEDED")]
    assert current.paid_attempt_id == attempt.id


def ids(order: Order) -> tuple[str, str]:
    return order.merchant_id, order.id


async def test_a_transfer_that_comes_after_the_session_has_expired_pays(db: Db) -> None:
    order, attempt = await transfer(db)
    at = NOW + 3 * DAY
    while await checkout_jobs.expire_due(db, at):
        pass
    await order_jobs.check_attempts(db, MANUAL, PUBLIC, at)
    assert (await look(db, order))[0].status == "CLOSED"
    await db.run(lambda tx: orders.confirm_manually(tx, *ids(order), "ann", "late", at))
    current, tried = await look(db, order)
    assert (current.status, current.paid_attempt_id) == ("PAID", attempt.id)
    assert [a.status for a in tried] == ["SUCCEEDED"]


async def test_a_customer_may_pay_otherwise_after_choosing_a_transfer(db: Db) -> None:
    order, attempt = await transfer(db)
    card = await pay(db, {**MANUAL, "one": Provider("one", "SUCCEEDED")}, order, now=NOW + 1)
    assert card.id != attempt.id
    current, tried = await look(db, order)
    assert (current.status, [a.status for a in tried]) == ("PAID", ["ACTION_REQUIRED", "SUCCEEDED"])


async def test_a_refund_of_a_transfer_waits_for_the_operator(db: Db) -> None:
    order, _ = await transfer(db)
    await db.run(lambda tx: orders.confirm_manually(tx, *ids(order), "ann", "seen", NOW + 1))
    async with db.transaction() as tx:
        await create_refund(tx, await orders.find(tx, *ids(order)), "9.99", NOW + 2)
    await refund_jobs.send_due(db, MANUAL, PUBLIC, NOW + 3)
    assert (await look(db, order))[0].refund_held_minor == Money(999, "USD").minor


async def test_open_payments_survive_changes_of_the_configuration(db: Db) -> None:
    """The gateway's methods are restricted, then it is removed, then added again."""
    first_provider, other = Provider("one", "ACTION_REQUIRED"), Provider("other", "ACTION_REQUIRED")
    waits, unknown, paid = [await new(db) for _ in range(3)]
    first = await pay(db, {"one": first_provider}, waits)
    first_provider.status = "UNKNOWN"
    await pay(db, {"one": first_provider}, unknown)
    first_provider.status = "SUCCEEDED"
    await pay(db, {"one": first_provider}, paid)
    both: dict[str, Any] = {"one": first_provider, "other": other}
    narrowed = Gateways(both, {}, {"one": {"ALIPAY": ()}})
    assert (await pay(db, narrowed, waits)).id == first.id  # the page that is open stays
    assert (await pay(db, narrowed, await new(db))).gateway == "other"
    async with db.transaction() as tx:
        await create_refund(tx, (await orders.find(tx, *ids(paid))), "9.00", NOW)
    rest = order_jobs.jobs.GatewayFilter(("other",), included=False)
    for hours in range(1, 4):
        then = NOW + hours * DAY // 24
        await order_jobs.check_attempts(db, {"other": other}, PUBLIC, then, only=rest)
        await refund_jobs.send_due(db, {"other": other}, PUBLIC, then, only=rest)
    statuses = [(await look(db, order))[0].status for order in (waits, unknown)]
    assert statuses == ["PENDING", "CREATING"]
    back = order_jobs.jobs.GatewayFilter(("one",))
    then = NOW + DAY // 2
    await order_jobs.check_attempts(db, both, PUBLIC, then, only=back)
    await refund_jobs.send_due(db, both, PUBLIC, then, only=back)
    after = [await look(db, order) for order in (waits, unknown, paid)]
    assert [order.status for order, _ in after] == ["PAID", "PAID", "PAID"]
    assert after[2][0].refunded_minor == 900
    assert [len(tried) for _, tried in after] == [1, 1, 1]
