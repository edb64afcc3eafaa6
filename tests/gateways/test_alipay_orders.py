"""Orders are paid through Alipay in a running deployment, with its worker as a process.

The customer uses the payment page and scans its QR code, or opens Alipay's page; the sandbox bank
speaks Alipay's dialect and sends signed notifications.
"""

import html
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from opentill.client import Client
from opentill.sandbox import alipay
from opentill.web import qr
from support.alipay_shop import AlipayShop, running_alipay
from support.commands import ForkServer
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)

PHONE = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0.0.0 Mobile Safari/537.36"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[AlipayShop]:
    """A bank whose storage the test can read."""
    with running_alipay(tmp_path / "bank") as shop:
        yield shop


def read_storage(bank: AlipayShop, sql: str, *values: str) -> str:
    """Return a text from the bank's storage."""
    file = bank.folder.parent / "sandbox.sqlite3"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return str(connection.execute(sql, values).fetchone()[0])


def code_of(bank: AlipayShop, attempt_id: str) -> str:
    """Return the text of the QR code that the bank has made for an attempt."""
    sql = "select trade_no from alipay_trades where payment_id = ?"
    return f"{bank.bank_url}/alipay/qr/{read_storage(bank, sql, attempt_id)}"


def newest_attempt(bank: AlipayShop) -> str:
    return read_storage(bank, "select id from payments order by created_at desc limit 1")


def submit(browser: Browser, session_url: str) -> str:
    """Choose Alipay on the payment page; return the attempt's id."""
    browser.open(session_url)
    browser.submit(email="ada@example.com", name="Ada", method="ALIPAY", lang="en")
    path = urlsplit(str(browser.page.url)).path
    assert "/continue/" in path, path
    return path.rpartition("/")[2]


def pay_by_code(bank: AlipayShop, client: Client, product_id: str) -> str:
    """Pay by the QR code on the payment page; return the order's id."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    with browser.http:
        attempt_id = submit(browser, session.url)
        assert "Scan to pay" in browser.page.text
        match = re.search(r'<img class="qr" src="([^"]+)"', browser.page.text)
        assert match is not None
        image = browser.http.get(urljoin(str(browser.page.url), html.unescape(match[1])))
        code = code_of(bank, attempt_id)
        assert image.content == qr.svg(code)
        bank.open(code)  # on the phone
        bank.decide(attempt_id)
        order_id = client.checkouts.get(session.id).order_id
        wait_for(lambda: client.orders.get(order_id).status == "PAID")
        browser.open(session.url)
        assert "Payment received" in browser.page.text
    return order_id


def pay_on_phone(bank: AlipayShop, client: Client, product_id: str) -> str:
    """Pay on Alipay's page for phones, whose button leads back; return the order's id."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    browser.http.headers["user-agent"] = PHONE
    with browser.http:
        attempt_id = submit(browser, session.url)
        browser.open(browser.button())
        assert str(browser.page.url) == f"{bank.bank_url}/phone/{attempt_id}"
        browser.submit(decision="approve")
        browser.open(browser.button())
        browser.open(browser.button())
        assert "Payment received" in browser.page.text
    return client.checkouts.get(session.id).order_id


def test_orders_are_paid_and_refunded_through_alipay(
    fork_server: ForkServer,
    bank: AlipayShop,
    tmp_path: Path,
    make_database: Callable[[], str],
) -> None:
    with run_server(
        fork_server,
        tmp_path / "deployment",
        make_database(),
        OPENTILL_GATEWAYS="alipay",
        OPENTILL_GATEWAY_ALIPAY_URL=bank.url,
        OPENTILL_GATEWAY_ALIPAY_APP_ID=alipay.APP_ID,
        OPENTILL_GATEWAY_ALIPAY_SELLER_ID=alipay.SELLER_ID,
        OPENTILL_GATEWAY_ALIPAY_PRIVATE_KEY_FILE=str(bank.folder / alipay.PRIVATE_KEY),
        OPENTILL_GATEWAY_ALIPAY_APP_CERT_FILE=str(bank.folder / "app_cert.crt"),
        OPENTILL_GATEWAY_ALIPAY_CERT_FILE=str(bank.folder / "alipay_cert.crt"),
        OPENTILL_GATEWAY_ALIPAY_ROOT_CERT_FILE=str(bank.folder / "alipay_root_cert.crt"),
        OPENTILL_GATEWAY_ALIPAY_PRODUCTS="precreate,wap",
    ) as deployment:
        _, key = create_merchant(deployment)
        with create_client(deployment, key) as client:
            tea = client.products.create(name="茶 & Tea", price="9.99", currency="CNY")
            order_id = pay_by_code(bank, client, tea.id)
            order = client.orders.get(order_id)
            assert (order.amount, order.payment_method) == (Decimal("9.99"), "ALIPAY")
            bank.inject_fault("refund", "error_500_after")
            refunds = [
                client.refunds.create(order_id, amount="2.00"),
                client.refunds.create(order_id),
            ]
            for refund in refunds:
                wait_for(lambda id_=refund.id: client.refunds.get(id_).status == "SUCCEEDED")
            wait_for(lambda: client.orders.get(order_id).status == "REFUNDED")
            # A notification that is lost does not matter: the customer's return queries the order.
            bank.inject_fault("callback", "drop")
            phone_order_id = pay_on_phone(bank, client, tea.id)
            assert client.orders.get(phone_order_id).status == "PAID"
            # Somebody refunds on the provider's pages; the notification reports it.
            path = f"/payments/{newest_attempt(bank)}/refunds"
            assert bank.api.post(path, json={"amount_minor": 100}).status_code == 201
            wait_for(lambda: client.orders.get(phone_order_id).refunded_amount == Decimal("1.00"))
