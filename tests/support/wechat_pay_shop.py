"""A bank that speaks WeChat Pay's dialect, a receiver of its notifications, and its shop."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opentill.gateways.wechat_pay import WeChatPayGateway, configuration
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import wechat_pay
from opentill.sandbox.wechat_pay import keys, orders
from support.ports import free_socket, url_of
from support.sandbox_bank import Receiver, running_bank, serving, wait_until
from support.wallet_shop import WalletShop

Notice = tuple[dict[str, str], bytes]


class WeChatPayShop(WalletShop):
    """The shop's settings, its customers' phones, and the bank's controls."""

    gateway_name = "wechat_pay"
    method = "WECHAT_PAY"

    def __init__(self, bank_url: str, folder: Path, receiver: Receiver) -> None:
        """``folder`` has the keys that the bank has made."""
        super().__init__(bank_url, folder, receiver.url)
        self.receiver = receiver

    def options(self, *, by_public_key: bool = False, **changes: str) -> dict[str, str]:
        """Return the options of the gateway."""
        options = {
            "url": self.bank_url,
            "mchid": keys.MCHID,
            "appid": keys.APPID,
            "private_key": self.file("apiclient_key.pem"),
            "certificate": self.file("apiclient_cert.pem"),
            "api_v3_key": self.file("api_v3_key.txt"),
            "products": "native,h5",
        }
        if by_public_key:
            options |= {
                "public_key": self.file("pub_key.pem"),
                "public_key_id": keys.PUBLIC_KEY_ID,
            }
        return {f"wechat_pay_{name}": text for name, text in (options | changes).items()}

    def gateway(
        self, *, by_public_key: bool = False, timeout_s: float = 4.0, **changes: str
    ) -> WeChatPayGateway:
        """Create a gateway, which the test closes."""
        configured = configuration.read(self.options(by_public_key=by_public_key, **changes))
        return WeChatPayGateway(configured, Outgoing(Policy.only(configured.url)), timeout_s)

    async def pay(self, gateway: WeChatPayGateway, **changes: Any) -> str:
        """Create a payment, pay it on the phone and return the attempt's id.

        Waits for its notification, which would otherwise arrive among those of later steps.
        """
        request = self.request(**changes)
        outcome = await gateway.pay(request)
        assert outcome.status == "ACTION_REQUIRED", outcome
        await asyncio.to_thread(self.open, outcome.qr_text or outcome.action_url)
        await asyncio.to_thread(self.decide, request.attempt_id)
        await asyncio.to_thread(self.wait_for_notices, request.attempt_id)
        return request.attempt_id

    def rotate(self) -> str:
        """Let WeChat Pay sign with another platform certificate; return its serial number."""
        response = self.api.post("/wechat_pay/rotate")
        assert response.status_code == 200, response.text
        serial: str = response.json()["serial_no"]
        return serial

    def notices(self, attempt_id: str) -> list[Notice]:
        """Return the notifications about an attempt, each once.

        Under load, one that was repeated, or one of an earlier test, may still arrive.
        """
        number = orders.transaction_id_of(attempt_id).encode()  # the notification's own id has it
        bodies = {body: headers for headers, body in list(self.receiver.received) if number in body}
        return [(headers, body) for body, headers in bodies.items()]

    def wait_for_notices(self, attempt_id: str, times: int = 1) -> list[Notice]:
        """Wait until so many notifications about an attempt arrived; return them."""

        def arrived() -> list[Notice] | None:
            notices = self.notices(attempt_id)
            return notices if len(notices) >= times else None

        complete: list[Notice] = wait_until(arrived)
        return complete


@contextmanager
def running_wechat_pay(data_dir: Path) -> Iterator[WeChatPayShop]:
    """Run a bank that speaks WeChat Pay's dialect, and a receiver of its notifications."""
    folder, receiver, sock = wechat_pay.create(data_dir), Receiver(), free_socket()
    receiver.url = url_of(sock)
    with running_bank(data_dir, free_socket()) as bank_url, serving(receiver, sock):
        shop = WeChatPayShop(bank_url, folder, receiver)
        try:
            yield shop
        finally:
            shop.close()


@pytest.fixture(scope="session")
def wechat_pay_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WeChatPayShop]:
    """The bank for all tests."""
    with running_wechat_pay(tmp_path_factory.mktemp("wechat_pay")) as shop:
        yield shop


@pytest.fixture
def wechat_pay_shop(wechat_pay_bank: WeChatPayShop) -> Iterator[WeChatPayShop]:
    """The shop; unused faults are removed after the test."""
    yield wechat_pay_bank
    wechat_pay_bank.api.delete("/faults")
    wechat_pay_bank.receiver.status = 200


@pytest.fixture(params=["certificates", "public key"])
async def wechat_pay_gateway(
    request: pytest.FixtureRequest, wechat_pay_shop: WeChatPayShop
) -> AsyncIterator[WeChatPayGateway]:
    """A gateway, which verifies by platform certificates or by the public key."""
    gateway = wechat_pay_shop.gateway(by_public_key=request.param == "public key")
    yield gateway
    await gateway.close()


@pytest.fixture
async def hasty_wechat_pay_gateway(
    wechat_pay_shop: WeChatPayShop,
) -> AsyncIterator[WeChatPayGateway]:
    """A gateway that waits for responses only for a short time."""
    gateway = wechat_pay_shop.gateway(timeout_s=0.4)
    yield gateway
    await gateway.close()
