"""The page of a link whose price is fixed has the payment form; other links lead to its page."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from payment_links.links import FORM_ID, create_link, read_link
from support.api_server import Shop
from support.people import Visitor

_TEA: Final = {"name": "Tea", "price": "9.99", "currency": "USD"}
_OPEN: Final = {"name": "Gift", "minAmount": "5", "maxAmount": "50", "currency": "USD"}
_PRICE: Final = re.compile(r'name="price" value="([^"]+)"')


def _read_form(visitor: Visitor, link: dict[str, Any]) -> tuple[str, dict[str, str]]:
    path = urlsplit(link["url"]).path
    page = visitor.get(path).text
    (form_id,), (price,) = FORM_ID.findall(page), _PRICE.findall(page)
    entries = {"lang": "en", "form_id": form_id, "price": price, "method": "CREDIT_CARD"}
    return path, entries | {"email": "ada@example.com", "name": ""}


def test_a_customer_pays_on_the_page_of_a_link(shop: Shop) -> None:
    link, visitor = create_link(shop, item=_TEA), Visitor(shop.api_server)
    path, entries = _read_form(visitor, link)
    forwarded = visitor.post(path, entries)
    assert forwarded.status_code == 307  # the browser sends the form to the payment page
    session_path = forwarded.headers["location"]
    assert urlsplit(session_path).path.startswith("/checkout/cs_")
    assert visitor.post(path, entries).headers["location"] == session_path  # a double click
    paying = visitor.post(session_path, entries)
    assert paying.status_code == 303
    assert paying.headers["location"].startswith(urlsplit(session_path).path)
    session_id = urlsplit(session_path).path.removeprefix("/checkout/")
    session = shop.data("GET", f"/v1/checkouts/{session_id}")
    order = shop.data("GET", f"/v1/orders/{session['orderId']}")
    assert order["customerEmail"] == "ada@example.com"
    assert read_link(shop, link)["openSessions"] == 1


def test_the_payment_page_shows_what_is_wrong_in_a_links_form(shop: Shop) -> None:
    visitor = Visitor(shop.api_server)
    path, entries = _read_form(visitor, create_link(shop, item=_TEA))
    entries["email"] = "ada"
    refused = visitor.post(visitor.post(path, entries).headers["location"], entries)
    assert refused.status_code == 400
    assert "Enter an email address such as name@example.com" in refused.text
    assert 'value="ada"' in refused.text


def test_a_customer_sees_a_changed_price_before_paying(shop: Shop) -> None:
    link, visitor = create_link(shop, item=_TEA), Visitor(shop.api_server)
    path, entries = _read_form(visitor, link)
    assert entries["price"] == "999 USD"
    shown = visitor.post(path, entries | {"price": "899 USD"})
    assert shown.status_code == 303
    assert "Pay $9.99" in visitor.get(shown.headers["location"]).text


@pytest.mark.parametrize("body", [{"item": _OPEN}, {"item": _TEA, "maxQuantity": 3}])
def test_a_link_without_a_fixed_amount_asks_for_it_first(shop: Shop, body: dict[str, Any]) -> None:
    page = Visitor(shop.api_server).get(urlsplit(create_link(shop, **body)["url"]).path).text
    assert "Continue to payment" in page
    assert 'name="method"' not in page


def test_a_link_offers_only_its_own_methods(shop: Shop) -> None:
    link = create_link(shop, item=_TEA, paymentMethods=["ALIPAY"])
    page = Visitor(shop.api_server).get(urlsplit(link["url"]).path).text
    assert re.findall(r'name="method" value="(\w+)"', page) == ["ALIPAY"]
