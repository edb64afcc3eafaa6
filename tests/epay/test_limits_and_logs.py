"""The Epay API under rate limits and failures; its log contains no parameter of a request."""

import io
import json
from typing import Any

import pytest

from opentill.core import log
from opentill.core.errors import Unavailable
from opentill.db.database import Db
from support.epay_shop import EpayShop

CANARY = "canaryquerytext"  # the log must not contain this text
CARD = "4242424242424242"


@pytest.fixture
def log_text() -> io.StringIO:
    """The log, at level debug."""
    stream = io.StringIO()
    log.configure("debug", stream=stream)
    return stream


def test_no_parameter_of_a_request_is_logged(
    epay_shop: EpayShop,
    log_text: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    http = epay_shop.api_server.http
    form = epay_shop.sign(epay_shop.form(param=CANARY, name=CANARY, channel_param=CARD))
    for entry in ("submit", "mapi", "api", "nothing"):
        http.get(f"/epay/{entry}.php", params=form | {"key": epay_shop.key})
        http.post(f"/epay/{entry}.php", data=form | {"key": epay_shop.key})
        http.post(f"/epay/{entry}.php?x={CANARY}", content=CANARY.encode() * 9000)
        http.put(f"/epay/{entry}.php", params=form)
    epay_shop.call_api("query", whatever=CANARY)
    epay_order = epay_shop.place_paid_order(
        param=CANARY, notify_url=epay_shop.inbox.url + f"?token={CANARY}"
    )
    epay_shop.inbox.answer = (500, CANARY.encode())
    epay_shop.send_notices()
    epay_shop.place_paid_order(param=CANARY, notify_url=f"http://127.0.0.1:2/?token={CANARY}")
    epay_shop.send_notices()
    http.get(epay_order["payurl"])

    async def raise_error(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Db, "run", raise_error)
        response = epay_shop.post("mapi", epay_shop.sign(epay_shop.form(param=CANARY)))
        assert response.json()["code"] == -1
    log.flush()
    printed = capfd.readouterr()
    text = log_text.getvalue() + printed.out + printed.err
    signatures = [notification["sign"] for notification in epay_shop.inbox.received]
    assert signatures
    for secret in (epay_shop.key, form["sign"], CANARY, CARD, *signatures):
        assert secret not in text, next(line for line in text.splitlines() if secret in line)
    records = [json.loads(line) for line in log_text.getvalue().splitlines()]
    routes = {record["route"] for record in records if record["event"] == "request"}
    assert {"/epay/submit.php", "/epay/mapi.php", "/epay/api.php", "/epay"} <= routes
    assert all("?" not in route for route in routes)
    from prometheus_client import REGISTRY, generate_latest

    assert CANARY not in generate_latest(REGISTRY).decode()


def test_requests_above_the_rate_limit_of_an_ip_address_are_refused(
    epay_shop: EpayShop,
) -> None:
    with epay_shop.api_server.limited(limit_ip_per_minute=3):
        responses = [epay_shop.call_api("query") for _ in range(5)]
    assert [body["code"] for body in responses] == [1, 1, 1, -1, -1]
    assert "频繁" in responses[-1]["msg"]


def test_epay_orders_and_sessions_of_the_api_share_the_merchants_rate_limit(
    epay_shop: EpayShop,
) -> None:
    product = epay_shop.shop.create_product()["id"]
    with epay_shop.api_server.limited(limit_checkouts_per_minute=3):
        epay_shop.place_order()
        epay_shop.shop.create_session(product)
        epay_shop.place_order()
        assert "频繁" in epay_shop.mapi()["msg"]
        assert epay_shop.shop.post("/v1/checkouts", {"productId": product}).status_code == 429
        assert epay_shop.call_api("query")["orders"] == 2
        assert EpayShop(epay_shop.api_server, epay_shop.inbox).place_order()["code"] == 1


@pytest.mark.parametrize("error", [Unavailable(reason="away"), ValueError("a defect")], ids=str)
def test_internal_errors_are_reported_in_the_format_of_epay(
    epay_shop: EpayShop, log_text: io.StringIO, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Db, "connection", raise_error)
    for entry in ("submit", "mapi"):
        response = epay_shop.post(entry, epay_shop.sign(epay_shop.form()))
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.json()["code"] == -1
    assert epay_shop.call_api("query")["code"] == -1


def test_the_payment_page_is_served_while_the_gateway_is_down(
    epay_shop: EpayShop, monkeypatch: Any
) -> None:
    from opentill.gateways.model import PaymentOutcome

    async def pay(_request: object) -> PaymentOutcome:
        return PaymentOutcome(status="UNKNOWN", reason="ReadTimeout")

    monkeypatch.setattr(epay_shop.api_server.app.gateways["sandbox"], "pay", pay)
    epay_order = epay_shop.place_order()
    assert "qrcode" not in epay_order
    assert epay_shop.api_server.http.get(epay_order["payurl"]).status_code == 200
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["status"] == 0
