"""Orders are paid in tokens on a real chain in a running deployment, with its worker as a process.

The customer uses the payment page without scripts; staff use the command line.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from opentill.client import Client
from opentill.gateways.evm.addresses import with_checksum
from opentill.web import qr
from support.commands import ForkServer
from support.deployment import Deployment
from support.ganache import ACCOUNT_XPUB, CHAIN_ID, Ganache, ganache
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)

__all__ = ["ganache"]
WHY = ("--reason", "sent from the wallet", "--json")


@pytest.fixture
def environ(ganache: Ganache) -> dict[str, str]:
    options = {
        "RPC_URL": ganache.url,
        "CHAIN_ID": str(CHAIN_ID),
        "XPUB": ACCOUNT_XPUB,
        "TOKENS": f"USDT:{ganache.usdt}:6,USDC:{ganache.usdc}:18",
        "CONFIRMATIONS": "2",
    }
    named = {f"OPENTILL_GATEWAY_EVM_{name}": value for name, value in options.items()}
    return {"OPENTILL_GATEWAYS": "evm", **named}


def refund_from_the_wallet(
    deployment: Deployment, client: Client, ganache: Ganache, order_id: str
) -> None:
    """Refund a part: staff send it, and record the transaction."""
    # The refund waits for the transaction that staff send.
    refund = client.refunds.create(order_id, amount="2.50")
    refusal = deployment.run("refunds", "done", refund.id, *WHY)
    assert refusal.returncode != 0
    recipient = with_checksum(ganache.accounts[5])
    wrong = ganache.transfer(ganache.usdt, recipient, 2_400_000)
    ganache.mine(2)
    refusal = deployment.run("deposits", "refunded", refund.id, wrong, recipient, *WHY)
    assert "2.4 USDT" in refusal.stdout + refusal.stderr
    assert client.refunds.get(refund.id).status == "PROCESSING"
    sent = ganache.transfer(ganache.usdt, recipient, 2_500_000)
    ganache.mine(2)
    deployment.run_checked("deposits", "refunded", refund.id, sent, recipient, *WHY)
    assert client.refunds.get(refund.id).status == "SUCCEEDED"
    assert client.orders.get(order_id).refunded_amount == Decimal("2.50")
    actions = [
        row["action"] for row in json.loads(deployment.run_checked("audit", "list", "--json"))
    ]
    assert {"deposits handled", "deposits refunded"} <= set(actions)


def test_orders_are_paid_and_refunded_in_tokens(
    fork_server: ForkServer,
    ganache: Ganache,
    tmp_path: Path,
    make_database: Callable[[], str],
    environ: dict[str, str],
) -> None:
    def wait_until_mined(condition: Callable[[], Any]) -> None:
        def is_met() -> bool:
            ganache.mine()
            return bool(condition())

        wait_for(is_met)

    with run_server(fork_server, tmp_path / "deployment", make_database(), **environ) as deployment:
        _, key = create_merchant(deployment)
        browser = Browser()
        with create_client(deployment, key) as client, browser.http:
            mug = client.products.create(name="Mug", price="9.99", currency="USD")
            session = client.checkouts.create(mug.id)
            browser.open(session.url)
            browser.submit(email="ada@example.com", name="Ada", method="CRYPTO", lang="en")
            page_url, page = str(browser.page.url), browser.page.text
            assert "/continue/" in page_url
            # The first receiving address of the wallet is Ganache's first account.
            address = with_checksum(ganache.accounts[0])
            assert address in page
            assert "9.99 USDT" in page
            assert "Local test chain" in page
            image = re.search(r'<img class="qr" src="([^"]+)"', page)
            assert image is not None
            code = f"ethereum:{with_checksum(ganache.usdt)}@1337/transfer?address={address}"
            drawn = browser.http.get(urljoin(page_url, image[1]))
            assert drawn.content == qr.svg(f"{code}&uint256=9990000")
            browser.open(f"{page_url}&token=USDC" if "?" in page_url else f"{page_url}?token=USDC")
            assert "9.99 USDC" in browser.page.text
            # Too little, in the other token: the page shows the rest.
            ganache.transfer(ganache.usdc, address, 4 * 10**18)
            wait_until_mined(lambda: "5.99 USDT" in browser.http.get(page_url).text)
            assert "$4.00" in browser.http.get(page_url).text
            ganache.transfer(ganache.usdt, address, 6_000_000)
            order_id = client.checkouts.get(session.id).order_id
            wait_until_mined(lambda: client.orders.get(order_id).status == "PAID")
            browser.open(session.url)
            assert "Payment received" in browser.page.text
            assert client.orders.get(order_id).payment_method == "CRYPTO"
            (chain,) = json.loads(deployment.run_checked("deposits", "chains", "--json"))
            assert (chain["account"], chain["chainId"], chain["failure"]) == ("evm", CHAIN_ID, None)
            assert 0 < chain["number"] <= ganache.height
            # The cent too much is a case.
            (case,) = json.loads(deployment.run_checked("deposits", "cases", "--json"))
            assert (case["kind"], case["orderId"], Decimal(case["units"])) == (
                "EXCESS",
                order_id,
                10_000,
            )
            deployment.run_checked("deposits", "handled", case["id"], *WHY)
            assert json.loads(deployment.run_checked("deposits", "cases", "--json")) == []
            refund_from_the_wallet(deployment, client, ganache, order_id)
