"""Orders are paid through PayPal in a running deployment, with its worker as a process.

The customer uses the payment page and approves on PayPal's; the sandbox bank speaks PayPal's
dialect and sends signed webhooks.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from opentill.client import Client
from opentill.sandbox import paypal
from support.commands import ForkServer
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)
from support.paypal_shop import GOOD_CARD, PayPalShop, running_paypal

CARD = {"number": GOOD_CARD, "exp": "12/40", "csc": "123", "name": "Ada"}
DECLINED = CARD | {"number": "4000000000000002"}


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[PayPalShop]:
    """A bank of this test only."""
    with running_paypal(tmp_path / "bank") as shop:
        yield shop


def submit(browser: Browser, session_url: str) -> str:
    """Choose PayPal on the payment page, and follow its button; return the attempt's id."""
    browser.open(session_url)
    assert "PayPal or card" in browser.page.text
    browser.submit(email="ada@example.com", name="Ada", method="CREDIT_CARD", lang="en")
    path = urlsplit(str(browser.page.url)).path
    assert "/continue/" in path, path
    browser.open(browser.button())
    return path.rpartition("/")[2]


def pay_and_return(client: Client, product_id: str, *cards: dict[str, str]) -> tuple[str, str]:
    """Pay with cards, of which all but the last are declined; return order and attempt."""
    session = client.checkouts.create(product_id)
    browser, url = Browser(), session.url
    with browser.http:
        for card in cards:
            attempt_id = submit(browser, url)
            browser.submit(**card)
            browser.open(browser.button())
        assert "Payment received" in browser.page.text
    return client.checkouts.get(session.id).order_id, attempt_id


def pay_and_leave(client: Client, product_id: str) -> str:
    """Approve at PayPal and close the browser; return the order's id."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    with browser.http:
        submit(browser, session.url)
        browser.submit(**CARD)
    return client.checkouts.get(session.id).order_id


def test_orders_are_paid_refunded_and_disputed_through_paypal(
    fork_server: ForkServer,
    bank: PayPalShop,
    tmp_path: Path,
    make_database: Callable[[], str],
) -> None:
    with run_server(
        fork_server,
        tmp_path / "deployment",
        make_database(),
        OPENTILL_GATEWAYS="paypal",
        OPENTILL_GATEWAY_PAYPAL_URL=bank.bank_url,
        OPENTILL_GATEWAY_PAYPAL_CLIENT_ID=paypal.CLIENT_ID,
        OPENTILL_GATEWAY_PAYPAL_CLIENT_SECRET_FILE=str(bank.folder / paypal.CREDENTIAL_FILE),
        OPENTILL_GATEWAY_PAYPAL_WEBHOOK_ID=bank.webhook_id,
        OPENTILL_GATEWAY_PAYPAL_MERCHANT_ID=paypal.MERCHANT_ID,
        OPENTILL_GATEWAY_PAYPAL_CA_FILE=str(bank.folder / paypal.ROOT_FILE),
    ) as deployment:
        bank.move_webhook(f"http://127.0.0.1:{deployment.port}/gateways/paypal/callback")
        _, key = create_merchant(deployment)
        deployment.run_checked("rates", "set", "CNY", "EUR", "0.13", "--reason", "test")
        deployment.run_checked("rates", "set", "EUR", "CNY", "7.8", "--reason", "test")
        with create_client(deployment, key) as client:
            tea = client.products.create(name="Tee & Tea", price="9.99", currency="EUR")
            # The customer closes the browser: PayPal's webhook makes the worker capture, and the
            # response to the capture is lost.
            bank.inject_fault("capture", "error_500_after")
            order_id = pay_and_leave(client, tea.id)
            wait_for(lambda: client.orders.get(order_id).status == "PAID")
            order = client.orders.get(order_id)
            assert (order.amount, order.payment_method) == (Decimal("9.99"), "CREDIT_CARD")
            bank.inject_fault("refund", "error_500_after")
            refunds = [
                client.refunds.create(order_id, amount="2.00"),
                client.refunds.create(order_id),
            ]
            for refund in refunds:
                wait_for(lambda id_=refund.id: client.refunds.get(id_).status == "SUCCEEDED")
            wait_for(lambda: client.orders.get(order_id).status == "REFUNDED")
            # Webhooks that are lost do not matter: the customer's return captures the order. A
            # declined card is replaced on the same page.
            bank.inject_fault("callback", "drop", times=3)
            second_id, attempt_id = pay_and_return(client, tea.id, DECLINED, CARD)
            assert client.orders.get(second_id).status == "PAID"
            # Somebody refunds at PayPal; its webhook reports that.
            path = f"/payments/{attempt_id}/refunds"
            assert bank.api.post(path, json={"amount_minor": 100}).status_code == 201
            wait_for(lambda: client.orders.get(second_id).refunded_amount == Decimal("1.00"))
            # The customer disputes the rest.
            dispute = bank.api.post(f"/payments/{attempt_id}/disputes").json()
            wait_for(lambda: client.orders.get(second_id).status == "DISPUTED")
            bank.api.post(f"/disputes/{dispute['id']}/lost")
            wait_for(lambda: client.orders.get(second_id).status == "CHARGEBACK")
        file = tmp_path / "movements.csv"
        asyncio.run(fetch_movements(bank, file))
        report = json.loads(deployment.run_checked("reconcile", "paypal", str(file), "--json"))
        assert (report["differences"], report["matched"]) == ([], 6), report
        # PayPal lists the movements of the last three hours late, so these are left out.
        since = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400))
        words = ("reconcile", "paypal", "--from", since, "--json")
        report = json.loads(deployment.run_checked(*words))
        assert (report["differences"], report["matched"]) == ([], 0), report


async def fetch_movements(bank: PayPalShop, file: Path) -> None:
    """Fetch all movements of the account."""
    gateway, now = bank.gateway(), time.time_ns() // 1_000_000
    with file.open("wb") as target:
        await gateway.settlement_report(target, now - 3_600_000, now)
    await gateway.close()
