"""Orders are paid through WeChat Pay in a running deployment, with its worker as a process.

The customer uses the payment page and scans its QR code, or opens WeChat from a phone; the sandbox
bank speaks WeChat Pay's dialect and sends signed notifications.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateways.wallet_orders import (
    pay_and_refund_at_the_provider,
    pay_by_code,
    refund_in_two_parts,
)
from opentill.sandbox.wechat_pay import keys
from support.commands import ForkServer
from support.gateway_deployment import create_client, create_merchant, run_server
from support.wechat_pay_shop import WeChatPayShop, running_wechat_pay


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[WeChatPayShop]:
    """A bank whose storage the test can read."""
    with running_wechat_pay(tmp_path / "bank") as shop:
        yield shop


CODE = "select '/wechat_pay/code/' || transaction_id from wechat_pay_orders where payment_id = ?"


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
            order_id = pay_by_code(bank, client, tea.id, CODE)
            bank.api.delete("/faults")
            refund_in_two_parts(bank, client, order_id)
            pay_and_refund_at_the_provider(bank, client, tea.id)
