"""An order is paid through a bepusdt server in a running deployment, and staff send its refund.

The customer pays on the page of the server, which is the sandbox bank; only its callback can help,
because queries fail.
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

from gateways.wallet_orders import submit
from opentill.sandbox import epusdt
from support.commands import ForkServer
from support.epusdt_shop import EpusdtReceiver, EpusdtShop
from support.gateway_deployment import (
    Browser,
    create_client,
    create_merchant,
    run_server,
    wait_for,
)
from support.ports import free_socket
from support.sandbox_bank import running_bank

WHY = ("--reason", "sent from the wallet", "--json")


def test_an_order_is_paid_by_the_callback_and_refunded_by_staff(
    fork_server: ForkServer, tmp_path: Path, make_database: Callable[[], str]
) -> None:
    folder = epusdt.create(tmp_path / "bank")
    with (
        running_bank(tmp_path / "bank", free_socket()) as url,
        run_server(
            fork_server,
            tmp_path / "deployment",
            make_database(),
            OPENTILL_GATEWAYS="epusdt",
            OPENTILL_GATEWAY_EPUSDT_URL=f"{url}{epusdt.FORK_PATH}",
            OPENTILL_GATEWAY_EPUSDT_TOKEN_FILE=str(folder / epusdt.CREDENTIAL_FILE),
            OPENTILL_GATEWAY_EPUSDT_SERVER="bepusdt",
            OPENTILL_GATEWAY_EPUSDT_RATE="7",
        ) as deployment,
    ):
        bank = EpusdtShop(url, folder, EpusdtReceiver())
        _, key = create_merchant(deployment)
        with create_client(deployment, key) as client:
            tea = client.products.create(name="Tea", price="9.99", currency="CNY")
            bank.inject_fault("find", "error_500", times=1000)
            session = client.checkouts.create(tea.id)
            browser = Browser()
            with browser.http:
                attempt_id = submit(bank, browser, session.url)
                browser.open(browser.button())
                assert urlsplit(str(browser.page.url)).path == f"/pay/{attempt_id}"
                bank.decide(attempt_id)
                order_id = client.checkouts.get(session.id).order_id
                wait_for(lambda: client.orders.get(order_id).status == "PAID")
                browser.open(session.url)
                assert "Payment received" in browser.page.text
            order = client.orders.get(order_id)
            assert (order.amount, order.payment_method) == (Decimal("9.99"), "CRYPTO")
            refund = client.refunds.create(order_id, amount="2.50")
            assert client.refunds.get(refund.id).status == "PROCESSING"
            deployment.run_checked("refunds", "done", refund.id, *WHY)
            assert client.refunds.get(refund.id).status == "SUCCEEDED"
            assert client.orders.get(order_id).refunded_amount == Decimal("2.50")
        bank.close()
