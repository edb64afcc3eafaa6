"""Orders are paid through WeChat Pay in a running deployment, with its worker as a process.

The customer uses the payment page and scans its QR code, or opens WeChat from a phone; the sandbox
bank speaks WeChat Pay's dialect and sends signed notifications.
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
from opentill.sandbox.wechat_pay import keys
from opentill.web import qr
from support.commands import ForkServer
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)
from support.wechat_pay_shop import WeChatPayShop, running_wechat_pay

PHONE = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0.0.0 Mobile Safari/537.36"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[WeChatPayShop]:
    """A bank whose storage the test can read."""
    with running_wechat_pay(tmp_path / "bank") as shop:
        yield shop


def code_of(bank: WeChatPayShop, attempt_id: str) -> str:
    """Return the text of the QR code that the bank has made for an attempt."""
    file = bank.folder.parent / "sandbox.sqlite3"
    sql = "select transaction_id from wechat_pay_orders where payment_id = ?"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        (number,) = connection.execute(sql, (attempt_id,)).fetchone()
    return f"{bank.bank_url}/wechat_pay/code/{number}"


def submit(browser: Browser, session_url: str) -> str:
    """Choose WeChat Pay on the payment page; return the attempt's id."""
    browser.open(session_url)
    browser.submit(email="ada@example.com", name="Ada", method="WECHAT_PAY", lang="en")
    path = urlsplit(str(browser.page.url)).path
    assert "/continue/" in path, path
    return path.rpartition("/")[2]


def pay_by_code(bank: WeChatPayShop, client: Client, product_id: str) -> str:
    """Pay by the QR code on the payment page; return the order's id."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    with browser.http:
        attempt_id = submit(browser, session.url)
        assert "Scan to pay" in browser.page.text
        assert browser.page.headers["referrer-policy"] == "same-origin"
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


def pay_on_phone(bank: WeChatPayShop, client: Client, product_id: str) -> tuple[str, str]:
    """Pay by the link that opens WeChat, whose page leads back; return order and attempt."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    browser.http.headers["user-agent"] = PHONE
    with browser.http:
        attempt_id = submit(browser, session.url)
        # WeChat Pay recognizes the registered site by the referrer.
        assert browser.page.headers["referrer-policy"] == "strict-origin"
        assert "noreferrer" not in browser.page.text[browser.page.text.index('class="button"') :]
        browser.open(browser.button())
        assert str(browser.page.url) == f"{bank.bank_url}/phone/{attempt_id}"
        browser.submit(decision="approve")
        browser.open(browser.button())
        browser.open(browser.button())
        assert "Payment received" in browser.page.text
    return client.checkouts.get(session.id).order_id, attempt_id


def test_orders_are_paid_and_refunded_through_wechat_pay(
    fork_server: ForkServer,
    bank: WeChatPayShop,
    tmp_path: Path,
    make_database: Callable[[], str],
) -> None:
    with run_server(
        fork_server,
        tmp_path / "deployment",
        make_database(),
        OPENTILL_GATEWAYS="wechat_pay",
        OPENTILL_GATEWAY_WECHAT_PAY_URL=bank.bank_url,
        OPENTILL_GATEWAY_WECHAT_PAY_MCHID=keys.MCHID,
        OPENTILL_GATEWAY_WECHAT_PAY_APPID=keys.APPID,
        OPENTILL_GATEWAY_WECHAT_PAY_PRIVATE_KEY_FILE=str(bank.folder / "apiclient_key.pem"),
        OPENTILL_GATEWAY_WECHAT_PAY_CERTIFICATE_FILE=str(bank.folder / "apiclient_cert.pem"),
        OPENTILL_GATEWAY_WECHAT_PAY_API_V3_KEY_FILE=str(bank.folder / "api_v3_key.txt"),
        OPENTILL_GATEWAY_WECHAT_PAY_PRODUCTS="native,h5",
    ) as deployment:
        _, key = create_merchant(deployment)
        with create_client(deployment, key) as client:
            tea = client.products.create(name="茶 & Tea", price="9.99", currency="CNY")
            # Another certificate signs the notification; the server downloads it by itself.
            bank.rotate()
            bank.inject_fault("find", "error_500", times=1000)  # only the notification can help
            order_id = pay_by_code(bank, client, tea.id)
            bank.api.delete("/faults")
            order = client.orders.get(order_id)
            assert (order.amount, order.payment_method) == (Decimal("9.99"), "WECHAT_PAY")
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
            phone_order_id, attempt_id = pay_on_phone(bank, client, tea.id)
            assert client.orders.get(phone_order_id).status == "PAID"
            # Somebody refunds in the merchant platform; the notification reports it.
            path = f"/payments/{attempt_id}/refunds"
            assert bank.api.post(path, json={"amount_minor": 100}).status_code == 201
            wait_for(lambda: client.orders.get(phone_order_id).refunded_amount == Decimal("1.00"))
