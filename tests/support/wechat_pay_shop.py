"""A bank that speaks WeChat Pay's dialect, a receiver of its notifications, and its shop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import PaymentRequest, RefundRequest
from opentill.gateways.wechat_pay import WeChatPayGateway, configuration
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import wechat_pay
from opentill.sandbox.wechat_pay import keys
from support.ports import free_socket, url_of
from support.sandbox_bank import SECRET, Receiver, running_bank, serving, wait_until

CNY: Final = "CNY"
Notice = tuple[dict[str, str], bytes]


class WeChatPayShop:
    """The shop's settings, its customers' phones, and the bank's controls."""

    def __init__(self, bank_url: str, folder: Path, receiver: Receiver) -> None:
        """``folder`` has the keys that the bank has made."""
        self.bank_url, self.folder, self.receiver = bank_url, folder, receiver
        headers = {"Authorization": f"Bearer {SECRET}"}
        self.api = httpx2.Client(base_url=bank_url, headers=headers, timeout=60, trust_env=False)
        self.browser = httpx2.Client(timeout=60, trust_env=False, follow_redirects=True)

    def close(self) -> None:
        """Close connections."""
        self.api.close()
        self.browser.close()

    def file(self, name: str) -> str:
        """Return the text of a key or certificate."""
        return (self.folder / name).read_text()

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

    def request(self, **changes: Any) -> PaymentRequest:
        """Return a request to pay 9.99 yuan, with a new id."""
        attempt_id = new_id("att")
        request = PaymentRequest(
            attempt_id=attempt_id,
            method="WECHAT_PAY",
            amount=Money(999, CNY),
            description="茶 & Tea / 100 g",
            merchant_name="Tea House",
            customer_email="ada@example.com",
            customer_name=None,
            payer_ip="203.0.113.7",
            return_url=f"https://till.example/checkout/cs_1/return/{attempt_id}?lang=zh",
            callback_url=f"{self.receiver.url}/gateways/wechat_pay/callback",
            locale="zh",
        )
        return msgspec.structs.replace(request, **changes)

    def refund_request(self, attempt_id: str, minor: int, **changes: Any) -> RefundRequest:
        """Return a request to refund an amount, with a new id."""
        request = RefundRequest(
            refund_id=new_id("re"),
            attempt_id=attempt_id,
            provider_ref="",
            amount=Money(minor, CNY),
            reason="damaged",
            callback_url=f"{self.receiver.url}/gateways/wechat_pay/callback",
        )
        return msgspec.structs.replace(request, **changes)

    def open(self, url: str) -> str:
        """Scan a code, or open a link on the phone; return the path of the page there."""
        response = self.browser.get(url)
        assert response.status_code == 200, response.text
        return urlsplit(str(response.url)).path

    def decide(self, attempt_id: str, decision: str = "approve") -> None:
        """Approve or decline a payment on the phone."""
        response = self.browser.post(
            f"{self.bank_url}/phone/{attempt_id}", data={"decision": decision}
        )
        assert response.status_code == 200, response.text

    async def pay(self, gateway: WeChatPayGateway, **changes: Any) -> str:
        """Create a payment, pay it on the phone and return the attempt's id.

        Waits for its notification, which would otherwise arrive among those of later steps.
        """
        request, start = self.request(**changes), len(self.receiver.received)
        outcome = await gateway.pay(request)
        assert outcome.status == "ACTION_REQUIRED", outcome
        await asyncio.to_thread(self.open, outcome.qr_text or outcome.action_url)
        await asyncio.to_thread(self.decide, request.attempt_id)
        await asyncio.to_thread(self.wait_for_notices, start)
        return request.attempt_id

    def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault."""
        response = self.api.post("/faults", json={"operation": operation, "kind": kind, **options})
        assert response.status_code == 201, response.text

    def rotate(self) -> str:
        """Let WeChat Pay sign with another platform certificate; return its serial number."""
        response = self.api.post("/wechat_pay/rotate")
        assert response.status_code == 200, response.text
        serial: str = response.json()["serial_no"]
        return serial

    def wait_for_notices(self, start: int, times: int = 1) -> list[Notice]:
        """Wait until so many notifications arrived after the first ``start``; return them."""
        notices: list[Notice] = wait_until(
            lambda: (
                self.receiver.received[start:]
                if len(self.receiver.received) >= start + times
                else None
            )
        )
        return notices


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
