"""The Epay door on bad days: what must not be in a log, too many requests, nothing works."""

import io
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from opentill.core import log
from opentill.core.errors import Unavailable
from opentill.db.database import Db
from support.api_server import ApiServer
from support.epay_shop import EpayShop

CANARY = "canaryquerytext"
CARD = "4242424242424242"


@pytest.fixture
def lines() -> io.StringIO:
    """What is logged, at its most talkative."""
    stream = io.StringIO()
    log.configure("debug", stream=stream)
    return stream


def test_nothing_that_stands_in_a_query_or_a_form_is_logged(
    epay_shop: EpayShop,
    lines: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    http = epay_shop.api_server.http
    form = epay_shop.signed(epay_shop.form(param=CANARY, name=CANARY, channel_param=CARD))
    for entry in ("submit", "mapi", "api", "nothing"):
        http.get(f"/epay/{entry}.php", params=form | {"key": epay_shop.key})
        http.post(f"/epay/{entry}.php", data=form | {"key": epay_shop.key})
        http.post(f"/epay/{entry}.php?x={CANARY}", content=CANARY.encode() * 9000)
        http.put(f"/epay/{entry}.php", params=form)
    epay_shop.act("query", whatever=CANARY)
    placed = epay_shop.paid(param=CANARY, notify_url=epay_shop.inbox.url + f"?token={CANARY}")
    epay_shop.inbox.answer = (500, CANARY.encode())
    epay_shop.tell()
    epay_shop.paid(param=CANARY, notify_url=f"http://127.0.0.1:2/?token={CANARY}")
    epay_shop.tell()
    http.get(placed["payurl"])

    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Db, "run", fail)
        answer = epay_shop.post("mapi", epay_shop.signed(epay_shop.form(param=CANARY)))
        assert answer.json()["code"] == -1
    log.flush()
    printed = capfd.readouterr()
    text = lines.getvalue() + printed.out + printed.err
    signs = [got["sign"] for got in epay_shop.inbox.got]
    assert signs
    for secret in (epay_shop.key, form["sign"], CANARY, CARD, *signs):
        assert secret not in text, next(line for line in text.splitlines() if secret in line)
    records = [json.loads(line) for line in lines.getvalue().splitlines()]
    routes = {record["route"] for record in records if record["event"] == "request"}
    assert {"/epay/submit.php", "/epay/mapi.php", "/epay/api.php", "/epay"} <= routes
    assert all("?" not in route for route in routes)
    from prometheus_client import REGISTRY, generate_latest

    assert CANARY not in generate_latest(REGISTRY).decode()


@pytest.fixture
def limits(api_server: ApiServer) -> Iterator[Any]:
    """Set the limits of the deployment for the rest of the test."""
    before = api_server.app.settings

    def put(**changes: int) -> None:
        api_server.app.settings = msgspec.structs.replace(before, **changes)

    yield put
    api_server.app.settings = before


def test_too_many_requests_of_one_address_are_refused(epay_shop: EpayShop, limits: Any) -> None:
    epay_shop.api_server.tx(lambda tx: tx.execute("delete from rate_limit_windows"))
    limits(limit_ip_per_minute=3)
    answers = [epay_shop.act("query") for _ in range(5)]
    assert [body["code"] for body in answers] == [1, 1, 1, -1, -1]
    assert "频繁" in answers[-1]["msg"]


def test_too_many_orders_of_one_merchant_are_refused_together_with_those_of_the_api(
    epay_shop: EpayShop, limits: Any
) -> None:
    product = epay_shop.shop.product()["id"]
    limits(limit_checkouts_per_minute=3)
    epay_shop.placed()
    epay_shop.shop.session(product)
    epay_shop.placed()
    assert "频繁" in epay_shop.mapi()["msg"]
    assert epay_shop.shop.post("/v1/checkouts", {"productId": product}).status_code == 429
    assert epay_shop.act("query")["orders"] == 2
    assert EpayShop(epay_shop.api_server, epay_shop.inbox).placed()["code"] == 1


@pytest.mark.parametrize("error", [Unavailable(reason="away"), ValueError("a defect")], ids=str)
def test_what_goes_wrong_with_us_is_answered_in_the_convention(
    epay_shop: EpayShop, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Db, "connection", fail)
    for entry in ("submit", "mapi"):
        answer = epay_shop.post(entry, epay_shop.signed(epay_shop.form()))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["code"] == -1
    assert epay_shop.act("query")["code"] == -1


def test_a_gateway_that_is_away_leaves_the_page(epay_shop: EpayShop, monkeypatch: Any) -> None:
    from opentill.gateways.model import PaymentOutcome

    async def pay(_request: object) -> PaymentOutcome:
        return PaymentOutcome(status="UNKNOWN", reason="ReadTimeout")

    monkeypatch.setattr(epay_shop.api_server.app.gateways["sandbox"], "pay", pay)
    placed = epay_shop.placed()
    assert "qrcode" not in placed
    assert epay_shop.api_server.http.get(placed["payurl"]).status_code == 200
    assert epay_shop.act("order", trade_no=placed["trade_no"])["status"] == 0
