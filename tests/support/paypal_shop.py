"""A bank that speaks PayPal's dialect, a receiver of its webhooks, and its shop."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import msgspec
import pytest

from opentill.core.ids import first_id, new_id
from opentill.core.money import Money
from opentill.gateways import PaymentRequest, RefundRequest
from opentill.gateways.paypal import PayPalGateway, configuration
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import paypal
from support.ports import free_socket, url_of
from support.sandbox_bank import SECRET, Receiver, running_bank, serving, wait_until

EUR: Final = "EUR"
GOOD_CARD: Final = "4242424242424242"
Notice = tuple[dict[str, str], bytes]


class PayPalShop:
    """The shop's settings, its customers, and the bank's controls."""

    def __init__(self, bank_url: str, folder: Path, receiver: Receiver) -> None:
        """``folder`` has the keys that the bank has made."""
        self.bank_url, self.folder, self.receiver = bank_url, folder, receiver
        headers = {"Authorization": f"Bearer {SECRET}"}
        self.api = httpx2.Client(base_url=bank_url, headers=headers, timeout=60, trust_env=False)
        self.browser = httpx2.Client(timeout=60, trust_env=False, follow_redirects=True)
        self.webhook_id = ""
        self.create_webhook(f"{receiver.url}/gateways/paypal/callback")

    def close(self) -> None:
        """Close connections."""
        self.api.close()
        self.browser.close()

    def file(self, name: str) -> str:
        """Return the text of a key or certificate."""
        return (self.folder / name).read_text()

    def token(self) -> str:
        """Return an access token."""
        credentials = f"{paypal.CLIENT_ID}:{self.file(paypal.CREDENTIAL_FILE)}".encode()
        response = self.browser.post(
            f"{self.bank_url}/v1/oauth2/token",
            data={"grant_type": "client_credentials"},
            headers={"Authorization": f"Basic {base64.b64encode(credentials).decode()}"},
        )
        assert response.status_code == 200, response.text
        token: str = response.json()["access_token"]
        return token

    def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request of PayPal's API."""
        headers = {"Authorization": f"Bearer {self.token()}", **options.pop("headers", {})}
        return self.browser.request(method, self.bank_url + path, headers=headers, **options)

    def call_order(self, capture_id: str) -> str:
        """Return the order of a capture."""
        capture = self.call("GET", f"/v2/payments/captures/{capture_id}").json()
        order_id: str = capture["supplementary_data"]["related_ids"]["order_id"]
        return order_id

    def create_webhook(self, url: str, *events: str) -> str:
        """Create the webhook to which the next orders are reported; return its id."""
        content = {"url": url, "event_types": [{"name": name} for name in events or ("*",)]}
        response = self.call("POST", "/v1/notifications/webhooks", json=content)
        assert response.status_code == 201, response.text
        self.webhook_id = response.json()["id"]
        return self.webhook_id

    def move_webhook(self, url: str) -> None:
        """Change the address of the webhook."""
        change = [{"op": "replace", "path": "/url", "value": url}]
        path = f"/v1/notifications/webhooks/{self.webhook_id}"
        response = self.call("PATCH", path, json=change)
        assert response.status_code == 200, response.text

    def options(self, **changes: str) -> dict[str, str]:
        """Return the options of the gateway."""
        options = {
            "url": self.bank_url,
            "client_id": paypal.CLIENT_ID,
            "client_secret": self.file(paypal.CREDENTIAL_FILE),
            "webhook_id": self.webhook_id,
            "merchant_id": paypal.MERCHANT_ID,
            "ca": self.file(paypal.ROOT_FILE),
        }
        return {f"paypal_{name}": text for name, text in (options | changes).items()}

    def gateway(
        self, *, timeout_s: float = 7.0, pause_s: float = 5.0, **changes: str
    ) -> PayPalGateway:
        """Create a gateway, which the test closes."""
        configured = configuration.read(self.options(**changes))
        certificates = configuration.make_certificates(configured, pause_s)
        outgoing = Outgoing(Policy.only(configured.url))
        return PayPalGateway(configured, outgoing, certificates, timeout_s)

    def request(self, **changes: Any) -> PaymentRequest:
        """Return a request to pay 9.99 euro, with a new id."""
        attempt_id = new_id("att")
        request = PaymentRequest(
            attempt_id=attempt_id,
            method="CREDIT_CARD",
            amount=Money(999, EUR),
            description="Tee & Tea / 100 g",
            merchant_name="Tea House",
            customer_email="ada@example.com",
            customer_name=None,
            payer_ip="203.0.113.7",
            return_url=f"https://till.example/checkout/cs_1/return/{attempt_id}?lang=de",
            callback_url=f"{self.receiver.url}/gateways/paypal/callback",
            locale="de",
        )
        return msgspec.structs.replace(request, **changes)

    def refund_request(
        self, attempt_id: str, provider_ref: str, minor: int, **changes: Any
    ) -> RefundRequest:
        """Return a request to refund an amount, with a new id."""
        request = RefundRequest(
            refund_id=new_id("re"),
            attempt_id=attempt_id,
            provider_ref=provider_ref,
            amount=Money(minor, EUR),
            reason="damaged",
            callback_url=f"{self.receiver.url}/gateways/paypal/callback",
        )
        return msgspec.structs.replace(request, **changes)

    def approve(self, action_url: str, card: str = GOOD_CARD) -> str:
        """Pay on PayPal's page, which is the approval; return the address behind its button."""
        page = self.browser.get(action_url)
        assert page.status_code == 200, page.text
        entries = {"number": card, "exp": "12/40", "csc": "123", "name": "Ada"}
        response = self.browser.post(str(page.url), data=entries)
        assert response.status_code == 200, response.text
        return response.text

    async def start(self, gateway: PayPalGateway, **changes: Any) -> tuple[PaymentRequest, str]:
        """Create an order and approve it; return the request and the order's id."""
        request, start = self.request(**changes), len(self.receiver.received)
        outcome = await gateway.pay(request)
        assert outcome.status == "ACTION_REQUIRED", outcome
        await asyncio.to_thread(self.approve, outcome.action_url)
        await asyncio.to_thread(self.wait_for_notices, start)
        return request, outcome.provider_ref

    async def pay(self, gateway: PayPalGateway, **changes: Any) -> tuple[str, str]:
        """Pay an order; return the ids of the attempt and of PayPal's capture."""
        request, order_id = await self.start(gateway, **changes)
        start = len(self.receiver.received)
        paid = await gateway.find_payment(request.attempt_id, order_id)
        assert paid.status == "SUCCEEDED", paid
        await asyncio.to_thread(self.wait_for_notices, start)
        return request.attempt_id, paid.provider_ref

    def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault."""
        response = self.api.post("/faults", json={"operation": operation, "kind": kind, **options})
        assert response.status_code == 201, response.text

    def wait_for_notices(self, start: int, times: int = 1) -> list[Notice]:
        """Wait until so many webhooks arrived after the first ``start``; return them."""
        notices: list[Notice] = wait_until(
            lambda: (
                self.receiver.received[start:]
                if len(self.receiver.received) >= start + times
                else None
            )
        )
        return notices

    def bank_payment(self, attempt_id: str) -> Any:
        """Return a payment as the bank shows it."""
        return self.api.get(f"/payments/{attempt_id}").json()


def id_of_age(age_ms: int, prefix: Any = "att") -> str:
    """Return an id that was made some time ago."""
    return first_id(prefix, time.time_ns() // 1_000_000 - age_ms)


def type_of(notice: Notice) -> str:
    """Return the type of a webhook's event."""
    event_type: str = json.loads(notice[1])["event_type"]
    return event_type


def path_of(url: str) -> str:
    """Return the path of an address."""
    return urlsplit(url).path


@contextmanager
def running_paypal(data_dir: Path) -> Iterator[PayPalShop]:
    """Run a bank that speaks PayPal's dialect, and a receiver of its webhooks."""
    folder, receiver, sock = paypal.create(data_dir), Receiver(), free_socket()
    receiver.url = url_of(sock)
    with running_bank(data_dir, free_socket()) as bank_url, serving(receiver, sock):
        shop = PayPalShop(bank_url, folder, receiver)
        try:
            yield shop
        finally:
            shop.close()


@pytest.fixture(scope="session")
def paypal_bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PayPalShop]:
    """The bank for all tests."""
    with running_paypal(tmp_path_factory.mktemp("paypal")) as shop:
        yield shop


@pytest.fixture
def paypal_shop(paypal_bank: PayPalShop) -> Iterator[PayPalShop]:
    """The shop; unused faults are removed after the test."""
    yield paypal_bank
    paypal_bank.api.delete("/faults")
    paypal_bank.receiver.status = 200
