"""Orders are paid through Alipay in a running deployment, with its worker as a process.

The customer uses the payment page and scans its QR code, or opens Alipay's page; the sandbox bank
speaks Alipay's dialect and sends signed notifications.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateways.wallet_orders import (
    pay_and_refund_at_the_provider,
    pay_by_code,
    refund_in_two_parts,
)
from opentill.sandbox import alipay
from support.alipay_shop import AlipayShop, running_alipay
from support.commands import ForkServer
from support.gateway_deployment import create_client, create_merchant, run_server


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[AlipayShop]:
    """A bank whose storage the test can read."""
    with running_alipay(tmp_path / "bank") as shop:
        yield shop


CODE = "select '/alipay/qr/' || trade_no from alipay_trades where payment_id = ?"


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
            order_id = pay_by_code(bank, client, tea.id, CODE)
            refund_in_two_parts(bank, client, order_id)
            pay_and_refund_at_the_provider(bank, client, tea.id)
