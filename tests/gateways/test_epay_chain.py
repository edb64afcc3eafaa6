"""OpenTill's Epay gateways work with OpenTill's Epay APIs: a payment passes two servers.

The upstream server uses the sandbox bank; the downstream server's gateway is the upstream server.
"""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from support.commands import ForkServer
from support.deployment import Deployment
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)

CARD: Final = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}


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


def _settings(upstream: Deployment, merchant_id: str, mode: str) -> dict[str, str]:
    """Enable the merchant's Epay API, and return the settings of the downstream's gateway."""

    def run(*words: str) -> dict[str, str]:
        output: dict[str, str] = json.loads(upstream.run_checked("epay", *words, "--json"))
        return output

    credentials, version = run("enable", merchant_id), "EPAY"
    settings = {
        "URL": f"http://127.0.0.1:{upstream.port}/epay/",
        "PID": str(credentials["pid"]),
        "METHODS": "ALIPAY,CREDIT_CARD",
    }
    if mode == "v2":
        version, pair = "EPAY_V2", run("key-pair", merchant_id)
        run("versions", merchant_id, "v2")
        settings |= {"PRIVATE_KEY": pair["privateKey"], "PUBLIC_KEY": pair["platformPublicKey"]}
        settings["REFUNDS"] = "repeat"
    else:
        settings |= {"KEY": credentials["key"], "MODE": mode}
    prefix = f"OPENTILL_GATEWAY_{version}_"
    return {"OPENTILL_GATEWAYS": version.lower()} | {
        prefix + name: value for name, value in settings.items()
    }


@pytest.mark.parametrize("mode", ["mapi", "v2", pytest.param("submit", marks=pytest.mark.stress)])
def test_a_payment_and_its_refunds_are_booked_by_both_servers(
    fork_server: ForkServer,
    upstream: Deployment,
    tmp_path: Path,
    make_database: Callable[[], str],
    mode: str,
) -> None:
    upstream_merchant, upstream_key = create_merchant(upstream)
    with (
        run_server(
            fork_server,
            tmp_path / "downstream",
            make_database(),
            **_settings(upstream, upstream_merchant, mode),
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
