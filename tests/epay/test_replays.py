"""Replays of messages that a customer's browser has carried, against api.php."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest

from support.epay_shop import EpayShop

ACTS = ("query", "settle", "order", "orders", "refund")
WAYS = ("act in the query", "act in the body", "all in the query", "the query, act in the body")


def send(epay_shop: EpayShop, act: str, form: dict[str, str], way: str) -> object:
    http, url = epay_shop.api_server.http, "/epay/api.php"
    match way:
        case "act in the query":
            answer = http.post(url, params={"act": act}, data=form)
        case "act in the body":
            answer = http.post(url, data=form | {"act": act})
        case "all in the query":
            answer = http.get(url, params=form | {"act": act})
        case _:
            answer = http.post(url, params=form, data={"act": act})
    return answer.json()


@pytest.mark.parametrize("way", WAYS)
def test_a_signed_submission_cannot_be_replayed_to_api_php(epay_shop: EpayShop, way: str) -> None:
    form = epay_shop.sign(epay_shop.form())
    assert epay_shop.post("submit", form).status_code == 302
    epay_shop.pay(epay_shop.call_api("order", out_trade_no=form["out_trade_no"]))
    for act in ACTS:
        assert send(epay_shop, act, form, way) == {"code": -3, "msg": "签名校验失败"}, act
    assert epay_shop.call_api("order", out_trade_no=form["out_trade_no"])["status"] == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_signed_return_cannot_be_replayed_to_api_php(epay_shop: EpayShop, way: str) -> None:
    placed = epay_shop.place_paid_order(return_url="https://shop.example/back")
    page = epay_shop.api_server.http.get(placed["payurl"]).text
    (link, *_) = re.findall(r"https://shop\.example[^\"' <]*", page)
    form = dict(parse_qsl(urlsplit(link.replace("&amp;", "&")).query))
    assert form["trade_status"] == "TRADE_SUCCESS"
    for act in ACTS:
        assert send(epay_shop, act, form, way) == {"code": -3, "msg": "签名校验失败"}, act
    for entry in ("submit", "mapi"):
        assert epay_shop.post(entry, form).json()["code"] == -1
    assert epay_shop.call_api("order", trade_no=placed["trade_no"])["status"] == 1
    refunds = "select count(*) as n from refunds where merchant_id = $1"
    assert epay_shop.api_server.sql(refunds, epay_shop.id) == [{"n": 0}]


@pytest.mark.parametrize("way", WAYS)
def test_a_call_signed_for_api_php_is_accepted(epay_shop: EpayShop, way: str) -> None:
    placed = epay_shop.place_order()
    form = {"pid": epay_shop.pid, "out_trade_no": placed["out_trade_no"]}
    apart = way in {"act in the query", "the query, act in the body"}
    signed = epay_shop.sign(form if apart else form | {"act": "order"})
    signed.pop("act", None)
    answer = send(epay_shop, "order", signed, way)
    assert isinstance(answer, dict)
    assert answer["trade_no"] == placed["trade_no"]
