"""The pages of checkout sessions: opened by people, found by filters, ended before their time."""

import re
from decimal import Decimal
from typing import Final

import httpx2
import msgspec

from opentill.context import App
from support.api_server import ApiServer, Shop
from support.people import Visitor, person

DAY: Final = 86_400_000
FORM_ID: Final = re.compile(r'name="form_id" value="(\w+)"')


def place(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}", *parts))


def opening(visitor: Visitor, path: str, **entries: str) -> dict[str, str]:
    """Return the form of a product's page, filled in."""
    (form_id,) = set(FORM_ID.findall(visitor.get(path).text))
    return {"form_id": form_id, "email": "", "success": ""} | entries


def link_of(page: httpx2.Response) -> str:
    """Return the payment link of a session's page."""
    (link,) = re.findall(r'readonly value="([^"]+)"', page.text)
    return link


def test_a_session_is_opened_once_and_its_link_can_be_paid(shop: Shop) -> None:
    support = person(shop.api_server, shop.id, "support")
    product = shop.product()["id"]
    path = place(shop, "products", product)
    form = opening(support, path, email="Ada@example.com", success="https://shop.example.com/ok")
    first, again = (support.post(f"{path}/sessions", form) for _ in range(2))
    assert first.status_code == again.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    page = support.get(first.headers["location"])
    assert "The session is open." in page.text
    link = link_of(page)
    assert 'value="Ada@example.com"' in Visitor(shop.api_server).get(link).text
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert session["url"] == link
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'sessions open'",
        shop.id,
    )
    who = f"{support.email} ({support.person_id})"
    assert rows == [{"who": who, "subject": f"{session['orderId']}: {product}"}]
    assert support.post(f"{path}/sessions", form | {"email": ""}).status_code == 422
    assert shop.data("GET", "/v1/checkouts")["pagination"]["total"] == 1


def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    path = place(shop, "products", shop.product()["id"])
    form = opening(owner, path, email="ada@example.com", success="https://shop.example.com/ok")
    for field, typed, sentence in (
        ("email", "nobody", "Enter an e-mail address"),
        ("success", "shop.example.com", "Enter a whole address"),
    ):
        refused = owner.post(f"{path}/sessions", form | {field: typed})
        assert refused.status_code == 400
        assert sentence in refused.text.partition(f'id="{field}-error"')[2]
        for name, value in (form | {field: typed}).items():
            assert name == "form_id" or f'value="{value}"' in refused.text
    assert shop.data("GET", "/v1/checkouts")["items"] == []


def test_why_a_product_cannot_be_sold_now_is_said(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    server = shop.api_server
    abroad = place(shop, "products", shop.product(currency="VUV", price="1")["id"])
    form = opening(owner, abroad, email="ada@example.com")
    refused = owner.post(f"{abroad}/sessions", form)
    assert "There is no exchange rate for the currency of this product" in refused.text
    assert 'value="ada@example.com"' in refused.text
    server.rate("VUV", "USD", Decimal("0.001"))
    refused = owner.post(f"{abroad}/sessions", form)
    assert "this price is worth too little or too much" in refused.text
    gone = shop.product()["id"]
    path = place(shop, "products", gone)
    form = opening(owner, path)
    shop.call("DELETE", f"/v1/products/{gone}")
    refused = owner.post(f"{path}/sessions", form)
    assert refused.status_code == 400
    assert "This product is archived" in refused.text


def test_opening_by_a_form_counts_to_the_limit_of_sessions(shop: Shop, monkeypatch) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    path = place(shop, "products", shop.product()["id"])
    app: App = shop.api_server.app
    limited = msgspec.structs.replace(app.settings, limit_checkouts_per_minute=1)
    monkeypatch.setattr(app, "settings", limited)
    assert owner.post(f"{path}/sessions", opening(owner, path)).status_code == 303
    refused = owner.post(f"{path}/sessions", opening(owner, path, email="ada@example.com"))
    assert refused.status_code == 429
    assert "Too many sessions were opened within a minute" in refused.text
    assert 'value="ada@example.com"' in refused.text


def test_sessions_are_found_by_their_filters(shop: Shop, clock) -> None:
    viewer = person(shop.api_server, shop.id, "viewer")
    tea, cake = shop.product()["id"], shop.product(name="Cake")["id"]
    now = shop.api_server.app.clock()
    opened = shop.session(tea, customerEmail="ada@example.com")["id"]
    ended = shop.session(cake)["id"]
    shop.data("POST", f"/v1/checkouts/{ended}/expire")
    paid = shop.paid(cake, customerEmail="bob@example.com")["checkoutSessionId"]
    clock(now + 3 * DAY)
    viewer = person(shop.api_server, shop.id, "viewer")
    later = shop.session(tea)["id"]

    def found(**query: str) -> set[str]:
        page = viewer.get(place(shop, "sessions"), params=query)
        assert page.status_code == 200
        return set(re.findall(r"/sessions/(cs_\w+)", page.text))

    assert found() == {opened, ended, paid, later}
    assert found(status="OPEN") == {opened, later}
    assert found(status="COMPLETE") == {paid}
    assert found(status="EXPIRED", product=cake) == {ended}
    assert found(product=tea) == {opened, later}
    assert found(email="ADA@example.com") == {opened}
    assert found(email="bob@example.com", status="OPEN") == set()
    day = viewer.get(place(shop, "sessions")).text
    (latest,) = re.findall(rf'{later}"><time datetime="([\d-]+)T', day)
    assert found(**{"from": latest}) == {later}
    wrong = viewer.get(
        place(shop, "sessions"), params={"email": "bob", "product": "prod_x", "from": "soon"}
    )
    for field in ("email", "product", "from"):
        assert f'id="{field}-error"' in wrong.text
    assert 'value="bob"' in wrong.text


def test_a_session_is_ended_once_and_nobody_can_pay_it(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    session = shop.session()
    path = place(shop, "sessions", session["id"])
    link = link_of(owner.get(path))
    for _ in range(2):
        assert owner.post(f"{path}/end").headers["location"] == f"{path}?done=ended"
    page = owner.get(f"{path}?done=ended")
    assert "Nobody can pay it any more." in page.text
    assert link not in page.text
    assert "expired" in Visitor(shop.api_server).get(link).text
    order_id = shop.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
    assert shop.read_order(order_id)["status"] == "CLOSED"
    rows = shop.api_server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'sessions end'", shop.id
    )
    assert rows == [{"subject": order_id}]
    causes = shop.api_server.sql(
        "select cause from order_history where merchant_id = $1 and event = 'expired'", shop.id
    )
    who = f"{owner.email} ({owner.person_id})"
    assert causes == [{"cause": f"expired by the merchant: {who}"}]
    (closed,) = shop.api_server.sql(
        "select body from events where merchant_id = $1 and type = 'order.closed'", shop.id
    )
    assert owner.email not in str(closed["body"])


def test_a_paid_session_is_not_ended(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    order = shop.paid()
    path = place(shop, "sessions", order["checkoutSessionId"])
    refused = owner.post(f"{path}/end")
    assert refused.status_code == 409
    assert "This session is paid already" in refused.text
    assert shop.read_order(order["id"])["status"] == "PAID"


def test_another_merchant_s_session_is_not_found(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    other = shop.api_server.shop()
    theirs = other.session()["id"]
    path = place(shop, "sessions", theirs)
    assert owner.get(path).status_code == owner.post(f"{path}/end").status_code == 404
    assert other.data("GET", f"/v1/checkouts/{theirs}")["status"] == "OPEN"
    product = other.data("GET", "/v1/products")["items"][0]["id"]
    page = owner.get(place(shop, "sessions"), params={"product": product})
    assert "Choose one of your products" in page.text
    assert theirs not in page.text


def test_the_checklist_of_a_new_merchant_leads_to_each_step(api_server: ApiServer) -> None:
    shop = api_server.shop()
    owner = person(api_server, shop.id, "owner")

    def leads() -> set[str]:
        (part,) = re.findall(
            r'<ol class="start">.*?</ol>', owner.get(place(shop, "")).text, re.DOTALL
        )
        return set(re.findall(r'href="([^"]+)"', part))

    assert place(shop, "products") in leads()
    product = shop.product()["id"]
    assert place(shop, "products", product) in leads()
    session = shop.session(product)["id"]
    assert place(shop, "sessions", session) in leads()
    for path in leads():
        assert owner.get(path).status_code == 200
    helper = person(api_server, shop.id, "support")
    assert "API key" not in helper.get(place(shop, "")).text
