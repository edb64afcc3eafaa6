"""A number is paid once: a payment of another order under it goes back (decision 0143)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

import pytest

from opentill import orders
from opentill.core.errors import Contended, Invalid
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome
from opentill.orders import Report
from opentill.orders import queries as order_queries
from opentill.orders.model import NewAttempt
from support.api_server import Shop
from support.epay_numbers import (
    Clock,
    order_statuses,
    reopen_number,
    start_attempt,
    submit,
)
from support.epay_shop import EpayShop
from support.waits import find_waiting_session

Age = Literal["old", "new"]
PAID: Final = PaymentOutcome(status="SUCCEEDED")


@pytest.fixture
def form(epay_shop: EpayShop) -> dict[str, str]:
    """A signed submission."""
    return epay_shop.sign(epay_shop.form(type="creditcard"))


@pytest.fixture
def placed(epay_shop: EpayShop, clock: Clock, form: dict[str, str]) -> dict[Age, dict[str, Any]]:
    """The old order of a number, whose session has ended, and the new one."""
    old, new = reopen_number(epay_shop, clock, form)
    return {"old": old, "new": new}


def report_paid(epay_shop: EpayShop, attempt: orders.PaymentAttempt) -> None:
    """Apply the report of its gateway that an attempt was paid."""
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: orders.apply_outcome(tx, epay_shop.id, attempt.id, PAID, now, gateway="sandbox")
    )


def report_paid_together(epay_shop: EpayShop, attempt: orders.PaymentAttempt) -> None:
    """Apply the same report as servers do: together with others, or else by itself."""
    report = Report("sandbox", GatewayPaymentEvent(attempt_id=attempt.id, outcome=PAID))
    now = epay_shop.api_server.app.clock()
    try:
        done = epay_shop.api_server.tx(lambda tx: orders.confirm_many(tx, [report], now))
    except Contended:  # another payment of the number held its orders for half a second
        done = set()
    if not done:
        report_paid(epay_shop, attempt)


def attempt_statuses(epay_shop: EpayShop, *attempts: orders.PaymentAttempt) -> list[str]:
    async def read(tx: Tx) -> list[str]:
        return [
            (await orders.find_attempt(tx, epay_shop.id, attempt.id)).status for attempt in attempts
        ]

    return epay_shop.api_server.tx(read)


@pytest.mark.parametrize("report", [report_paid, report_paid_together])
@pytest.mark.parametrize("first_paid", ["old", "new"])
def test_the_payment_of_a_second_order_under_a_paid_number_goes_back(
    epay_shop: EpayShop,
    placed: dict[Age, dict[str, Any]],
    first_paid: Age,
    report: Callable[[EpayShop, orders.PaymentAttempt], None],
) -> None:
    other: Age = "new" if first_paid == "old" else "old"
    attempt = start_attempt(epay_shop, placed["new"])
    late = attempt if other == "new" else start_late(epay_shop, placed["old"])
    if first_paid == "old":
        epay_shop.pay(placed["old"])
    else:
        report(epay_shop, attempt)
    epay_shop.send_notices()
    report(epay_shop, late)
    assert attempt_statuses(epay_shop, late) == ["DUPLICATE"]
    assert order_statuses(epay_shop, placed[first_paid], placed[other]) == ["PAID", "CLOSED"]
    epay_shop.send_notices()
    assert [message["trade_no"] for message in epay_shop.inbox.received] == [
        placed[first_paid]["trade_no"]
    ]
    stored_attempt = epay_shop.api_server.tx(
        lambda tx: orders.find_attempt(tx, epay_shop.id, late.id)
    )
    assert stored_attempt.check_at is not None  # the worker gives it back
    history = history_of(epay_shop, placed[other])
    assert ("duplicate_payment", True) in [
        (event, epay_shop.order_id(placed[first_paid]) in cause) for event, cause in history
    ]
    report(epay_shop, late)  # the same report again changes nothing
    assert order_statuses(epay_shop, placed[first_paid], placed[other]) == ["PAID", "CLOSED"]
    epay_shop.api_server.check_books()


def start_late(epay_shop: EpayShop, placed_order: dict[str, Any]) -> orders.PaymentAttempt:
    """Return an attempt of a closed order that its customer had begun before it was closed."""
    order_id = epay_shop.order_id(placed_order)

    async def insert(tx: Tx) -> orders.PaymentAttempt:
        order = await orders.find(tx, epay_shop.id, order_id)
        new = NewAttempt(
            merchant_id=order.merchant_id, id=new_id("att"), order_id=order.id, gateway="sandbox",
            method="CREDIT_CARD", status="SUBMITTED", amount_minor=order.amount_minor,
            currency=order.currency, locale="zh", payer_ip="203.0.113.7", check_at=None,
        )  # fmt: skip
        return await order_queries.INSERT_ATTEMPT.one(tx, new, now=order.created_at)

    return epay_shop.api_server.tx(insert)


def history_of(epay_shop: EpayShop, placed_order: dict[str, Any]) -> list[tuple[str, str]]:
    order_id = epay_shop.order_id(placed_order)
    lines = epay_shop.api_server.tx(lambda tx: orders.history(tx, epay_shop.id, order_id))
    return [(line.event, line.cause) for line in lines]


@pytest.mark.parametrize("first", ["old", "new"])
def test_of_two_payments_that_are_confirmed_at_the_same_time_one_goes_back(
    epay_shop: EpayShop, placed: dict[Age, dict[str, Any]], first: Age
) -> None:
    """The one confirmation has not committed when the other comes."""
    attempts = {
        "old": start_late(epay_shop, placed["old"]),
        "new": start_attempt(epay_shop, placed["new"]),
    }
    second: Age = "new" if first == "old" else "old"
    app = epay_shop.api_server.app
    with ThreadPoolExecutor(1) as threads:

        async def confirm(tx: Tx) -> Any:
            await orders.apply_outcome(
                tx, epay_shop.id, attempts[first].id, PAID, app.clock(), gateway="sandbox"
            )
            other = threads.submit(report_paid_together, epay_shop, attempts[second])
            for _ in range(500):
                if other.done() or await find_waiting_session(tx):
                    return other
                await asyncio.sleep(0.02)
            pytest.fail("the second confirmation does not wait for the first")

        epay_shop.api_server.tx(confirm).result()
    assert attempt_statuses(epay_shop, attempts[first], attempts[second]) == [
        "SUCCEEDED",
        "DUPLICATE",
    ]
    assert order_statuses(epay_shop, placed[first], placed[second]) == ["PAID", "CLOSED"]


def test_payments_of_many_orders_of_a_number_at_once_leave_one_paid(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    old, new = reopen_number(epay_shop, clock, form)
    attempts = [start_late(epay_shop, old) for _ in range(4)]
    attempts += [start_attempt(epay_shop, new)]
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(lambda attempt: report_paid_together(epay_shop, attempt), attempts))
    results = attempt_statuses(epay_shop, *attempts)
    assert sorted(results) == ["DUPLICATE"] * 4 + ["SUCCEEDED"]
    assert sorted(order_statuses(epay_shop, old, new)) == ["CLOSED", "PAID"]
    epay_shop.api_server.check_books()


def test_a_number_that_was_refunded_is_not_paid_by_another_order(
    epay_shop: EpayShop, placed: dict[Age, dict[str, Any]]
) -> None:
    attempt = start_attempt(epay_shop, placed["new"])
    epay_shop.pay(placed["old"])
    shop: Shop = epay_shop.shop
    epay_shop.call_api("refund", trade_no=placed["old"]["trade_no"], money="10.5", refund_no="R-1")
    rows = epay_shop.api_server.sql("select id from refunds where merchant_id = $1", epay_shop.id)
    shop.report_refund(rows[0]["id"])
    report_paid(epay_shop, attempt)
    assert attempt_statuses(epay_shop, attempt) == ["DUPLICATE"]
    assert order_statuses(epay_shop, placed["old"], placed["new"]) == ["REFUNDED", "CLOSED"]


def test_staff_cannot_confirm_a_second_order_of_a_paid_number(
    epay_shop: EpayShop, placed: dict[Age, dict[str, Any]]
) -> None:
    epay_shop.pay(placed["old"])
    with pytest.raises(Invalid, match="was paid under the same out_trade_no"):
        epay_shop.pay(placed["new"])


def test_other_numbers_of_a_shop_are_paid_beside_each_other(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    epay_shop.place_paid_order()
    placed_order = submit(epay_shop, form)
    report_paid_together(epay_shop, start_attempt(epay_shop, placed_order))
    assert order_statuses(epay_shop, placed_order) == ["PAID"]
