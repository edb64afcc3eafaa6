"""A bank that speaks Alipay's dialect, a receiver of notifications, and gateways of the shop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import PaymentRequest, RefundRequest
from opentill.gateways.alipay import AlipayGateway, configuration
from opentill.gateways.alipay.keys import utc_now
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import alipay
from opentill.sandbox.alipay import keys
from support.ports import free_socket, url_of
from support.sandbox_bank import SECRET, running_bank, serving, wait_until

_numbers = count(1)
CNY: Final = "CNY"


def public_part(private_key: str) -> str:
    """Return the public key of a private key, both in PEM."""
    key = load_pem_private_key(private_key.encode(), None).public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


class NoticeReceiver:
    """Records notifications, and responds with ``content``."""

    def __init__(self) -> None:
        """The receiver acknowledges notifications unless a test changes ``content``."""
        self.url, self.content = "", b"success"
        self.received: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.received.append(dict(parse_qsl(body.decode(), keep_blank_values=True)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.content})

    def wait_for(self, attempt_id: str, times: int = 1) -> list[dict[str, str]]:
        """Wait until there are so many notifications about an attempt, and return all of them."""

        def notices() -> list[dict[str, str]] | None:
            received = [one for one in list(self.received) if one["out_trade_no"] == attempt_id]
            return received if len(received) >= times else None

        complete: list[dict[str, str]] = wait_until(notices)
        return complete


class AlipayShop:
    """The shop's settings, its customers' browsers and phones, and the bank's controls."""

    def __init__(self, bank_url: str, folder: Path, receiver: NoticeReceiver) -> None:
        """``folder`` has the keys that the bank has made."""
        self.bank_url, self.folder, self.receiver = bank_url, folder, receiver
        self.url = f"{bank_url}/alipay/gateway.do"
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

    def options(self, *, by_certificates: bool = False, **changes: str) -> dict[str, str]:
        """Return the options of the gateway."""
        options = {
            "alipay_url": self.url,
            "alipay_app_id": keys.APP_ID,
            "alipay_seller_id": keys.SELLER_ID,
            "alipay_private_key": self.file("app_private_key.pem"),
        }
        if by_certificates:
            options |= {
                "alipay_app_cert": self.file("app_cert.crt"),
                "alipay_cert": self.file("alipay_cert.crt"),
                "alipay_root_cert": self.file("alipay_root_cert.crt"),
            }
        else:
            options["alipay_public_key"] = self.file("alipay_public_key.pem")
        return options | {f"alipay_{name}": text for name, text in changes.items()}

    def gateway(
        self, *, by_certificates: bool = False, timeout_s: float = 5.0, **changes: str
    ) -> AlipayGateway:
        """Create a gateway, which the test closes."""
        configured = configuration.read(
            self.options(by_certificates=by_certificates, **changes), utc_now()
        )
        return AlipayGateway(configured, Outgoing(Policy.only(configured.url)), timeout_s)

    def request(self, **changes: Any) -> PaymentRequest:
        """Return a request to pay 9.99 yuan, with a new id."""
        attempt_id = new_id("att")
        request = PaymentRequest(
            attempt_id=attempt_id,
            method="ALIPAY",
            amount=Money(999, CNY),
            description="茶 & Tea / 100 g",
            merchant_name="Tea House",
            customer_email="ada@example.com",
            customer_name=None,
            payer_ip="203.0.113.7",
            return_url=f"https://till.example/checkout/cs_1/return/{attempt_id}?lang=zh",
            callback_url=f"{self.receiver.url}/gateways/alipay/callback",
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
            callback_url="",
        )
        return msgspec.structs.replace(request, **changes)

    def open(self, url: str) -> str:
        """Open a page, or a scanned code, in a browser; return the path of the page there."""
        response = self.browser.get(url)
        assert response.status_code == 200, response.text
        return urlsplit(str(response.url)).path

    def decide(self, attempt_id: str, decision: str = "approve") -> None:
        """Approve or decline a payment on the phone."""
        response = self.browser.post(
            f"{self.bank_url}/phone/{attempt_id}", data={"decision": decision}
        )
        assert response.status_code == 200, response.text

    async def pay(self, gateway: AlipayGateway, **changes: Any) -> str:
        """Create a payment, pay it on the phone and return the attempt's id."""
        request = self.request(**changes)
        outcome = await gateway.pay(request)
        await asyncio.to_thread(self.open, outcome.qr_text or outcome.action_url)
        await asyncio.to_thread(self.decide, request.attempt_id)
        return request.attempt_id

    def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault."""
        response = self.api.post("/faults", json={"operation": operation, "kind": kind, **options})
        assert response.status_code == 201, response.text


@contextmanager
def running_alipay(data_dir: Path) -> Iterator[AlipayShop]:
    """Run a bank that speaks Alipay's dialect, and a receiver of its notifications."""
    folder, receiver, sock = alipay.create(data_dir), NoticeReceiver(), free_socket()
    receiver.url = url_of(sock)
    with running_bank(data_dir, free_socket()) as bank_url, serving(receiver, sock):
        shop = AlipayShop(bank_url, folder, receiver)
        try:
            yield shop
        finally:
            shop.close()


@pytest.fixture(scope="session")
def alipay_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlipayShop]:
    """The bank for all tests."""
    with running_alipay(tmp_path_factory.mktemp("alipay")) as shop:
        yield shop


@pytest.fixture
def alipay_shop(alipay_bank: AlipayShop) -> Iterator[AlipayShop]:
    """The shop; unused faults are removed after the test."""
    yield alipay_bank
    alipay_bank.api.delete("/faults")
    alipay_bank.receiver.content = b"success"
