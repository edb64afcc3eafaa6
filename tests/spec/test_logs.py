"""The log contains no secret and no personal data of requests."""

import io
import json
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from opentill.core import log
from opentill.db.database import Db
from support.api_server import TEA, ApiServer, Shop

CARD: Final = "4242424242424242"
EMAIL: Final = "canary.ada@secret-mail.example"
TEXT: Final = "canarybodytext"
QUERY: Final = "canaryquerytext"
USER_AGENT: Final = "canary-user-agent"


@pytest.fixture
def log_stream(api_server: ApiServer) -> Iterator[io.StringIO]:
    """Write the log at its most verbose level into a stream."""
    stream = io.StringIO()
    previous_configuration = structlog.get_config()
    log.configure("debug", stream=stream)
    yield stream
    structlog.configure(**previous_configuration)


def _send_canaries(shop: Shop, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send valid and invalid requests whose fields contain the texts that must not be logged."""
    body = {"customerEmail": EMAIL, "customerName": f"{TEXT} {CARD}", "metadata": {TEXT: CARD}}
    product = shop.create_product(name=f"{TEXT} {EMAIL}", description=CARD)
    session = shop.create_session(
        product["id"], successUrl=f"https://x.example/?{QUERY}={CARD}", **body
    )
    order = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    shop.confirm(order)
    refund = shop.refund(order, amount="1", reason=f"{TEXT} {EMAIL} {CARD}", refundNo=TEXT)
    shop.report_refund(refund["id"], "REFUSED", f"card {CARD} of {EMAIL}")
    shop.get("/v1/orders/export")
    for path in ("/v1/orders", "/v1/products", "/v1/nothing", "/checkout/x", "/docs", "/healthz"):
        shop.call(
            "GET", path, params={QUERY: EMAIL, "status": TEXT}, headers={"user-agent": USER_AGENT}
        )
    for content in (f'{{"{TEXT}": ', f'{{"name":"{TEXT}","name":"{EMAIL}"}}', f'["{CARD}"]'):
        for path in ("/v1/products", "/v1/checkouts", f"/v1/orders/{order}/refunds"):
            headers = {"content-type": "application/json", "idempotency-key": TEXT}
            shop.call("POST", path, content=content, headers=headers)
    shop.post("/v1/checkouts", {"productId": TEXT, "customerEmail": EMAIL + "@"})
    shop.call("GET", f"/v1/orders/{TEXT}", headers={"x-api-key": shop.key[:-1] + "x"})
    shop.call("POST", "/gateways/sandbox/callback", content=f'{{"{TEXT}":"{CARD}"}}')
    api_server.http.post(session["url"], data={"email": EMAIL, "name": TEXT, "method": CARD})

    async def fail(*_: object) -> None:
        msg = f"key {shop.key} of {EMAIL}, card {CARD}, at https://u:p@x.example/?{QUERY}=1"
        raise ValueError(msg)

    # The request fails with an exception whose text contains secrets.
    with monkeypatch.context() as patch:
        patch.setattr(Db, "run", fail)
        assert shop.post("/v1/products", TEA).status_code == 500


def test_no_log_line_contains_a_secret(
    api_server: ApiServer,
    log_stream: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shop = api_server.create_shop()
    _send_canaries(shop, api_server, monkeypatch)
    log.flush()
    printed = capfd.readouterr()
    text = log_stream.getvalue() + printed.out + printed.err
    for canary in (shop.key, shop.key[9:40], CARD, EMAIL, "secret-mail", TEXT, QUERY, USER_AGENT):
        assert canary not in text, next(line for line in text.splitlines() if canary in line)
    for secret in (api_server.settings.secret_key, api_server.settings.sandbox_secret, "u:p@"):
        assert secret not in text
    records = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    requests = [record for record in records if record["event"] == "request"]
    assert len(requests) > 20
    for record in requests:
        assert set(record) - {"merchant"} == {
            "event",
            "level",
            "timestamp",
            "request_id",
            "method",
            "route",
            "status",
            "ms",
        }
        assert record["route"] == "other" or record["route"].startswith("/")
        assert record.get("merchant", "mer_").startswith("mer_")
    assert any("merchant" in record for record in requests)


def test_an_exception_is_logged_with_the_request_id_of_the_response(
    api_server: ApiServer, log_stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = api_server.create_shop()

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Db, "run", fail)
    response = shop.post("/v1/products", TEA, key="k")
    assert response.json() == {"code": 50001, "message": "Internal error"}
    assert "Traceback" not in response.text
    records = [json.loads(line) for line in log_stream.getvalue().splitlines()]
    (error,) = [record for record in records if record["level"] == "error"]
    assert error["request_id"] == response.headers["x-request-id"]
    assert "ZeroDivisionError" in error["exception"]


def test_a_500_response_is_not_replayed_for_its_idempotency_key(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = api_server.create_shop()
    from opentill.products import service

    with monkeypatch.context() as patch:
        patch.setattr(service, "parse_price", lambda *_: 1 // 0)
        assert shop.post("/v1/products", TEA, key="k").status_code == 500
    response = shop.post("/v1/products", TEA, key="k")
    assert response.status_code == 201
    assert "idempotent-replayed" not in response.headers


def test_settings_hide_their_secrets(api_server: ApiServer) -> None:
    text = repr(api_server.settings) + str(api_server.settings)
    for secret in (
        api_server.settings.secret_key,
        api_server.settings.sandbox_secret,
        api_server.settings.database_url,
    ):
        assert secret
        assert secret not in text
