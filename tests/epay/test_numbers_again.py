"""The same out_trade_no again after its session has ended: another order under the same number.

Shops, and every shop behind a chain of servers, cannot change the number of an invoice.
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
    """A signed submission."""
    return epay_shop.sign(epay_shop.form(param="uid=7", type="creditcard"))


@pytest.mark.parametrize("expire", [True, False], ids=["closed", "over, and not closed yet"])
@pytest.mark.parametrize("entry", ["submit", "mapi"])
def test_an_invoice_of_day_0_is_paid_on_day_2(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str], entry: str, *, expire: bool
) -> None:
    number = form["out_trade_no"]
    epay_shop.post(entry, form)
    first = epay_shop.call_api("order", out_trade_no=number)
    advance_days(epay_shop, clock, 2, expire=expire)
    answer = epay_shop.post(entry, form)
    second = epay_shop.call_api("order", out_trade_no=number)
    page = answer.headers["location"] if entry == "submit" else answer.json()["payurl"]
    assert page == second["payurl"] != first["payurl"]
    assert epay_shop.api_server.http.get(page).status_code == 200
    assert first["trade_no"] != second["trade_no"]
    assert (second["status"], second["trade_status"]) == (0, "WAIT_BUYER_PAY")
    assert epay_shop.call_api("order", trade_no=first["trade_no"])["trade_status"] == "TRADE_CLOSED"
    assert submit(epay_shop, form)["trade_no"] == second["trade_no"]  # a third time the same day
    epay_shop.pay(second)
    epay_shop.send_notices()
    (message,) = epay_shop.inbox.received
    assert (message["trade_no"], message["out_trade_no"]) == (second["trade_no"], number)
    assert message["param"] == "uid=7"
    assert order_statuses(epay_shop, first, second) == ["CLOSED", "PAID"]
    refused = submit(epay_shop, form)
    assert (refused["code"], "已支付" in refused["msg"]) == (-1, True)
    assert [row["trade_no"] for row in epay_shop.call_api("orders")["data"]] == [
        second["trade_no"],
        first["trade_no"],
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


def test_an_order_that_its_gateway_refused_is_reopened(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first)
    apply_outcome(epay_shop, attempt, "REFUSED")
    assert order_statuses(epay_shop, first) == ["FAILED"]
    second = submit(epay_shop, form)
    assert second["code"] == 1
    assert second["trade_no"] != first["trade_no"]


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
def test_other_values_under_an_old_number_are_refused(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str], changes: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    refused = submit(epay_shop, epay_shop.sign(form | changes))
    assert refused["code"] == -1
    assert "内容不一致" in refused["msg"]
    assert (
        epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["trade_no"]
        == first["trade_no"]
    )
    assert epay_shop.call_api("query")["orders"] == 1


def test_an_old_number_may_be_reopened_with_another_payment_type(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    second = submit(epay_shop, epay_shop.sign(form | {"type": "bank"}))
    assert second["code"] == 1
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert (row["trade_no"], row["type"]) == (second["trade_no"], "bank")


def test_an_order_that_was_revoked_stays_revoked(epay_shop: EpayShop, form: dict[str, str]) -> None:
    epay_shop.shop.revoke(epay_shop.order_id(submit(epay_shop, form)))
    refused = submit(epay_shop, form)
    assert (refused["code"], "已撤销" in refused["msg"]) == (-1, True)


def test_concurrent_submissions_of_an_old_number_place_one_order(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2, expire=False)
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: submit(epay_shop, form), range(20)))
    assert {answer["code"] for answer in answers} == {1}, answers
    assert {answer["trade_no"] for answer in answers}.isdisjoint({first["trade_no"]})
    assert len({answer["trade_no"] for answer in answers}) == 1
    assert epay_shop.call_api("query")["orders"] == 2


# ── Payments that are under way, or come late ────────────────────────────────────────────────────


def apply_outcome(epay_shop: EpayShop, attempt: orders.PaymentAttempt, status: Any) -> None:
    """Apply what the attempt's own gateway reports."""
    now, outcome = epay_shop.api_server.app.clock(), PaymentOutcome(status=status)
    epay_shop.api_server.tx(
        lambda tx: orders.apply_outcome(
            tx, epay_shop.id, attempt.id, outcome, now, gateway="sandbox"
        )
    )


def test_a_number_keeps_an_order_whose_payment_is_in_progress(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first)
    advance_days(epay_shop, clock, 2)
    assert order_statuses(epay_shop, first) == ["CREATING"]
    assert submit(epay_shop, form)["trade_no"] == first["trade_no"]
    apply_outcome(epay_shop, attempt, "PENDING")  # the bank has it, and has not decided
    assert submit(epay_shop, form)["trade_no"] == first["trade_no"]
    apply_outcome(epay_shop, attempt, "DECLINED")
    second = submit(epay_shop, form)
    assert second["trade_no"] != first["trade_no"]
    assert order_statuses(epay_shop, first, second) == ["CLOSED", "PENDING"]


def test_a_number_cannot_be_reopened_while_a_payment_is_pending(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    attempt = start_attempt(epay_shop, first)
    apply_outcome(epay_shop, attempt, "PENDING")
    advance_days(epay_shop, clock, 2)
    assert order_statuses(epay_shop, first) == ["CLOSED"]
    refused = submit(epay_shop, form)
    assert (refused["code"], "正在确认" in refused["msg"]) == (-1, True)
    assert_chinese(refused["msg"])
    apply_outcome(epay_shop, attempt, "DECLINED")
    assert submit(epay_shop, form)["code"] == 1


def test_a_late_payment_of_the_old_order_counts_and_ends_the_new_session(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first, second = reopen_number(epay_shop, clock, form)
    epay_shop.pay(first)
    refused = submit(epay_shop, form)
    assert (refused["code"], "已支付" in refused["msg"]) == (-1, True)
    row = epay_shop.call_api("order", out_trade_no=form["out_trade_no"])
    assert (row["trade_no"], row["status"]) == (first["trade_no"], 1)
    epay_shop.send_notices()
    assert [message["trade_no"] for message in epay_shop.inbox.received] == [first["trade_no"]]
    assert order_statuses(epay_shop, first, second) == ["PAID", "CLOSED"]
    with pytest.raises(Invalid):  # nobody pays it by accident any more
        epay_shop.api_server.tx(
            lambda tx: orders.revoke_manually(
                tx, epay_shop.id, epay_shop.order_id(second), "ann", "test", now_ms()
            )
        )
    done = epay_shop.call_api("refund", out_trade_no=form["out_trade_no"], money="10.5")
    assert (done["code"], done["trade_no"]) == (1, first["trade_no"])
    epay_shop.api_server.check_books()


def test_a_late_payment_leaves_a_session_that_is_being_paid(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first, second = reopen_number(epay_shop, clock, form)
    start_attempt(epay_shop, second)
    epay_shop.pay(first)
    epay_shop.send_notices()
    assert epay_shop.notice(first)["state"] == "DELIVERED"
    assert order_statuses(epay_shop, first, second) == ["PAID", "CREATING"]


def test_a_resubmission_waits_for_the_confirmation_of_a_payment(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    """The confirmation holds the order's lock when the submission comes for it."""
    first = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    app, order_id = epay_shop.api_server.app, epay_shop.order_id(first)
    with ThreadPoolExecutor(1) as threads:

        async def confirm(tx: Tx) -> Any:
            await orders.confirm_manually(tx, epay_shop.id, order_id, "ann", "came", app.clock())
            submission = threads.submit(submit, epay_shop, form)
            for _ in range(500):
                if await find_waiting_session(tx):
                    return submission
                await asyncio.sleep(0.02)
            pytest.fail("the submission does not wait for the order")

        refused = epay_shop.api_server.tx(confirm).result()
    assert (refused["code"], "已支付" in refused["msg"]) == (-1, True)
    assert epay_shop.call_api("query")["orders"] == 1


@pytest.fixture
def _without_paid_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm every payment of a number, as servers of earlier versions did."""

    async def find_none(_tx: Tx, _order: orders.Order) -> None:
        return None

    monkeypatch.setattr(epay_numbers, "find_paid_beside", find_none)


def pay_twice(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pay the new order of a number and then the old one."""
    first, second = reopen_number(epay_shop, clock, form)
    epay_shop.pay(second)
    epay_shop.pay(first)
    return first, second


@pytest.mark.usefixtures("_without_paid_beside")
def test_a_number_paid_twice_is_notified_and_shown_to_staff(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first, second = pay_twice(epay_shop, clock, form)
    epay_shop.send_notices()
    messages = {message["trade_no"]: message for message in epay_shop.inbox.received}
    assert set(messages) == {first["trade_no"], second["trade_no"]}
    assert {message["out_trade_no"] for message in messages.values()} == {form["out_trade_no"]}
    assert [item.subject for item in paid_twice(epay_shop)] == [form["out_trade_no"]]
    (item,) = paid_twice(epay_shop)
    assert item.page == f"/payments/{epay_shop.order_id(second)}"
    assert epay_shop.order_id(first) in item.detail
    done = epay_shop.call_api("refund", trade_no=first["trade_no"], money="10.5")
    epay_shop.shop.report_refund(refund_id(epay_shop, done))
    assert paid_twice(epay_shop) == []
    epay_shop.api_server.check_books()


def paid_twice(epay_shop: EpayShop) -> list[Any]:
    """Return what the console lists of this merchant."""
    (need,) = (need for need in NEEDS if need.name == "paid_twice")
    items = need.items
    assert items is not None
    now = epay_shop.api_server.app.clock()
    listed = epay_shop.api_server.tx(lambda tx: items(tx, now))
    return [item for item in listed if item.merchant_id == epay_shop.id]


def refund_id(epay_shop: EpayShop, done: dict[str, Any]) -> str:
    rows = epay_shop.api_server.sql(
        "select id from refunds where merchant_id = $1 order by created_at desc, id desc limit 1",
        epay_shop.id,
    )
    assert done["code"] in (0, 1), done
    return str(rows[0]["id"])


@pytest.mark.usefixtures("_without_paid_beside")
def test_refunds_by_a_number_paid_twice_refund_one_order_after_the_other(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first, second = pay_twice(epay_shop, clock, form)
    named = {"out_trade_no": form["out_trade_no"], "money": "10.5"}
    done = epay_shop.call_api("refund", refund_no="R-1", **named)
    assert done["trade_no"] == second["trade_no"]  # the newest that is paid
    epay_shop.shop.report_refund(refund_id(epay_shop, done))
    assert epay_shop.call_api("refund", refund_no="R-1", **named) == done  # the same refund, again
    assert (
        epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["trade_no"]
        == (first["trade_no"])
    )
    other = epay_shop.call_api("refund", refund_no="R-2", **named)
    assert other["trade_no"] == first["trade_no"]
    epay_shop.shop.report_refund(refund_id(epay_shop, other))
    wrong = epay_shop.call_api("refund", refund_no="R-1", trade_no=first["trade_no"], money="10.5")
    assert wrong["code"] == -1  # that number is a refund of the other order
    assert order_statuses(epay_shop, first, second) == ["REFUNDED", "REFUNDED"]
    epay_shop.api_server.check_books()


def test_searching_a_number_with_two_orders_lists_both(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> None:
    first, second = reopen_number(epay_shop, clock, form)
    listed = epay_shop.shop.get("/v1/orders", query=form["out_trade_no"]).json()["data"]["items"]
    assert {order["id"] for order in listed} == {
        epay_shop.order_id(first),
        epay_shop.order_id(second),
    }


def test_a_session_that_its_merchant_ended_can_be_reopened(
    epay_shop: EpayShop, form: dict[str, str]
) -> None:
    first = submit(epay_shop, form)
    session_id = first["payurl"].rpartition("/")[2]
    now = epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(
        lambda tx: checkouts.expire(tx, epay_shop.id, session_id, "ended by ann", now)
    )
    assert submit(epay_shop, form)["trade_no"] != first["trade_no"]


def test_a_merchant_that_may_not_charge_reopens_no_number(
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
