"""Refunds that are made or reversed at the sandbox bank reach OpenTill by callbacks."""

from collections.abc import Iterator
from typing import Any

import pytest

from opentill import checkouts
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.integrity.rules import check_books
from opentill.refunds import jobs
from support.api_server import ApiServer, Shop, serving
from support.sandbox_bank import SECRET, Receiver, wait_until
from support.sandbox_bank import Shop as Bank


@pytest.fixture
def connected_server(settings: Settings, bank_url: str) -> Iterator[ApiServer]:
    """Serve an instance that gets the sandbox bank's callbacks."""
    with serving(settings, sandbox_url=bank_url, sandbox_secret=SECRET) as api_server:
        yield api_server
        _, violations = api_server.tx(check_books)
        assert violations == []


@pytest.fixture
def bank(bank_url: str, receiver: Receiver) -> Iterator[Bank]:
    """Connect to the bank as its customers and clerks do."""
    bank = Bank(bank_url, receiver)
    yield bank
    bank.close()


def pay_order(api_server: ApiServer, bank: Bank) -> tuple[Shop, str, str]:
    """Pay an order by card; return the shop and the ids of order and attempt."""
    shop = api_server.create_shop()
    session = shop.create_session()
    order_id: str = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    app = api_server.app
    payer = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method="CREDIT_CARD", ip="192.0.2.7", locale="en"
    )
    attempt = api_server.run(
        checkouts.pay(app.db, app.gateways, session["id"], payer, api_server.url, now_ms())
    )
    assert attempt is not None
    bank.type_card(attempt.id, "4242424242424242")
    wait_for_order(shop, order_id, status="PAID")
    return shop, order_id, attempt.id


def wait_for_order(shop: Shop, order_id: str, **fields: Any) -> None:
    """Wait until the order has these fields."""

    def has_fields() -> bool:
        order = shop.read_order(order_id)
        return all(order[name] == value for name, value in fields.items())

    wait_until(has_fields)


def test_a_refund_made_at_the_banks_desk_and_its_reversal_are_applied(
    connected_server: ApiServer, bank: Bank
) -> None:
    shop, order_id, attempt_id = pay_order(connected_server, bank)
    desk = bank.browser.get(f"/desk/{attempt_id}")
    assert desk.status_code == 200
    assert "Bank dashboard" in desk.text
    bank.browser.post(f"/desk/{attempt_id}/refund", data={"amount": "4.00"})
    wait_for_order(shop, order_id, refundStatus="PARTIAL", refundedAmount="4.00")
    (refund,) = shop.data("GET", f"/v1/orders/{order_id}/refunds")["items"]
    assert (refund["source"], refund["status"]) == ("GATEWAY", "SUCCEEDED")

    (bank_refund,) = bank.api.get(f"/payments/{attempt_id}/refunds").json()
    bank.browser.post(f"/desk/{attempt_id}/reverse", data={"refund": bank_refund["id"]})
    wait_for_order(shop, order_id, refundStatus="NONE", refundedAmount="0")
    repeated = bank.api.post(f"/refunds/{bank_refund['id']}/reverse")
    assert repeated.status_code == 200
    too_much = bank.browser.post(f"/desk/{attempt_id}/refund", data={"amount": "400.00"})
    assert too_much.status_code == 409
    report = bank.api.get("/settlement-report.csv").text
    assert f"refund,{bank_refund['id']},4.00,USD" in report
    assert f"refund_failure,{bank_refund['id']},4.00,USD" in report


def test_a_reversal_of_our_own_refund_is_applied(connected_server: ApiServer, bank: Bank) -> None:
    shop, order_id, _ = pay_order(connected_server, bank)
    refund = shop.refund(order_id)
    app = connected_server.app
    connected_server.run(jobs.send_due(app.db, app.gateways, connected_server.url, now_ms()))
    wait_for_order(shop, order_id, status="REFUNDED")
    assert bank.api.post(f"/refunds/{refund['id']}/reverse").status_code == 200
    wait_for_order(shop, order_id, status="PAID", refundedAmount="0")
    reversed_refund = shop.data("GET", f"/v1/refunds/{refund['id']}")
    assert (reversed_refund["status"], reversed_refund["source"]) == ("FAILED", "REQUEST")
    assert "sent the money back" in reversed_refund["errorMessage"]


def test_the_bank_refuses_to_reverse_an_unknown_refund_and_to_refund_twice(
    connected_server: ApiServer, bank: Bank
) -> None:
    _, _, attempt_id = pay_order(connected_server, bank)
    assert bank.api.post("/refunds/re_nothing/reverse").status_code == 404
    assert bank.api.post(f"/payments/{attempt_id}/refunds", json={}).status_code == 201
    assert bank.api.post(f"/payments/{attempt_id}/refunds", json={}).status_code == 409
