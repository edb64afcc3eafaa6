"""Queries of return_url and notify_url from which a notification could be forged are refused.

The signed text is not escaped. It can be split anew wherever ``&name=`` occurs: if the names are
sorted, the result is another message with the same signature.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from opentill.epay import forms
from opentill.epay.model import Refused
from opentill.epay.request import Request
from opentill.gateways.epay import signature
from support.epay_shop import EpayShop

_SPLIT_POINT: Final = re.compile(r"&(?=[^&=]+=)")
_NOTIFICATION: Final = {"pid", "trade_no", "out_trade_no", "type", "name", "money", "trade_status"}


def split_into_messages(text: str) -> Iterator[dict[str, str]]:
    """Yield every message that has this signed text; the names of a message are sorted."""
    pieces = _SPLIT_POINT.split(text)

    def split_from(start: int) -> Iterator[list[str]]:
        """Yield each way to split the pieces from ``start`` on into parameters."""
        for end in range(start + 1, len(pieces) + 1):
            parameter = "&".join(pieces[start:end])
            if end == len(pieces):
                yield [parameter]
            elif _name(parameter) < _name(pieces[end]):
                yield from ([parameter, *others] for others in split_from(end))

    for parameters in split_from(0):
        yield dict(parameter.partition("=")[::2] for parameter in parameters)


def _name(parameter: str) -> bytes:
    return parameter.partition("=")[0].encode()


def find_forgeries(form: dict[str, str]) -> list[dict[str, str]]:
    """Return the notifications of a payment that have the same signed text as a request."""
    return [
        message
        for message in split_into_messages(signature.text_to_sign(form))
        if message.get("trade_status") == "TRADE_SUCCESS" and "trade_no" in message
    ]


def build_form_with_query(
    epay_shop: EpayShop, name: str, query: str, **changes: Any
) -> dict[str, str]:
    """Build a form with a query in one of its URLs; the query's placeholders are form values."""
    form = epay_shop.form(**changes)
    form_values = {
        "number": form["out_trade_no"],
        "pid": form["pid"],
        "money": form["money"],
        "name": form["name"],
        "type": form.get("type", ""),
        "notify_url": "https://shop.example/n",
    }
    form["notify_url"] = form_values["notify_url"]
    form[name] = "https://shop.example/index.php?" + query.format(**form_values)
    return form


# Widespread shop systems use these queries.
ACCEPTED: Final = [
    "order_id=9&out_trade_no={number}&status=success",
    "wc-api=wc_gateway_epay&key=wc_order_a1B2c3&order_id=9",
    "page_id=8&order-received=9&key=wc_order_a1B2c3",
    "s=/pay/notify&type=epay",
    "s=/pay/notify&type=epay&method=md5",
    "c=pay&act=notify&param=1",
    "a=1&pid={pid}&money={money}&out_trade_no={number}",
    "a=1&money=10.50",
    "a=1&name=VIP%E4%BC%9A%E5%91%98&out_trade_no={number}#done",
    "a=1&sign_type=MD5",
    "x=1&timestamp=1700000000&limit=9&offset=0&page=2&buyer=me",
    "x=1&addtime=1&endtime=2&refund_no=3&api_trade_no=4&device=pc&clientip=1",
    "trade_no=1",  # without a preceding &, this name is harmless
    "x=1&order_trade_no=1&x_trade_status=1",
]
REFUSED: Final = [
    ("a=1&trade_no=1&trade_status=TRADE_SUCCESS", "trade_no"),
    ("a=1&trade_no=1", "trade_no"),
    ("a=1&trade_status=TRADE_SUCCESS", "trade_status"),
    ("a=1&trade_status=", "trade_status"),
    ("a=1& Trade_Status =1", "trade_status"),
    ("a=1&&trade_no=1", "trade_no"),
    ("a=1&pid=1", "pid"),
    ("a=1&money=0.01", "money"),
    ("a=1&out_trade_no=other", "out_trade_no"),
    ("a=1&out_trade_no={number}&out_trade_no=other", "out_trade_no"),
    ("a=1&name=other", "name"),
    ("a=1&notify_url=https://evil.example/", "notify_url"),
    ("a=1&return_url=https://evil.example/", "return_url"),
    ("a=1&sign=0123456789abcdef0123456789abcdef", "sign"),
    ("a=1&sign_type=RSA", "sign_type"),
]


@pytest.mark.parametrize("name", ["return_url", "notify_url"])
@pytest.mark.parametrize("query", ACCEPTED)
def test_a_shops_own_parameters_are_accepted_and_allow_no_forgery(
    epay_shop: EpayShop, name: str, query: str
) -> None:
    form = build_form_with_query(epay_shop, name, query, type="creditcard")
    assert find_forgeries(form) == []
    body = epay_shop.post("mapi", epay_shop.sign(form)).json()
    assert body["code"] == 1, body
    rows = epay_shop.api_server.sql(
        f"select {name} as address from epay_orders where merchant_id = $1", epay_shop.id
    )
    assert rows == [{"address": form[name]}]


def test_return_url_may_contain_the_encoded_notify_url(epay_shop: EpayShop) -> None:
    query = "a=1&notify_url=https%3A%2F%2Fshop.example%2Fn"
    form = build_form_with_query(epay_shop, "return_url", query, type="creditcard")
    assert epay_shop.post("mapi", epay_shop.sign(form)).json()["code"] == 1


@pytest.mark.parametrize("name", ["return_url", "notify_url"])
@pytest.mark.parametrize(("query", "field"), REFUSED)
def test_queries_that_allow_a_forgery_or_contradict_the_request_are_refused(
    epay_shop: EpayShop, name: str, query: str, field: str
) -> None:
    form = build_form_with_query(epay_shop, name, query)
    for entry in ("submit", "mapi"):
        body = epay_shop.post(entry, epay_shop.sign(form)).json()
        assert body["code"] == -1
        assert name in body["msg"]
        assert f"&{field}=" in body["msg"]
    assert epay_shop.call_api("query")["orders"] == 0


def test_the_search_for_forgeries_finds_them(epay_shop: EpayShop) -> None:
    form = build_form_with_query(
        epay_shop, "return_url", "a=1&trade_no=1&trade_status=TRADE_SUCCESS"
    )
    forgeries = find_forgeries(form)
    assert len(forgeries) == 64
    assert any(forgery.keys() >= _NOTIFICATION for forgery in forgeries)
    for forgery in forgeries:
        assert signature.sign(forgery, epay_shop.key) == signature.sign(form, epay_shop.key)


def test_no_accepted_query_with_protocol_fields_allows_a_forgery(
    epay_shop: EpayShop,
) -> None:
    """Try every pair of fields in each of the two URLs."""
    fields = sorted(signature.PROTOCOL_FIELDS)
    accepted = 0
    form = epay_shop.form(type="creditcard", out_trade_no="N-1")
    urls = ("return_url", "notify_url")
    for name, *pair in itertools.product(urls, fields, fields):
        parameters = [f"{field}={form.get(field, 'TRADE_SUCCESS')}" for field in pair]
        query = "?a=1&" + "&".join(parameters)
        changed_form = form | {name: f"https://shop.example/{query}"}
        try:
            forms.refuse_notifications(Request(params=changed_form, act="", address=""))
        except Refused:
            continue
        accepted += 1
        assert find_forgeries(changed_form) == [], changed_form[name]
    assert accepted > len(fields) ** 2


@pytest.mark.parametrize("name", ["name", "param", "sitename", "clientip", "whatever"])
@pytest.mark.parametrize("field", ["out_trade_no", "type", "status", "key", "act"])
def test_other_parameters_may_not_embed_protocol_fields(
    epay_shop: EpayShop, name: str, field: str
) -> None:
    form = epay_shop.form()
    form[name] = f"a&{field}={form.get(field, '')}"
    body = epay_shop.post("mapi", epay_shop.sign(form)).json()
    assert body["code"] == -1
    assert name in body["msg"]


def test_addresses_in_api_php_may_not_embed_protocol_fields(epay_shop: EpayShop) -> None:
    for name in ("return_url", "whatever"):
        body = epay_shop.call_api("query", **{name: "https://shop.example/?a=1&status=success"})
        assert body["code"] == -1
