"""return_url and notify_url with parameters of their own, and that nothing is forged with them.

The signed text is not escaped. So whoever has it with its sign can cut it wherever ``&name=``
stands, and has another message with the same sign if its names are in order: all are made here.
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

_CUT: Final = re.compile(r"&(?=[^&=]+=)")
_NOTIFICATION: Final = {"pid", "trade_no", "out_trade_no", "type", "name", "money", "trade_status"}


def messages(text: str) -> Iterator[dict[str, str]]:
    """Yield every message whose signed text is this one: its names must be in order."""
    pieces = _CUT.split(text)

    def cut(at: int) -> Iterator[list[str]]:
        """Yield the parameters that what begins at a piece can be cut into."""
        for end in range(at + 1, len(pieces) + 1):
            one = "&".join(pieces[at:end])
            if end == len(pieces):
                yield [one]
            elif _name(one) < _name(pieces[end]):
                yield from ([one, *rest] for rest in cut(end))

    for parts in cut(0):
        yield dict(part.partition("=")[::2] for part in parts)


def _name(part: str) -> bytes:
    return part.partition("=")[0].encode()


def forged(form: dict[str, str]) -> list[dict[str, str]]:
    """Return the notifications of a payment that can be cut out of a signed request."""
    return [
        made
        for made in messages(signature.text_to_sign(form))
        if made.get("trade_status") == "TRADE_SUCCESS" and made.keys() & {"trade_no"}
    ]


def with_query(epay_shop: EpayShop, name: str, query: str, **changes: Any) -> dict[str, str]:
    """Return a form with a query at one of its addresses that may name the form's own values."""
    form = epay_shop.form(**changes)
    own = {
        "number": form["out_trade_no"],
        "pid": form["pid"],
        "money": form["money"],
        "name": form["name"],
        "type": form.get("type", ""),
        "notify_url": "https://shop.example/n",
    }
    form["notify_url"] = own["notify_url"]
    form[name] = "https://shop.example/index.php?" + query.format(**own)
    return form


# Families of shops, as their code writes these addresses.
TAKEN: Final = [
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
    "trade_no=1",  # of the address alone: there is no & before it
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
@pytest.mark.parametrize("query", TAKEN)
def test_a_shops_own_parameters_are_taken_and_forge_nothing(
    epay_shop: EpayShop, name: str, query: str
) -> None:
    form = with_query(epay_shop, name, query, type="creditcard")
    assert forged(form) == []
    body = epay_shop.post("mapi", epay_shop.signed(form)).json()
    assert body["code"] == 1, body
    row = epay_shop.api_server.sql(
        f"select {name} as address from epay_orders where merchant_id = $1", epay_shop.id
    )
    assert row == [{"address": form[name]}]


def test_an_address_may_name_the_other_one_in_its_own_words(epay_shop: EpayShop) -> None:
    query = "a=1&notify_url=https%3A%2F%2Fshop.example%2Fn"
    form = with_query(epay_shop, "return_url", query, type="creditcard")
    assert epay_shop.post("mapi", epay_shop.signed(form)).json()["code"] == 1


@pytest.mark.parametrize("name", ["return_url", "notify_url"])
@pytest.mark.parametrize(("query", "field"), REFUSED)
def test_what_forges_a_notification_or_says_another_thing_than_the_request_is_refused(
    epay_shop: EpayShop, name: str, query: str, field: str
) -> None:
    form = with_query(epay_shop, name, query)
    for entry in ("submit", "mapi"):
        body = epay_shop.post(entry, epay_shop.signed(form)).json()
        assert body["code"] == -1
        assert name in body["msg"]
        assert f"&{field}=" in body["msg"]
    assert epay_shop.act("query")["orders"] == 0


def test_cutting_finds_the_forgeries_that_are_there(epay_shop: EpayShop) -> None:
    form = with_query(epay_shop, "return_url", "a=1&trade_no=1&trade_status=TRADE_SUCCESS")
    found = forged(form)
    assert len(found) == 64
    assert any(made.keys() >= _NOTIFICATION for made in found)
    for made in found:
        assert signature.sign(made, epay_shop.key) == signature.sign(form, epay_shop.key)


def test_no_query_of_protocol_fields_that_is_taken_forges_a_notification(
    epay_shop: EpayShop,
) -> None:
    """Every two of them behind each other, at both addresses, with own values and others."""
    fields = sorted(signature.PROTOCOL_FIELDS)
    taken = 0
    form = epay_shop.form(type="creditcard", out_trade_no="N-1")
    for name, one, two in itertools.product(("return_url", "notify_url"), fields, fields):
        values = [form.get(field, "TRADE_SUCCESS") for field in (one, two)]
        query = f"?a=1&{one}={values[0]}&{two}={values[1]}"
        asked = form | {name: f"https://shop.example/{query}"}
        try:
            forms.refuse_forged(Request(params=asked, act="", address=""))
        except Refused:
            continue
        taken += 1
        assert forged(asked) == [], asked[name]
    assert taken > len(fields) ** 2


@pytest.mark.parametrize("name", ["name", "param", "sitename", "clientip", "whatever"])
@pytest.mark.parametrize("field", ["out_trade_no", "type", "status", "key", "act"])
def test_elsewhere_no_protocol_field_stands_behind_an_ampersand(
    epay_shop: EpayShop, name: str, field: str
) -> None:
    form = epay_shop.form()
    form[name] = f"a&{field}={form.get(field, '')}"
    body = epay_shop.post("mapi", epay_shop.signed(form)).json()
    assert body["code"] == -1
    assert name in body["msg"]


def test_in_api_php_no_address_is_an_exception(epay_shop: EpayShop) -> None:
    for name in ("return_url", "whatever"):
        body = epay_shop.act("query", **{name: "https://shop.example/?a=1&status=success"})
        assert body["code"] == -1
