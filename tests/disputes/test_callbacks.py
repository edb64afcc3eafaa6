"""Disputes at the sandbox bank, which reports them by real callbacks."""

from collections.abc import Iterator
from typing import Any

import pytest

from opentill import checkouts
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.disputes import jobs
from opentill.integrity.rules import check_books
from support.api_server import ApiServer, Shop, serving
from support.sandbox_bank import SECRET, Receiver, wait_until
from support.sandbox_bank import Shop as Bank


@pytest.fixture
def connected_server(settings: Settings, bank_url: str) -> Iterator[ApiServer]:
    """Run a server to which the sandbox bank sends its callbacks."""
    with serving(settings, sandbox_url=bank_url, sandbox_secret=SECRET) as api_server:
        yield api_server
        _, violations = api_server.tx(check_books)
        assert violations == []


@pytest.fixture
def bank(bank_url: str, receiver: Receiver) -> Iterator[Bank]:
    """A client of the sandbox bank, which acts as its customers and clerks."""
    bank = Bank(bank_url, receiver)
    yield bank
    bank.api.delete("/faults")
    bank.close()


def pay(api_server: ApiServer, bank: Bank, session: dict[str, Any], number: str) -> str:
    """Pay a session by card; return the attempt's id."""
    app = api_server.app
    payer = checkouts.PayerInput(
        email="ann@example.com", name="Ann", method="CREDIT_CARD", ip="192.0.2.7", locale="en"
    )
    attempt = api_server.run(
        checkouts.pay(app.db, app.gateways, session["id"], payer, api_server.url, now_ms())
    )
    assert attempt is not None
    bank.type_card(attempt.id, number)
    return attempt.id


def open_dispute(api_server: ApiServer, bank: Bank) -> tuple[Shop, str, str]:
    """Pay with the card number that leads to a dispute; return shop, order id and dispute id."""
    shop = api_server.create_shop()
    session = shop.create_session()
    order_id: str = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    attempt_id = pay(api_server, bank, session, "4000000000000259")
    wait_for_status(shop, order_id, "DISPUTED")
    (dispute,) = bank.api.get(f"/payments/{attempt_id}/disputes").json()
    return shop, order_id, str(dispute["id"])


def wait_for_status(shop: Shop, order_id: str, status: str) -> None:
    """Wait until the order has the status, and retry unmatched dispute events meanwhile.

    A dispute's callback may arrive before that of its payment.
    """
    app = shop.api_server.app

    def has_status() -> bool:
        shop.api_server.run(jobs.match(app.db, now_ms()))
        return bool(shop.read_order(order_id)["status"] == status)

    wait_until(has_status)


@pytest.mark.parametrize(("decisions", "status", "pending", "available"), [
    (["won"], "PAID", "9.59", "0.00"),
    (["lost"], "CHARGEBACK", "-15.40", "0.00"),
    (["lost", "recovered"], "SETTLED", "0.00", "-5.41"),
])  # fmt: skip
def test_a_dispute_moves_the_merchants_money(
    connected_server: ApiServer,
    bank: Bank,
    decisions: list[str],
    status: str,
    pending: str,
    available: str,
) -> None:
    shop, order_id, dispute_id = open_dispute(connected_server, bank)
    (dispute,) = shop.data("GET", "/v1/disputes?status=OPEN")["items"]
    assert (dispute["orderId"], dispute["debit"], dispute["reason"]) == (
        order_id,
        "9.99",
        "fraudulent",
    )
    bank.inject_fault("callback", "duplicate", times=3)
    for decision in decisions:
        assert bank.api.post(f"/disputes/{dispute_id}/{decision}").status_code == 200
    wait_for_status(shop, order_id, status)
    balance = shop.data("GET", "/v1/balance")
    assert (balance["pending"], balance["available"]) == (pending, available)
    (decided,) = shop.data("GET", "/v1/disputes")["items"]
    assert (decided["id"], decided["status"]) == (dispute["id"], decisions[-1].upper())
