"""With several gateways: order of calls, failover, and isolation of slow gateways."""

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
from opentill.gateways.choice import PassedOver, decode_reason
from opentill.gateways.manual import ManualGateway
from opentill.orders import Order, PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.orders.payments import service as payments
from opentill.outgoing.client import merchant_client
from opentill.refunds import jobs as refund_jobs
from support.routing import create_account
from support.waits import find_waiting_session
from support.world import (
    DAY,
    NOW,
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


async def create(db: Db) -> Order:
    """Create an order in a transaction."""
    return await db.run(create_order)


async def pay(
    db: Db, gateways: Mapping[str, Any], order: Order, method: str = "CREDIT_CARD", now: int = NOW
) -> PaymentAttempt:
    payer = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method=method, ip="192.0.2.7", locale="en"
    )
    attempt = await checkouts.pay(db, gateways, order.checkout_id, payer, PUBLIC, now)
    assert attempt is not None
    return attempt


async def read_order_and_attempts(db: Db, order: Order) -> tuple[Order, list[PaymentAttempt]]:
    async with db.connection() as tx:
        current = await orders.find(tx, order.merchant_id, order.id)
        return current, await read_attempts(tx, order)


FAILOVERS = [
    # Each row: statuses of the first and second gateway, number of calls of each, statuses of the
    # attempts, status of the order.
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


@pytest.mark.parametrize(
    ("first_status", "second_status", "calls", "attempt_statuses", "order_status"), FAILOVERS
)
async def test_a_payment_fails_over_only_if_the_gateway_is_unreachable(
    db: Db,
    first_status: str,
    second_status: str,
    calls: tuple[int, int],
    attempt_statuses: list[str],
    order_status: str,
) -> None:
    first_provider = Provider("one", first_status)
    second_provider = Provider("two", second_status)
    order = await create(db)
    last_attempt = await pay(db, {"one": first_provider, "two": second_provider}, order)
    current, order_attempts = await read_order_and_attempts(db, order)
    assert (len(first_provider.attempts), len(second_provider.attempts)) == calls
    assert ([attempt.status for attempt in order_attempts], current.status) == (
        attempt_statuses,
        order_status,
    )
    assert last_attempt.id == order_attempts[-1].id
    assert [attempt.gateway for attempt in order_attempts] == ["one", "two"][: sum(calls)]
    assert len({attempt.id for attempt in order_attempts}) == sum(calls)
    async with db.connection() as tx:
        events = [line.event for line in await read_history(tx, order)]
    assert events.count("submitted") == sum(calls)


async def test_the_intent_of_a_failover_is_committed_before_the_next_gateway_is_called(
    db: Db,
) -> None:
    order = await create(db)

    class CheckingProvider(Provider):
        async def pay(self, request: PaymentRequest) -> PaymentOutcome:
            current, order_attempts = await read_order_and_attempts(db, order)
            assert (order_attempts[-1].id, order_attempts[-1].status) == (
                request.attempt_id,
                "SUBMITTED",
            )
            assert (current.status, order_attempts[0].status) == ("CREATING", "DECLINED")
            assert request.return_url.split("/return/")[1].startswith(request.attempt_id)
            assert request.callback_url.endswith("/gateways/two/callback")
            return await super().pay(request)

    second_provider = CheckingProvider("two")
    await pay(db, {"one": Provider("one", "UNREACHABLE"), "two": second_provider}, order)
    assert len(second_provider.attempts) == 1


async def test_failover_ends_after_three_gateways(db: Db) -> None:
    gateways = {name: Provider(name, "UNREACHABLE") for name in ("a", "b", "c", "d")}
    order = await create(db)
    await pay(db, gateways, order)
    assert [len(gateway.attempts) for gateway in gateways.values()] == [1, 1, 1, 0]
    current, _ = await read_order_and_attempts(db, order)
    assert current.status == "PENDING"


async def test_an_unreachable_gateway_comes_last_for_a_while(db: Db) -> None:
    first_provider, second_provider = Provider("one", "UNREACHABLE"), Provider("two")
    gateways = Gateways({"one": first_provider, "two": second_provider}, {}, {})  # type: ignore[dict-item]
    for _ in range(3):
        await pay(db, gateways, await create(db))
    assert (len(first_provider.attempts), len(second_provider.attempts)) == (1, 3)


async def test_an_attempt_whose_commit_took_too_long_is_not_sent(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile the worker could query the attempt, get NOT_FOUND, and end the attempt."""
    ahead_ns, real_ns = 0, time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: real_ns() + ahead_ns)
    first_provider, second_provider = Provider("one", "SUCCEEDED"), Provider("two", "SUCCEEDED")
    order = await create(db)
    async with db.transaction() as tx:
        await orders.lock(tx, *order_ids(order))
        payment = asyncio.create_task(
            pay(db, {"one": first_provider, "two": second_provider}, order)
        )
        while await find_waiting_session(tx) is None:
            await asyncio.sleep(0.01)
        ahead_ns = 4_001_000_000
    assert (await payment).status == "DECLINED"
    assert first_provider.attempts + second_provider.attempts == []
    new_attempt = await pay(
        db, {"one": first_provider, "two": second_provider}, order, now=NOW + 5_000
    )
    assert (new_attempt.status, (await read_order_and_attempts(db, order))[0].status) == (
        "SUCCEEDED",
        "PAID",
    )


async def test_concurrent_payments_fail_over_once(db: Db) -> None:
    first_provider, second_provider = (
        Provider("one", "UNREACHABLE", delay_s=0.1),
        Provider("two", delay_s=0.1),
    )
    order = await create(db)
    gateways = {"one": first_provider, "two": second_provider}
    await asyncio.gather(*(pay(db, gateways, order) for _ in range(6)))
    _, order_attempts = await read_order_and_attempts(db, order)
    assert [attempt.gateway for attempt in order_attempts] == ["one", "two"]


async def test_a_slow_gateway_does_not_delay_another(database_url: str) -> None:
    """Sixty attempts of a gateway that hangs are due before those of another gateway."""
    db = await Db.connect(database_url, 8, acquire_timeout_s=30)
    slow_provider, fast_provider = Provider("slow", delay_s=3600), Provider("fast")
    app = App(
        settings=Settings(), db=db, outgoing=merchant_client(Settings()),
        gateways={"slow": slow_provider, "fast": fast_provider}, clock=lambda: NOW + DAY // 24,
    )  # fmt: skip
    for _ in range(60):
        await pay(db, {"slow": Provider("slow")}, await create(db))
    fast_orders = [await create(db) for _ in range(3)]
    for order in fast_orders:
        await pay(db, {"fast": fast_provider}, order, now=NOW + 1)
    stop = asyncio.Event()
    work = asyncio.create_task(worker.work(app, stop))
    try:
        for order in fast_orders:
            for _ in range(600):
                if (await read_order_and_attempts(db, order))[0].status == "PAID":
                    break
                await asyncio.sleep(0.05)
            assert (await read_order_and_attempts(db, order))[0].status == "PAID"
        assert slow_provider.queries
        async with db.transaction() as tx:
            await create_refund(
                tx, await orders.find(tx, fast_orders[0].merchant_id, fast_orders[0].id), None, NOW
            )
        for _ in range(600):
            if (await read_order_and_attempts(db, fast_orders[0]))[0].status == "REFUNDED":
                break
            await asyncio.sleep(0.05)
        assert (await read_order_and_attempts(db, fast_orders[0]))[0].status == "REFUNDED"
    finally:
        work.cancel()
        await asyncio.wait([work])
        await db.close()


async def test_attempts_of_a_gateway_that_is_not_configured_any_more_are_processed(db: Db) -> None:
    order = await create(db)
    await pay(db, {"old": Provider("old")}, order)
    now = NOW + 120_000
    other_gateways = order_jobs.jobs.GatewayFilter(("one",), included=False)
    assert await order_jobs.check_attempts(db, {}, PUBLIC, now, only=other_gateways) >= 1
    configured = order_jobs.jobs.GatewayFilter(("one",))
    assert await order_jobs.check_attempts(db, {}, PUBLIC, now + DAY, only=configured) == 0
    assert await refund_jobs.send_due(db, {}, PUBLIC, now, only=configured) == 0


INTERVALS = [
    # Each row: status, gateway, age of the attempt in ms, ms until the next query.
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


@pytest.mark.parametrize(("status", "gateway", "age", "interval"), INTERVALS)
async def test_open_attempts_are_queried_at_growing_intervals(
    db: Db, status: str, gateway: str, age: int, interval: int | None
) -> None:
    new_attempt = await pay(db, {"one": Provider("one")}, await create(db))
    attempt = msgspec.structs.replace(
        new_attempt, status=status, gateway=gateway, checks=20 if age else 0, created_at=NOW
    )
    next_check = payments.next_check(attempt, NOW + age)
    assert (None if next_check is None else next_check - NOW - age) == interval


MANUAL: dict[str, Gateway] = {"manual": ManualGateway({"": "IBAN XX00 1234\nOpenTill Ltd"})}


async def start_transfer(db: Db) -> tuple[Order, PaymentAttempt]:
    order = await create(db)
    return order, await pay(db, MANUAL, order, "BANK_TRANSFER")


async def test_a_bank_transfer_waits_until_staff_confirm_it_on_its_attempt(db: Db) -> None:
    order, attempt = await start_transfer(db)
    assert (attempt.status, attempt.qr_text) == ("ACTION_REQUIRED", "IBAN XX00 1234\nOpenTill Ltd")
    assert (await pay(db, MANUAL, order, "BANK_TRANSFER")).id == attempt.id
    for days in (0.001, 0.5, 0.9):
        await order_jobs.check_attempts(db, MANUAL, PUBLIC, NOW + int(days * DAY))
    assert (await read_order_and_attempts(db, order))[0].status == "PENDING"
    await db.run(
        lambda tx: orders.confirm_manually(tx, *order_ids(order), "ann", "statement 7", NOW + DAY)
    )
    current, order_attempts = await read_order_and_attempts(db, order)
    assert (current.status, current.payment_method) == ("PAID", "BANK_TRANSFER")
    assert [(row.id, row.status) for row in order_attempts] == [(attempt.id, "SUCCEEDED")]
    assert current.paid_attempt_id == attempt.id


def order_ids(order: Order) -> tuple[str, str]:
    return order.merchant_id, order.id


async def test_a_bank_transfer_after_the_expiry_of_the_session_pays_the_order(db: Db) -> None:
    order, attempt = await start_transfer(db)
    now = NOW + 3 * DAY
    while await checkout_jobs.expire_due(db, now):
        pass
    await order_jobs.check_attempts(db, MANUAL, PUBLIC, now)
    assert (await read_order_and_attempts(db, order))[0].status == "CLOSED"
    await db.run(lambda tx: orders.confirm_manually(tx, *order_ids(order), "ann", "late", now))
    current, order_attempts = await read_order_and_attempts(db, order)
    assert (current.status, current.paid_attempt_id) == ("PAID", attempt.id)
    assert [row.status for row in order_attempts] == ["SUCCEEDED"]


async def test_a_customer_may_pay_by_card_after_choosing_a_bank_transfer(db: Db) -> None:
    order, attempt = await start_transfer(db)
    card_attempt = await pay(
        db, {**MANUAL, "one": Provider("one", "SUCCEEDED")}, order, now=NOW + 1
    )
    assert card_attempt.id != attempt.id
    current, order_attempts = await read_order_and_attempts(db, order)
    assert (current.status, [row.status for row in order_attempts]) == (
        "PAID",
        ["ACTION_REQUIRED", "SUCCEEDED"],
    )


async def test_a_refund_of_a_bank_transfer_waits_for_the_operator(db: Db) -> None:
    order, _ = await start_transfer(db)
    await db.run(lambda tx: orders.confirm_manually(tx, *order_ids(order), "ann", "seen", NOW + 1))
    async with db.transaction() as tx:
        await create_refund(tx, await orders.find(tx, *order_ids(order)), "9.99", NOW + 2)
    await refund_jobs.send_due(db, MANUAL, PUBLIC, NOW + 3)
    assert (await read_order_and_attempts(db, order))[0].refund_held_minor == Money(
        999, "USD"
    ).minor


async def test_open_payments_survive_changes_of_the_configuration(db: Db) -> None:
    """The methods of a gateway are restricted, then the gateway is removed, then added again."""
    provider, other_provider = Provider("one"), Provider("other")
    open_order, unanswered_order, paid_order = [await create(db) for _ in range(3)]
    open_attempt = await pay(db, {"one": provider}, open_order)
    provider.status = "UNKNOWN"
    await pay(db, {"one": provider}, unanswered_order)
    provider.status = "SUCCEEDED"
    await pay(db, {"one": provider}, paid_order)
    all_gateways: dict[str, Any] = {"one": provider, "other": other_provider}
    restricted = Gateways(all_gateways, {}, {"one": {"ALIPAY": ()}})
    assert (await pay(db, restricted, open_order)).id == open_attempt.id
    assert (await pay(db, restricted, await create(db))).gateway == "other"
    async with db.transaction() as tx:
        await create_refund(tx, (await orders.find(tx, *order_ids(paid_order))), "9.00", NOW)
    without_gateway: dict[str, Any] = {"other": other_provider}
    not_configured = order_jobs.jobs.GatewayFilter(("other",), included=False)
    for hours in range(1, 4):
        now = NOW + hours * DAY // 24
        await order_jobs.check_attempts(db, without_gateway, PUBLIC, now, only=not_configured)
        await refund_jobs.send_due(db, without_gateway, PUBLIC, now, only=not_configured)
    statuses = [
        (await read_order_and_attempts(db, order))[0].status
        for order in (open_order, unanswered_order)
    ]
    assert statuses == ["PENDING", "CREATING"]
    restored_filter = order_jobs.jobs.GatewayFilter(("one",))
    now = NOW + DAY // 2
    await order_jobs.check_attempts(db, all_gateways, PUBLIC, now, only=restored_filter)
    await refund_jobs.send_due(db, all_gateways, PUBLIC, now, only=restored_filter)
    after = [
        await read_order_and_attempts(db, order)
        for order in (open_order, unanswered_order, paid_order)
    ]
    assert [order.status for order, _ in after] == ["PAID", "PAID", "PAID"]
    assert after[2][0].refunded_minor == 900
    assert [len(order_attempts) for _, order_attempts in after] == [1, 1, 1]


@pytest.mark.parametrize("status", ["DECLINED", "UNKNOWN", "REFUSED"])
async def test_only_a_decline_that_pauses_the_account_goes_to_the_next_one(
    db: Db, status: str
) -> None:
    """The provider says that it refuses the account; an unknown outcome is never tried again."""
    first, second = Provider("first", status), Provider("second")
    gateways = Gateways({}, {}, {}, livemode=False)
    for provider, texts in ((first, ["first says"]), (second, [])):
        account = create_account(provider.name, priority=len(texts) or 2, break_texts=texts)
        gateways.put_account(account, provider, None, None)  # type: ignore[arg-type]
    attempt = await pay(db, gateways, await create(db))
    moves = status == "DECLINED"
    assert (len(first.attempts), len(second.attempts)) == (1, int(moves))
    assert attempt.gateway == ("second" if moves else "first")
    reason = decode_reason(attempt.route)
    assert reason is not None
    assert reason.passed == ((PassedOver("first", "BROKEN"),) if moves else ())
