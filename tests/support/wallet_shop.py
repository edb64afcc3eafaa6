"""A shop whose customers pay with a wallet on their phones, at a bank that speaks its dialect."""

import time
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from opentill.core.ids import first_id, new_id
from opentill.core.money import Money
from opentill.gateways import PaymentRequest, RefundRequest
from opentill.gateways.model import Method
from support.sandbox_bank import SECRET

CNY: Final = "CNY"


def now_ms() -> int:
    """Return real time."""
    return time.time_ns() // 1_000_000


def id_of_age(age_ms: int) -> str:
    """Return the id of an attempt that was created some time ago."""
    return first_id("att", now_ms() - age_ms)


class WalletShop:
    """The customers' browsers and phones, the requests of the shop, and the bank's controls."""

    gateway_name: ClassVar[str]
    method: ClassVar[Method]

    def __init__(self, bank_url: str, folder: Path, receiver_url: str) -> None:
        """``folder`` has the keys that the bank has made; ``receiver_url`` gets notifications."""
        self.bank_url, self.folder = bank_url, folder
        self.callback_url = f"{receiver_url}/gateways/{self.gateway_name}/callback"
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

    def request(self, **changes: Any) -> PaymentRequest:
        """Return a request to pay 9.99 yuan, with a new id."""
        attempt_id = new_id("att")
        request = PaymentRequest(
            attempt_id=attempt_id,
            method=self.method,
            amount=Money(999, CNY),
            description="茶 & Tea / 100 g",
            merchant_name="Tea House",
            customer_email="ada@example.com",
            customer_name=None,
            payer_ip="203.0.113.7",
            return_url=f"https://till.example/checkout/cs_1/return/{attempt_id}?lang=zh",
            callback_url=self.callback_url,
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
            callback_url=self.callback_url,
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

    def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault."""
        response = self.api.post("/faults", json={"operation": operation, "kind": kind, **options})
        assert response.status_code == 201, response.text
