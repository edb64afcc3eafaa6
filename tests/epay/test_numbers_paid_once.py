"""One order of an out_trade_no is paid; payments of its other orders are sent back."""

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
    """The parameters of a signed submission."""
    return epay_shop.sign(epay_shop.form(type="creditcard"))


@pytest.fixture
def orders_of_number(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> dict[Age, dict[str, Any]]:
    """Two orders of one number: the old one, whose session has ended, and the new one."""
    old_order, new_order = reopen_number(epay_shop, clock, form)
    return {"old": old_order, "new": new_order}


def report_paid(epay_shop: EpayShop, attempt: orders.PaymentAttempt) -> None:
    """Apply the gateway's report that an attempt was paid."""
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: orders.apply_outcome(tx, epay_shop.id, attempt.id, PAID, now, gateway="sandbox")
    )


def report_paid_in_batch(epay_shop: EpayShop, attempt: orders.PaymentAttempt) -> None:
    """Apply the report as servers do: in a batch, or individually if the batch skips it."""
    report = Report("sandbox", GatewayPaymentEvent(attempt_id=attempt.id, outcome=PAID))
    now = epay_shop.api_server.app.clock()
    try:
        applied = epay_shop.api_server.tx(lambda tx: orders.confirm_many(tx, [report], now))
    # Another payment of the number has held the locks for half a second.
    except Contended:
        applied = set()
    if not applied:
        report_paid(epay_shop, attempt)


def attempt_statuses(epay_shop: EpayShop, *attempts: orders.PaymentAttempt) -> list[str]:
    async def read(tx: Tx) -> list[str]:
        return [
            (await orders.find_attempt(tx, epay_shop.id, attempt.id)).status for attempt in attempts
        ]

    return epay_shop.api_server.tx(read)


@pytest.mark.parametrize("report", [report_paid, report_paid_in_batch])
@pytest.mark.parametrize("first_paid", ["old", "new"])
def test_a_payment_of_a_second_order_under_a_paid_number_is_returned(
    epay_shop: EpayShop,
    orders_of_number: dict[Age, dict[str, Any]],
    first_paid: Age,
    report: Callable[[EpayShop, orders.PaymentAttempt], None],
) -> None:
    other_age: Age = "new" if first_paid == "old" else "old"
    attempt = start_attempt(epay_shop, orders_of_number["new"])
    late_attempt = (
        attempt if other_age == "new" else insert_late_attempt(epay_shop, orders_of_number["old"])
    )
    if first_paid == "old":
        epay_shop.pay(orders_of_number["old"])
    else:
        report(epay_shop, attempt)
    epay_shop.send_notices()
    report(epay_shop, late_attempt)
    assert attempt_statuses(epay_shop, late_attempt) == ["DUPLICATE"]
    assert order_statuses(epay_shop, orders_of_number[first_paid], orders_of_number[other_age]) == [
        "PAID",
        "CLOSED",
    ]
    epay_shop.send_notices()
    assert [message["trade_no"] for message in epay_shop.inbox.received] == [
        orders_of_number[first_paid]["trade_no"]
    ]
    stored_attempt = epay_shop.api_server.tx(
        lambda tx: orders.find_attempt(tx, epay_shop.id, late_attempt.id)
    )
    assert stored_attempt.check_at is not None  # the worker will send the payment back
    history = read_history(epay_shop, orders_of_number[other_age])
    assert ("duplicate_payment", True) in [
        (event, epay_shop.order_id(orders_of_number[first_paid]) in cause)
        for event, cause in history
    ]
    report(epay_shop, late_attempt)  # a repeated report changes nothing
    assert order_statuses(epay_shop, orders_of_number[first_paid], orders_of_number[other_age]) == [
        "PAID",
        "CLOSED",
    ]
    epay_shop.api_server.check_books()


def insert_late_attempt(epay_shop: EpayShop, epay_order: dict[str, Any]) -> orders.PaymentAttempt:
    """Insert an attempt of a closed order, as if its customer had begun it before the closing."""
    order_id = epay_shop.order_id(epay_order)

    async def insert(tx: Tx) -> orders.PaymentAttempt:
        order = await orders.find(tx, epay_shop.id, order_id)
        attempt = NewAttempt(
            merchant_id=order.merchant_id, id=new_id("att"), order_id=order.id, gateway="sandbox",
            method="CREDIT_CARD", status="SUBMITTED", amount_minor=order.amount_minor,
            currency=order.currency, locale="zh", payer_ip="203.0.113.7", check_at=None,
        )  # fmt: skip
        return await order_queries.INSERT_ATTEMPT.one(tx, attempt, now=order.created_at)

    return epay_shop.api_server.tx(insert)


def read_history(epay_shop: EpayShop, epay_order: dict[str, Any]) -> list[tuple[str, str]]:
    order_id = epay_shop.order_id(epay_order)
    lines = epay_shop.api_server.tx(lambda tx: orders.history(tx, epay_shop.id, order_id))
    return [(line.event, line.cause) for line in lines]


@pytest.mark.parametrize("first_age", ["old", "new"])
def test_one_of_two_payments_that_are_confirmed_concurrently_is_returned(
    epay_shop: EpayShop, orders_of_number: dict[Age, dict[str, Any]], first_age: Age
) -> None:
    """The first confirmation has not been committed when the second one starts."""
    attempts = {
        "old": insert_late_attempt(epay_shop, orders_of_number["old"]),
        "new": start_attempt(epay_shop, orders_of_number["new"]),
    }
    second_age: Age = "new" if first_age == "old" else "old"
    app = epay_shop.api_server.app
    with ThreadPoolExecutor(1) as threads:

        async def confirm(tx: Tx) -> Any:
            await orders.apply_outcome(
                tx, epay_shop.id, attempts[first_age].id, PAID, app.clock(), gateway="sandbox"
            )
            second_confirmation = threads.submit(
                report_paid_in_batch, epay_shop, attempts[second_age]
            )
            for _ in range(500):
                if second_confirmation.done() or await find_waiting_session(tx):
                    return second_confirmation
                await asyncio.sleep(0.02)
            pytest.fail("the second confirmation does not wait for the first")

        epay_shop.api_server.tx(confirm).result()
    assert attempt_statuses(epay_shop, attempts[first_age], attempts[second_age]) == [
        "SUCCEEDED",
        "DUPLICATE",
    ]
    assert order_statuses(epay_shop, orders_of_number[first_age], orders_of_number[second_age]) == [
        "PAID",
        "CLOSED",
    ]


def test_concurrent_payments_of_the_orders_of_a_number_leave_one_paid(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    old_order, new_order = reopen_number(epay_shop, clock, form)
    attempts = [insert_late_attempt(epay_shop, old_order) for _ in range(4)]
    attempts += [start_attempt(epay_shop, new_order)]
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(lambda attempt: report_paid_in_batch(epay_shop, attempt), attempts))
    results = attempt_statuses(epay_shop, *attempts)
    assert sorted(results) == ["DUPLICATE"] * 4 + ["SUCCEEDED"]
    assert sorted(order_statuses(epay_shop, old_order, new_order)) == ["CLOSED", "PAID"]
    epay_shop.api_server.check_books()


def test_after_a_refund_another_order_of_the_number_is_not_paid(
    epay_shop: EpayShop, orders_of_number: dict[Age, dict[str, Any]]
) -> None:
    attempt = start_attempt(epay_shop, orders_of_number["new"])
    epay_shop.pay(orders_of_number["old"])
    epay_shop.call_api(
        "refund", trade_no=orders_of_number["old"]["trade_no"], money="10.5", refund_no="R-1"
    )
    (refund,) = epay_shop.api_server.sql(
        "select id from refunds where merchant_id = $1", epay_shop.id
    )
    epay_shop.shop.report_refund(refund["id"])
    report_paid(epay_shop, attempt)
    assert attempt_statuses(epay_shop, attempt) == ["DUPLICATE"]
    assert order_statuses(epay_shop, orders_of_number["old"], orders_of_number["new"]) == [
        "REFUNDED",
        "CLOSED",
    ]


def test_staff_cannot_confirm_a_second_order_of_a_paid_number(
    epay_shop: EpayShop, orders_of_number: dict[Age, dict[str, Any]]
) -> None:
    epay_shop.pay(orders_of_number["old"])
    with pytest.raises(Invalid, match="was paid under the same out_trade_no"):
        epay_shop.pay(orders_of_number["new"])


def test_orders_of_two_numbers_are_both_paid(epay_shop: EpayShop, form: dict[str, str]) -> None:
    epay_shop.place_paid_order()
    epay_order = submit(epay_shop, form)
    report_paid_in_batch(epay_shop, start_attempt(epay_shop, epay_order))
    assert order_statuses(epay_shop, epay_order) == ["PAID"]
