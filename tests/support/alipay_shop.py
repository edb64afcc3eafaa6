"""A bank that speaks Alipay's dialect, a receiver of notifications, and gateways of the shop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from opentill.gateways.alipay import AlipayGateway, configuration
from opentill.gateways.alipay.keys import utc_now
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import alipay
from opentill.sandbox.alipay import keys
from support.ports import free_socket, url_of
from support.sandbox_bank import running_bank, serving, wait_until
from support.wallet_shop import WalletShop


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


class AlipayShop(WalletShop):
    """The shop's settings, its customers' browsers and phones, and the bank's controls."""

    gateway_name = "alipay"
    method = "ALIPAY"

    def __init__(self, bank_url: str, folder: Path, receiver: NoticeReceiver) -> None:
        """``folder`` has the keys that the bank has made."""
        super().__init__(bank_url, folder, receiver.url)
        self.receiver = receiver
        self.url = f"{bank_url}/alipay/gateway.do"

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

    async def pay(self, gateway: AlipayGateway, **changes: Any) -> str:
        """Create a payment, pay it on the phone and return the attempt's id."""
        request = self.request(**changes)
        outcome = await gateway.pay(request)
        await asyncio.to_thread(self.open, outcome.qr_text or outcome.action_url)
        await asyncio.to_thread(self.decide, request.attempt_id)
        return request.attempt_id


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
