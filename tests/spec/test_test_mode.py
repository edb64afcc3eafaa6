"""Responses, orders and pages of the sandbox are marked as test mode; headers require HTTPS."""

import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opentill.app import create_app
from opentill.core.settings import Settings
from support.api_server import SECRETS, ApiServer, Shop, serving


def _responses(shop: Shop) -> Iterator[Any]:
    order = shop.create_order()
    yield shop.get(f"/v1/orders/{order['id']}")
    yield shop.get("/v1/orders/export")
    yield shop.get("/v1/orders", page="0")
    yield shop.get("/v1/nowhere")
    yield shop.get("/v1")
    yield shop.call("PUT", "/v1/orders")
    yield shop.post("/v1/products", {})
    yield shop.api_server.http.get("/v1/orders")  # without a key, the response is 401
    yield shop.api_server.http.get("/v1/config/legal/merchant-services-agreement")


def test_every_api_response_of_a_deployment_with_sandbox_has_the_test_mode_header(
    shop: Shop,
) -> None:
    statuses = set()
    for response in _responses(shop):
        assert response.headers["opentill-test-mode"] == "sandbox", response.request.url
        statuses.add(response.status_code)
    assert statuses == {200, 400, 401, 404, 405}
    assert "opentill-test-mode" not in shop.api_server.http.get("/docs").headers


def test_orders_and_their_export_have_livemode(shop: Shop) -> None:
    order = shop.create_order()
    assert order["livemode"] is False
    (listed,) = shop.data("GET", "/v1/orders")["items"]
    assert listed["livemode"] is False
    (row,) = csv.DictReader(shop.get("/v1/orders/export").text.splitlines())
    assert row["livemode"] == "false"


class RecordedResponse:
    """The headers of the response of an application that is called without a server."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.headers = dict(message["headers"])


# Each row: public URL, gateways, whether HTTPS is required, whether the deployment is in test mode.
HEADERS = [
    ("https://pay.example", ("sandbox",), True, True),
    ("https://pay.example/till", ("sandbox", "manual"), True, True),
    ("https://pay.example", ("manual",), True, False),
    ("http://pay.example", ("manual",), False, False),
    ("http://127.0.0.1:8080", ("sandbox",), False, True),
]


@pytest.mark.parametrize(("public_url", "gateways", "hsts", "test_mode"), HEADERS)
@pytest.mark.parametrize("path", ["/v1/orders", "/healthz", "/nowhere"])
async def test_every_response_has_the_security_headers(
    path: str, public_url: str, gateways: tuple[str, ...], hsts: bool, test_mode: bool
) -> None:
    settings = Settings(
        public_url=public_url,
        gateways=gateways,
        data_dir=Path(tempfile.gettempdir()),
        gateway_options={"manual_instructions": "IBAN XX"},
        limit_ip_per_minute=0,
        **SECRETS,
    )
    app = create_app(settings)
    app.state.app = _AppWithoutDatabase(settings)
    response = RecordedResponse()
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": [],
        "query_string": b"", "client": ("192.0.2.1", 1), "http_version": "1.1", "scheme": "http",
        "server": ("127.0.0.1", 80), "root_path": "", "app": app, "state": {},
    }  # fmt: skip

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, response)
    assert response.headers[b"x-content-type-options"] == b"nosniff"
    expected = b"max-age=31536000" if hsts else None
    assert response.headers.get(b"strict-transport-security") == expected
    test_mode_header = response.headers.get(b"opentill-test-mode")
    assert test_mode_header == (b"sandbox" if test_mode and path.startswith("/v1") else None)


class _AppWithoutDatabase:
    """The parts of an `App` that refusing a request needs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.db = None

    def clock(self) -> int:
        """Return a constant time."""
        return 0


def test_the_agreement_of_a_sandbox_deployment_is_marked_as_test_mode(
    api_server: ApiServer,
) -> None:
    path = "/legal/merchant-services-agreement"
    response = api_server.http.get(path)
    assert response.status_code == 200, path
    assert "Test mode – no real money" in response.text
    live_settings = msgspec.structs.replace(api_server.settings, gateways=("sandbox", "manual"))
    assert live_settings.livemode
    assert not api_server.settings.livemode


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_receipt_of_the_sandbox_is_marked_in_a_live_deployment(
    api_server: ApiServer, is_recorded: bool
) -> None:
    """The mark does not need the order's ``livemode``, which older versions did not record."""
    options = {"manual_instructions": "IBAN"}
    with serving(
        api_server.settings, gateways=("sandbox", "manual"), gateway_options=options
    ) as live_server:
        assert live_server.settings.livemode
        shop = live_server.create_shop()
        order = shop.create_paid_order()
        # Pretend that the sandbox confirmed the payment.
        livemode, order_id = False if is_recorded else None, order["id"]
        set_gateway = "update payment_attempts set gateway = 'sandbox' where order_id = $1"
        live_server.tx(lambda tx: tx.execute(set_gateway, order_id))
        live_server.tx(
            lambda tx: tx.execute(
                "update orders set livemode = $2 where id = $1", order_id, livemode
            )
        )
        page = live_server.http.get(
            f"/checkout/{order['checkoutSessionId']}", follow_redirects=True
        )
        assert page.status_code == 200
        assert "Test mode – no real money" in page.text
