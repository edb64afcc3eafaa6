"""PayPal's dialect of the sandbox bank: what it refuses, and how it is started."""

import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest

from opentill.gateways.paypal import configuration
from opentill.sandbox.purge import PAYMENTS_KEPT_S, purge
from opentill.sandbox.storage import Store, Tx
from support.commands import ForkServer, without_settings
from support.paypal_shop import PayPalShop
from support.ports import free_port

UNIT: Final = {"amount": {"currency_code": "EUR", "value": "9.99"}}
CONTEXT: Final = {"return_url": "https://till.example/", "cancel_url": "https://till.example/"}
SOURCE: Final = {"paypal": {"experience_context": CONTEXT}}
ORDER: Final = {"intent": "CAPTURE", "purchase_units": [UNIT], "payment_source": SOURCE}


def _money(currency: str, value: str) -> dict[str, Any]:
    return {"purchase_units": [{"amount": {"currency_code": currency, "value": value}}]}


REFUSED: Final[tuple[tuple[dict[str, Any], int, str], ...]] = (
    # Each row: changes of an order, status, and the issue of the error
    ({"intent": "AUTHORIZE"}, 400, "INVALID_PARAMETER_SYNTAX"),
    ({"purchase_units": []}, 400, "INVALID_PARAMETER_SYNTAX"),
    ({"payment_source": {}}, 400, "INVALID_PARAMETER_SYNTAX"),
    (
        {"payment_source": {"paypal": {"experience_context": {}}}},
        400,
        "MISSING_REQUIRED_PARAMETER",
    ),
    (_money("RUB", "1.00"), 422, "CURRENCY_NOT_SUPPORTED"),
    (_money("HUF", "1.00"), 422, "DECIMALS_NOT_SUPPORTED"),
    (_money("EUR", "1.001"), 422, "DECIMAL_PRECISION"),
    (_money("EUR", "0.00"), 422, "CANNOT_BE_ZERO_OR_NEGATIVE"),
    (_money("EUR", "-1.00"), 400, "INVALID_PARAMETER_SYNTAX"),
)


@pytest.mark.parametrize(("changes", "status", "issue"), REFUSED)
def test_orders_that_paypal_would_refuse_are_refused(
    paypal_shop: PayPalShop, changes: dict[str, Any], status: int, issue: str
) -> None:
    response = paypal_shop.call("POST", "/v2/checkout/orders", json=ORDER | changes)
    assert response.status_code == status
    assert response.json()["details"][0]["issue"] == issue


def test_a_capture_needs_an_approval_and_is_done_once(paypal_shop: PayPalShop) -> None:
    order = paypal_shop.call("POST", "/v2/checkout/orders", json=ORDER).json()
    path = f"/v2/checkout/orders/{order['id']}/capture"

    def capture() -> tuple[int, str]:
        response = paypal_shop.call("POST", path, json={})
        details = response.json().get("details", [{"issue": ""}])
        return response.status_code, details[0]["issue"]

    assert capture() == (422, "ORDER_NOT_APPROVED")
    paypal_shop.approve(next(link["href"] for link in order["links"] if link["rel"] != "self"))
    assert capture() == (201, "")
    assert capture() == (422, "ORDER_ALREADY_CAPTURED")


def test_requests_without_a_token_are_refused(paypal_shop: PayPalShop) -> None:
    url = f"{paypal_shop.bank_url}/v2/checkout/orders/1"
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
        response = paypal_shop.browser.get(url, headers=headers)
        assert (response.status_code, response.json()["name"]) == (401, "AUTHENTICATION_FAILURE")
    for path in ("/v2/checkout/orders/1", "/v2/payments/captures/1", "/v2/payments/refunds/1"):
        response = paypal_shop.call("GET", path)
        assert (response.status_code, response.json()["name"]) == (404, "RESOURCE_NOT_FOUND")
    page = paypal_shop.browser.get(f"{paypal_shop.bank_url}/paypal/checkoutnow?token=1")
    assert page.status_code == 404


async def test_old_orders_are_deleted_with_their_payments(tmp_path: Path) -> None:
    store = Store(tmp_path / "bank.sqlite3", lambda _: None)
    await store.open()
    payment = {
        "id": "att_1", "currency": "EUR", "method": "CREDIT_CARD", "description": "",
        "status": "succeeded", "merchant_name": "", "customer_email": "", "return_url": "",
        "callback_url": "", "locale": "", "challenged": 0, "refunds_fail": 0, "refunded_minor": 0,
        "amount_minor": 1, "created_at": 0, "updated_at": 0, "dialect": "paypal",
    }  # fmt: skip
    refund = {
        "id": "re_1", "payment_id": "att_1", "amount_minor": 1, "currency": "EUR",
        "callback_url": "", "status": "succeeded", "created_at": 0, "updated_at": 0,
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        tx.insert("payments", payment)
        tx.insert("refunds", refund)
        order = {"payment_id": "att_1", "order_id": "1", "capture_id": "2", "request_id": ""}
        tx.insert(
            "paypal_orders", order | {"custom_id": "", "invoice_id": "", "capture_request_id": ""}
        )
        tx.insert("paypal_refunds", {"refund_id": "re_1", "paypal_id": "3", "custom_id": ""})

    await store.do(fill)
    assert await store.do(lambda tx: purge(tx, PAYMENTS_KEPT_S * 1000 + 1)) == 4
    await store.close()


async def test_the_command_prints_the_settings_of_a_gateway(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    environ = without_settings(os.environ) | {
        "OPENTILL_DATA_DIR": str(tmp_path / "data"),
        "OPENTILL_SANDBOX_PORT": str(free_port()),
    }
    with (tmp_path / "log").open("wb") as log:
        process = fork_server.start(["sandbox", "--paypal"], environ, tmp_path, log.fileno())
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(8)]
        settings = dict(one.split("=", 1) for one in lines if one.startswith("OPENTILL_GATEWAY_"))
        options = {
            name.removeprefix("OPENTILL_GATEWAY_").removesuffix("_FILE").lower(): (
                Path(value).read_text() if name.endswith("_FILE") else value
            )
            for name, value in settings.items()
        }
        gateway = configuration.make(options)
        assert await gateway.check() is None
        await gateway.close()
        assert (tmp_path / "data" / "paypal").stat().st_mode & 0o77 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
