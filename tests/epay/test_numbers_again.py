"""An out_trade_no that is submitted again after its session has ended gets another order.

Many shops, also those behind another Epay server, cannot change the number of an invoice.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opentill import checkouts, merchants, orders
from opentill.console.needs import NEEDS
from opentill.core.errors import Invalid
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.gateways.model import PaymentOutcome
from opentill.orders.payments import epay_numbers
from support.epay_numbers import (
    Clock,
    advance_days,
    order_statuses,
    reopen_number,
    start_attempt,
    submit,
)
from support.epay_shop import EpayShop, assert_chinese
from support.waits import find_waiting_session


@pytest.fixture
def form(epay_shop: EpayShop) -> dict[str, str]:
    """The parameters of a signed submission."""
    return epay_shop.sign(epay_shop.form(param="uid=7", type="creditcard"))


@pytest.mark.parametrize("expire", [True, False], ids=["closed", "expired, but not closed yet"])
@pytest.mark.parametrize("entry", ["submit", "mapi"])
def test_an_invoice_is_paid_two_days_after_its_first_submission(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str], entry: str, *, expire: bool
) -> None:
    number = form["out_trade_no"]
    epay_shop.post(entry, form)
    first_order = epay_shop.call_api("order", out_trade_no=number)
    advance_days(epay_shop, clock, 2, expire=expire)
    response = epay_shop.post(entry, form)
    second_order = epay_shop.call_api("order", out_trade_no=number)
    page = response.headers["location"] if entry == "submit" else response.json()["payurl"]
    assert page == second_order["payurl"] != first_order["payurl"]
    assert epay_shop.api_server.http.get(page).status_code == 200
    assert first_order["trade_no"] != second_order["trade_no"]
    assert (second_order["status"], second_order["trade_status"]) == (0, "WAIT_BUYER_PAY")
    assert (
        epay_shop.call_api("order", trade_no=first_order["trade_no"])["trade_status"]
        == "TRADE_CLOSED"
    )
    # A second submission on the same day leads to the same order.
    assert submit(epay_shop, form)["trade_no"] == second_order["trade_no"]
    epay_shop.pay(second_order)
    epay_shop.send_notices()
    (message,) = epay_shop.inbox.received
    assert (message["trade_no"], message["out_trade_no"]) == (second_order["trade_no"], number)
    assert message["param"] == "uid=7"
    assert order_statuses(epay_shop, first_order, second_order) == ["CLOSED", "PAID"]
    refusal = submit(epay_shop, form)
    assert (refusal["code"], "已支付" in refusal["msg"]) == (-1, True)
    assert [row["trade_no"] for row in epay_shop.call_api("orders")["data"]] == [
        second_order["trade_no"],
        first_order["trade_no"],
    ]
    epay_shop.api_server.check_books()


def test_an_unpaid_invoice_may_be_reopened_any_number_of_times(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    numbers = []
    for _ in range(4):
        numbers.append(submit(epay_shop, form)["trade_no"])
        advance_days(epay_shop, clock, 1)
    assert len(set(numbers)) == 4
    submissions = epay_shop.api_server.sql(
        "select submission from epay_orders where merchant_id = $1 order by submission",
        epay_shop.id,
    )
    assert [row["submission"] for row in submissions] == [1, 2, 3, 4]


def test_a_number_whose_payment_failed_can_be_reopened(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first_order)
    apply_outcome(epay_shop, attempt, "REFUSED")
    assert order_statuses(epay_shop, first_order) == ["FAILED"]
    second_order = submit(epay_shop, form)
    assert second_order["code"] == 1
    assert second_order["trade_no"] != first_order["trade_no"]


@pytest.mark.parametrize(
    "changes",
    [
        {"money": "10.51"},
        {"money_type": "HKD"},
        {"name": "other"},
        {"notify_url": "https://shop.example/other"},
        {"return_url": "https://shop.example/other"},
        {"param": "8"},
        {"param": ""},
    ],
    ids=str,
)
def test_other_values_under_an_ended_number_are_refused(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str], changes: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    refusal = submit(epay_shop, epay_shop.sign(form | changes))
    assert refusal["code"] == -1
    assert "内容不一致" in refusal["msg"]
    assert (
        epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["trade_no"]
        == first_order["trade_no"]
    )
    assert epay_shop.call_api("query")["orders"] == 1


def test_a_number_may_be_reopened_with_another_payment_type(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    second_order = submit(epay_shop, epay_shop.sign(form | {"type": "bank"}))
    assert second_order["code"] == 1
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert (row["trade_no"], row["type"]) == (second_order["trade_no"], "bank")


def test_the_number_of_a_revoked_order_cannot_be_reopened(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    epay_shop.shop.revoke(epay_shop.order_id(submit(epay_shop, form)))
    refusal = submit(epay_shop, form)
    assert (refusal["code"], "已撤销" in refusal["msg"]) == (-1, True)


def test_concurrent_submissions_of_an_ended_number_place_one_order(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2, expire=False)
    with ThreadPoolExecutor(20) as threads:
        responses = list(threads.map(lambda _: submit(epay_shop, form), range(20)))
    assert {response["code"] for response in responses} == {1}, responses
    numbers = {response["trade_no"] for response in responses}
    assert len(numbers) == 1
    assert first_order["trade_no"] not in numbers
    assert epay_shop.call_api("query")["orders"] == 2


# ── payments that are in progress or late ──


def apply_outcome(epay_shop: EpayShop, attempt: orders.PaymentAttempt, status: Any) -> None:
    """Apply a report of the attempt's gateway."""
    now, outcome = epay_shop.api_server.app.clock(), PaymentOutcome(status=status)
    epay_shop.api_server.tx(
        lambda tx: orders.apply_outcome(
            tx, epay_shop.id, attempt.id, outcome, now, gateway="sandbox"
        )
    )


def test_a_number_keeps_its_order_while_a_payment_is_in_progress(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first_order)
    advance_days(epay_shop, clock, 2)
    assert order_statuses(epay_shop, first_order) == ["CREATING"]
    assert submit(epay_shop, form)["trade_no"] == first_order["trade_no"]
    apply_outcome(epay_shop, attempt, "PENDING")  # the bank has not decided yet
    assert submit(epay_shop, form)["trade_no"] == first_order["trade_no"]
    apply_outcome(epay_shop, attempt, "DECLINED")
    second_order = submit(epay_shop, form)
    assert second_order["trade_no"] != first_order["trade_no"]
    assert order_statuses(epay_shop, first_order, second_order) == ["CLOSED", "PENDING"]


def test_a_number_cannot_be_reopened_while_a_payment_is_pending(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first_order)
    apply_outcome(epay_shop, attempt, "PENDING")
    advance_days(epay_shop, clock, 2)
    assert order_statuses(epay_shop, first_order) == ["CLOSED"]
    refusal = submit(epay_shop, form)
    assert (refusal["code"], "正在确认" in refusal["msg"]) == (-1, True)
    assert_chinese(refusal["msg"])
    apply_outcome(epay_shop, attempt, "DECLINED")
    assert submit(epay_shop, form)["code"] == 1


def test_a_late_payment_pays_the_old_order_and_closes_the_new_one(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order, second_order = reopen_number(epay_shop, clock, form)
    epay_shop.pay(first_order)
    refusal = submit(epay_shop, form)
    assert (refusal["code"], "已支付" in refusal["msg"]) == (-1, True)
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert (row["trade_no"], row["status"]) == (first_order["trade_no"], 1)
    epay_shop.send_notices()
    assert [message["trade_no"] for message in epay_shop.inbox.received] == [
        first_order["trade_no"]
    ]
    assert order_statuses(epay_shop, first_order, second_order) == ["PAID", "CLOSED"]
    with pytest.raises(Invalid):  # the second order is already closed
        epay_shop.api_server.tx(
            lambda tx: orders.revoke_manually(
                tx, epay_shop.id, epay_shop.order_id(second_order), "ann", "test", now_ms()
            )
        )
    refund = epay_shop.call_api("refund", out_trade_no=form["out_trade_no"], money="10.5")
    assert (refund["code"], refund["trade_no"]) == (1, first_order["trade_no"])
    epay_shop.api_server.check_books()


def test_a_late_payment_does_not_close_a_session_that_is_being_paid(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order, second_order = reopen_number(epay_shop, clock, form)
    start_attempt(epay_shop, second_order)
    epay_shop.pay(first_order)
    epay_shop.send_notices()
    assert epay_shop.notice(first_order)["state"] == "DELIVERED"
    assert order_statuses(epay_shop, first_order, second_order) == ["PAID", "CREATING"]


def test_a_resubmission_waits_for_the_confirmation_of_a_payment(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    """The confirmation holds the order's lock while the order is submitted again."""
    first_order = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    app, order_id = epay_shop.api_server.app, epay_shop.order_id(first_order)
    with ThreadPoolExecutor(1) as threads:

        async def confirm(tx: Tx) -> Any:
            await orders.confirm_manually(tx, epay_shop.id, order_id, "ann", "came", app.clock())
            submission = threads.submit(submit, epay_shop, form)
            for _ in range(500):
                if await find_waiting_session(tx):
                    return submission
                await asyncio.sleep(0.02)
            pytest.fail("the submission does not wait for the order")

        refusal = epay_shop.api_server.tx(confirm).result()
    assert (refusal["code"], "已支付" in refusal["msg"]) == (-1, True)
    assert epay_shop.call_api("query")["orders"] == 1


@pytest.fixture
def _without_check_for_another_paid_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept payments of several orders of a number, as earlier versions did."""

    async def find_none(_tx: Tx, _order: orders.Order) -> None:
        return None

    monkeypatch.setattr(epay_numbers, "find_other_paid_order", find_none)


def pay_twice(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pay the new order of a number and then the old one."""
    first_order, second_order = reopen_number(epay_shop, clock, form)
    epay_shop.pay(second_order)
    epay_shop.pay(first_order)
    return first_order, second_order


@pytest.mark.usefixtures("_without_check_for_another_paid_order")
def test_both_orders_of_a_number_that_was_paid_twice_are_notified_and_staff_see_it(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order, second_order = pay_twice(epay_shop, clock, form)
    epay_shop.send_notices()
    messages = {message["trade_no"]: message for message in epay_shop.inbox.received}
    assert set(messages) == {first_order["trade_no"], second_order["trade_no"]}
    assert {message["out_trade_no"] for message in messages.values()} == {form["out_trade_no"]}
    (item,) = list_paid_twice(epay_shop)
    assert item.subject == form["out_trade_no"]
    assert item.page == f"/payments/{epay_shop.order_id(second_order)}"
    assert epay_shop.order_id(first_order) in item.detail
    refund = epay_shop.call_api("refund", trade_no=first_order["trade_no"], money="10.5")
    epay_shop.shop.report_refund(refund_id(epay_shop, refund))
    assert list_paid_twice(epay_shop) == []
    epay_shop.api_server.check_books()


def list_paid_twice(epay_shop: EpayShop) -> list[Any]:
    """Return the merchant's numbers that were paid twice, as the console lists them."""
    (need,) = (need for need in NEEDS if need.name == "paid_twice")
    items = need.items
    assert items is not None
    now = epay_shop.api_server.app.clock()
    all_items = epay_shop.api_server.tx(lambda tx: items(tx, now))
    return [item for item in all_items if item.merchant_id == epay_shop.id]


def refund_id(epay_shop: EpayShop, response: dict[str, Any]) -> str:
    """Check that a refund was accepted; return the id of the merchant's newest refund."""
    assert response["code"] in (0, 1), response
    (refund,) = epay_shop.api_server.sql(
        "select id from refunds where merchant_id = $1 order by created_at desc, id desc limit 1",
        epay_shop.id,
    )
    return str(refund["id"])


@pytest.mark.usefixtures("_without_check_for_another_paid_order")
def test_refunds_of_a_number_that_was_paid_twice_refund_its_orders_one_by_one(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order, second_order = pay_twice(epay_shop, clock, form)
    params = {"out_trade_no": form["out_trade_no"], "money": "10.5"}
    refund = epay_shop.call_api("refund", refund_no="R-1", **params)
    assert refund["trade_no"] == second_order["trade_no"]  # the newest paid order is refunded first
    epay_shop.shop.report_refund(refund_id(epay_shop, refund))
    # A repeated request returns the same refund.
    assert epay_shop.call_api("refund", refund_no="R-1", **params) == refund
    assert (
        epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["trade_no"]
        == (first_order["trade_no"])
    )
    other_refund = epay_shop.call_api("refund", refund_no="R-2", **params)
    assert other_refund["trade_no"] == first_order["trade_no"]
    epay_shop.shop.report_refund(refund_id(epay_shop, other_refund))
    refusal = epay_shop.call_api(
        "refund", refund_no="R-1", trade_no=first_order["trade_no"], money="10.5"
    )
    assert refusal["code"] == -1  # the number R-1 is already used by the second order's refund
    assert order_statuses(epay_shop, first_order, second_order) == ["REFUNDED", "REFUNDED"]
    epay_shop.api_server.check_books()


def test_searching_a_number_with_two_orders_lists_both(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first_order, second_order = reopen_number(epay_shop, clock, form)
    matches = epay_shop.shop.get("/v1/orders", query=form["out_trade_no"]).json()["data"]["items"]
    assert {order["id"] for order in matches} == {
        epay_shop.order_id(first_order),
        epay_shop.order_id(second_order),
    }


def test_a_session_that_its_merchant_ended_can_be_reopened(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    first_order = submit(epay_shop, form)
    session_id = first_order["payurl"].rpartition("/")[2]
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: checkouts.expire(tx, epay_shop.id, session_id, "ended by ann", now)
    )
    assert submit(epay_shop, form)["trade_no"] != first_order["trade_no"]


def test_a_suspended_merchant_cannot_reopen_a_number(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    now, ann = epay_shop.api_server.app.clock(), merchants.Actor("ann", "under review")
    epay_shop.api_server.tx(
        lambda tx: merchants.change_status(tx, epay_shop.id, "suspended", ann, now)
    )
    assert submit(epay_shop, form)["code"] == -1
    assert epay_shop.call_api("query")["orders"] == 1
