"""Orders that customers pay with a wallet in a running deployment."""

import html
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any
from urllib.parse import urljoin, urlsplit

from opentill.client import Client
from opentill.web import qr
from support.gateway_deployment import Browser, wait_for
from support.wallet_shop import WalletShop

PHONE = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 Chrome/150.0.0.0 Mobile Safari/537.36"


def read_storage(bank: WalletShop, sql: str, *values: str) -> str:
    """Return a text from the bank's storage."""
    file = bank.folder.parent / "sandbox.sqlite3"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return str(connection.execute(sql, values).fetchone()[0])


def submit(bank: WalletShop, browser: Browser, session_url: str) -> str:
    """Choose the wallet on the payment page; return the attempt's id."""
    browser.open(session_url)
    browser.submit(email="ada@example.com", name="Ada", method=bank.method, lang="en")
    path = urlsplit(str(browser.page.url)).path
    assert "/continue/" in path, path
    return path.rpartition("/")[2]


def pay_by_code(bank: WalletShop, client: Client, product_id: str, code_sql: str) -> str:
    """Pay by the QR code on the payment page; return the order's id.

    ``code_sql`` returns the path of the attempt's code from the bank's storage.
    """
    session = client.checkouts.create(product_id)
    browser = Browser()
    with browser.http:
        attempt_id = submit(bank, browser, session.url)
        assert "Scan to pay" in browser.page.text
        assert browser.page.headers["referrer-policy"] == "same-origin"
        match = re.search(r'<img class="qr" src="([^"]+)"', browser.page.text)
        assert match is not None
        image = browser.http.get(urljoin(str(browser.page.url), html.unescape(match[1])))
        code = bank.bank_url + read_storage(bank, code_sql, attempt_id)
        assert image.content == qr.svg(code)
        bank.open(code)  # on the phone
        bank.decide(attempt_id)
        order_id = client.checkouts.get(session.id).order_id
        wait_for(lambda: client.orders.get(order_id).status == "PAID")
        browser.open(session.url)
        assert "Payment received" in browser.page.text
    order = client.orders.get(order_id)
    assert (order.amount, order.payment_method) == (Decimal("9.99"), bank.method)
    return order_id


def pay_on_phone(bank: WalletShop, client: Client, product_id: str) -> tuple[str, str]:
    """Pay on the wallet's page for phones, which leads back; return order and attempt."""
    session = client.checkouts.create(product_id)
    browser = Browser()
    browser.http.headers["user-agent"] = PHONE
    with browser.http:
        attempt_id = submit(bank, browser, session.url)
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


def refund_in_two_parts(bank: WalletShop, client: Client, order_id: str) -> None:
    """Refund an order in two parts, the first of which gets no usable response."""
    bank.inject_fault("refund", "error_500_after")
    refunds: list[Any] = [
        client.refunds.create(order_id, amount="2.00"),
        client.refunds.create(order_id),
    ]
    for refund in refunds:
        wait_for(lambda id_=refund.id: client.refunds.get(id_).status == "SUCCEEDED")
    wait_for(lambda: client.orders.get(order_id).status == "REFUNDED")


def pay_and_refund_at_the_provider(bank: WalletShop, client: Client, product_id: str) -> None:
    """Pay without a notification; then the merchant refunds a part on the provider's pages."""
    # A notification that is lost does not matter: the customer's return queries the order.
    bank.inject_fault("callback", "drop")
    order_id, attempt_id = pay_on_phone(bank, client, product_id)
    assert client.orders.get(order_id).status == "PAID"
    path = f"/payments/{attempt_id}/refunds"
    assert bank.api.post(path, json={"amount_minor": 100}).status_code == 201
    # The notification of the provider reports the refund.
    wait_for(lambda: client.orders.get(order_id).refunded_amount == Decimal("1.00"))
