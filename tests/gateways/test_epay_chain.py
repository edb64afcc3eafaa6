"""OpenTill's Epay gateway works with OpenTill's Epay API: a payment passes two servers.

The upstream server uses the sandbox bank; the downstream server's gateway is the upstream server.
"""

import html
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest

from opentill.client import Client
from support import pooler
from support.commands import ForkServer
from support.deployment import TIMEOUT_S, Deployment

CARD: Final = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}


@contextmanager
def run_server(
    fork_server: ForkServer, directory: Path, database: str, **environ: str
) -> Iterator[Deployment]:
    """Run ``opentill serve`` with its worker as a process, on a database of the test."""
    directory.mkdir()
    deployment = Deployment(directory, fork_server)
    deployment.environ |= {
        "OPENTILL_DATABASE_URL": database,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DB_PREPARED": pooler.prepared_setting(database),
        "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
        **environ,
    }
    process = deployment.start()
    try:
        yield deployment
        report = json.loads(deployment.run_checked("ledger", "check", "--json"))
        assert report["violations"] == []
        assert report["entries"] > 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


def create_merchant(deployment: Deployment) -> tuple[str, str]:
    """Create a merchant that settles in CNY; return its id and API key."""
    output = deployment.run_checked("merchants", "create", "Tea", "--currency", "CNY", "--json")
    merchant_id = json.loads(output)["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant_id, "--json"))["key"]
    deployment.run_checked("rates", "set", "CNY", "USD", "0.14", "--reason", "test")
    return merchant_id, key


def create_client(deployment: Deployment, key: str) -> Client:
    return Client(f"http://127.0.0.1:{deployment.port}", key, trust_env=False)


def wait_for(read_value: Callable[[], Any]) -> Any:
    """Call a function until it returns a true value; return that value."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := read_value()):
        assert time.monotonic() < deadline, "no true value before the deadline"
        time.sleep(0.1)
    return value


class Browser:
    """A customer's browser without scripts, which follows redirects and finds buttons."""

    def __init__(self) -> None:
        self.http = httpx2.Client(follow_redirects=True, trust_env=False, timeout=30)
        self.page = httpx2.Response(200)

    def open(self, url: str) -> None:
        self.page = self.http.get(url)
        assert self.page.status_code == 200, self.page.text

    def submit(self, **form: str) -> None:
        """Submit the form of the current page."""
        self.page = self.http.post(str(self.page.url), data=form)
        assert self.page.status_code == 200, self.page.text

    def button(self) -> str:
        """Return the URL of the current page's button."""
        match = re.search(r'<a class="button[^"]*" href="([^"]+)"', self.page.text)
        assert match is not None, self.page.text
        return urljoin(str(self.page.url), html.unescape(match[1]))


def pay_by_card(browser: Browser, session_url: str, upstream: Deployment) -> None:
    """Pay on the downstream, upstream and bank pages; return to the upstream's page."""
    browser.open(session_url)
    browser.submit(email="ada@example.com", name="Ada", method="CREDIT_CARD", lang="en")
    browser.open(browser.button())
    assert urlsplit(str(browser.page.url)).port == upstream.port
    browser.submit(email="ada@example.com", name="Ada", method="CREDIT_CARD", lang="en")
    browser.open(browser.button())
    assert urlsplit(str(browser.page.url)).port == upstream.sandbox_port
    browser.submit(**CARD)
    browser.open(browser.button())
    assert urlsplit(str(browser.page.url)).port == upstream.port
    assert "Payment received" in browser.page.text


@pytest.fixture
def upstream(
    fork_server: ForkServer, tmp_path: Path, make_database: Callable[[], str]
) -> Iterator[Deployment]:
    with run_server(
        fork_server,
        tmp_path / "upstream",
        make_database(),
        OPENTILL_OUTGOING_HTTP="yes",
        OPENTILL_OUTGOING_ALLOW="127.0.0.0/8",
    ) as deployment:
        yield deployment


@pytest.mark.parametrize("mode", ["mapi", pytest.param("submit", marks=pytest.mark.stress)])
def test_a_payment_and_its_refunds_are_booked_by_both_servers(
    fork_server: ForkServer,
    upstream: Deployment,
    tmp_path: Path,
    make_database: Callable[[], str],
    mode: str,
) -> None:
    upstream_merchant, upstream_key = create_merchant(upstream)
    credentials = json.loads(upstream.run_checked("epay", "enable", upstream_merchant, "--json"))
    with (
        run_server(
            fork_server,
            tmp_path / "downstream",
            make_database(),
            OPENTILL_GATEWAYS="epay",
            OPENTILL_GATEWAY_EPAY_URL=f"http://127.0.0.1:{upstream.port}/epay/",
            OPENTILL_GATEWAY_EPAY_PID=str(credentials["pid"]),
            OPENTILL_GATEWAY_EPAY_KEY=credentials["key"],
            OPENTILL_GATEWAY_EPAY_METHODS="ALIPAY,CREDIT_CARD",
            OPENTILL_GATEWAY_EPAY_MODE=mode,
        ) as downstream,
        create_client(upstream, upstream_key) as upstream_client,
    ):
        _, key = create_merchant(downstream)
        with create_client(downstream, key) as client:
            tea = client.products.create(name="茶 & Tea", price="9.99", currency="CNY")
            session = client.checkouts.create(tea.id)
            browser = Browser()
            with browser.http:
                pay_by_card(browser, session.url, upstream)
                # The notification alone pays the order, before the customer returns.
                order_id = client.checkouts.get(session.id).order_id
                wait_for(lambda: client.orders.get(order_id).status == "PAID")
                browser.open(browser.button())
                assert urlsplit(str(browser.page.url)).port == downstream.port
                assert "Payment received" in browser.page.text
            order = client.orders.get(order_id)
            (upstream_order,) = upstream_client.orders.list()
            assert (order.amount, upstream_order.amount) == (Decimal("9.99"), Decimal("9.99"))
            assert (order.payment_method, upstream_order.payment_method) == (
                "CREDIT_CARD",
                "CREDIT_CARD",
            )
            assert upstream_order.status == "PAID"
            refunds = [
                client.refunds.create(order_id, amount="2.00"),
                client.refunds.create(order_id, amount="2.00"),
                client.refunds.create(order_id),
            ]
            for refund in refunds:
                wait_for(lambda id_=refund.id: client.refunds.get(id_).status == "SUCCEEDED")
                assert client.refunds.get(refund.id).succeeded_at is not None
            wait_for(lambda: upstream_client.orders.get(upstream_order.id).status == "REFUNDED")
            assert client.orders.get(order_id).status == "REFUNDED"
            amounts = sorted(
                refund.amount for refund in upstream_client.refunds.list(upstream_order.id)
            )
            assert amounts == [Decimal("2.00"), Decimal("2.00"), Decimal("5.99")]
