"""Messages that pass through a customer's browser cannot be replayed to api.php."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from support.epay_shop import EpayShop

ACTS = ("query", "settle", "order", "orders", "refund")
TRANSPORTS = (
    "act in the query",
    "act in the body",
    "all in the query",
    "the query, act in the body",
)


def call_api(epay_shop: EpayShop, act: str, form: dict[str, str], transport: str) -> object:
    """Call api.php with ``act`` and the form in the query or the body, as ``transport`` says."""
    http, url = epay_shop.api_server.http, "/epay/api.php"
    match transport:
        case "act in the query":
            response = http.post(url, params={"act": act}, data=form)
        case "act in the body":
            response = http.post(url, data=form | {"act": act})
        case "all in the query":
            response = http.get(url, params=form | {"act": act})
        case _:
            response = http.post(url, params=form, data={"act": act})
    return response.json()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_signed_submission_cannot_be_replayed_to_api_php(
    epay_shop: EpayShop, transport: str
) -> None:
    form = epay_shop.sign(epay_shop.form())
    assert epay_shop.post("submit", form).status_code == 302
    epay_shop.pay(epay_shop.call_api("order", out_trade_no=form["out_trade_no"]))
    for act in ACTS:
        assert call_api(epay_shop, act, form, transport) == {"code": -3, "msg": "签名校验失败"}, act
    assert epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["status"] == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_signed_return_cannot_be_replayed_to_api_php(epay_shop: EpayShop, transport: str) -> None:
    epay_order = epay_shop.place_paid_order(return_url="https://shop.example/back")
    page = epay_shop.api_server.http.get(epay_order["payurl"]).text
    (return_url, *_) = re.findall(r"https://shop\.example[^\"' <]*", page)
    form = dict(parse_qsl(urlsplit(return_url.replace("&amp;", "&")).query))
    assert form["trade_status"] == "TRADE_SUCCESS"
    for act in ACTS:
        assert call_api(epay_shop, act, form, transport) == {"code": -3, "msg": "签名校验失败"}, act
    for entry in ("submit", "mapi"):
        assert epay_shop.post(entry, form).json()["code"] == -1
    assert epay_shop.call_api("order", trade_no=epay_order["trade_no"])["status"] == 1
    count_refunds = "select count(*) as n from refunds where merchant_id = $1"
    assert epay_shop.api_server.sql(count_refunds, epay_shop.id) == [{"n": 0}]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_call_signed_for_api_php_is_accepted(epay_shop: EpayShop, transport: str) -> None:
    epay_order = epay_shop.place_order()
    form = {"pid": epay_shop.pid, "out_trade_no": epay_order["out_trade_no"]}
    is_act_unsigned = transport in {"act in the query", "the query, act in the body"}
    signed = epay_shop.sign(form if is_act_unsigned else form | {"act": "order"})
    signed.pop("act", None)
    response = call_api(epay_shop, "order", signed, transport)
    assert isinstance(response, dict)
    assert response["trade_no"] == epay_order["trade_no"]
