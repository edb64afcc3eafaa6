"""The pages of checkout sessions: open, filter and end them."""

import re
from decimal import Decimal
from typing import Final

import httpx2
import msgspec

from dashboard.pages import new_form_id
from opentill.context import App
from support.api_server import ApiServer, Shop
from support.people import Visitor, create_person

DAY: Final = 86_400_000


def path_of(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}", *parts))


def opening(visitor: Visitor, path: str, **entries: str) -> dict[str, str]:
    """Return the form of a product's page that opens a session, filled in."""
    return {"form_id": new_form_id(visitor, path), "email": "", "success": ""} | entries


def link_of(page: httpx2.Response) -> str:
    """Return the address of the payment page from a session's page."""
    (link,) = re.findall(r'readonly value="([^"]+)"', page.text)
    return link


def test_a_session_form_that_is_sent_twice_opens_one_session_that_can_be_paid(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    product = shop.create_product()["id"]
    path = path_of(shop, "products", product)
    form = opening(support, path, email="Ada@example.com", success="https://shop.example.com/ok")
    first, second = (support.post(f"{path}/sessions", form) for _ in range(2))
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"]
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


def test_each_field_of_a_session_shows_its_error_and_keeps_its_entry(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "products", shop.create_product()["id"])
    form = opening(owner, path, email="ada@example.com", success="https://shop.example.com/ok")
    for field, entry, error in (
        ("email", "nobody", "Enter an e-mail address"),
        ("success", "shop.example.com", "Enter a whole address"),
    ):
        refused = owner.post(f"{path}/sessions", form | {field: entry})
        assert refused.status_code == 400
        assert error in refused.text.partition(f'id="{field}-error"')[2]
        for name, value in (form | {field: entry}).items():
            assert name == "form_id" or f'value="{value}"' in refused.text
    assert shop.data("GET", "/v1/checkouts")["items"] == []


def test_a_product_that_cannot_be_sold_shows_the_reason(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    server = shop.api_server
    path = path_of(shop, "products", shop.create_product(currency="VUV", price="1")["id"])
    form = opening(owner, path, email="ada@example.com")
    refused = owner.post(f"{path}/sessions", form)
    assert "There is no exchange rate for the currency of this product" in refused.text
    assert 'value="ada@example.com"' in refused.text
    server.set_rate("VUV", "USD", Decimal("0.001"))
    refused = owner.post(f"{path}/sessions", form)
    assert "this price is worth too little or too much" in refused.text
    archived = shop.create_product()["id"]
    path = path_of(shop, "products", archived)
    form = opening(owner, path)
    shop.call("DELETE", f"/v1/products/{archived}")
    refused = owner.post(f"{path}/sessions", form)
    assert refused.status_code == 400
    assert "This product is archived" in refused.text


def test_opening_by_a_form_counts_towards_the_limit_of_sessions(shop: Shop, monkeypatch) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "products", shop.create_product()["id"])
    app: App = shop.api_server.app
    limited = msgspec.structs.replace(app.settings, limit_checkouts_per_minute=1)
    monkeypatch.setattr(app, "settings", limited)
    assert owner.post(f"{path}/sessions", opening(owner, path)).status_code == 303
    refused = owner.post(f"{path}/sessions", opening(owner, path, email="ada@example.com"))
    assert refused.status_code == 429
    assert "Too many sessions were opened within a minute" in refused.text
    assert 'value="ada@example.com"' in refused.text


def test_sessions_are_filtered_by_status_product_email_and_day(shop: Shop, clock) -> None:
    tea, cake = shop.create_product()["id"], shop.create_product(name="Cake")["id"]
    now = shop.api_server.app.clock()
    opened = shop.create_session(tea, customerEmail="ada@example.com")["id"]
    ended = shop.create_session(cake)["id"]
    shop.data("POST", f"/v1/checkouts/{ended}/expire")
    paid = shop.create_paid_order(cake, customerEmail="bob@example.com")["checkoutSessionId"]
    clock(now + 3 * DAY)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    later = shop.create_session(tea)["id"]

    def ids(**query: str) -> set[str]:
        page = viewer.get(path_of(shop, "sessions"), params=query)
        assert page.status_code == 200
        return set(re.findall(r"/sessions/(cs_\w+)", page.text))

    assert ids() == {opened, ended, paid, later}
    assert ids(status="OPEN") == {opened, later}
    assert ids(status="COMPLETE") == {paid}
    assert ids(status="EXPIRED", product=cake) == {ended}
    assert ids(product=tea) == {opened, later}
    assert ids(email="ADA@example.com") == {opened}
    assert ids(email="bob@example.com", status="OPEN") == set()
    page = viewer.get(path_of(shop, "sessions")).text
    (day,) = re.findall(rf'{later}"><time datetime="([\d-]+)T', page)
    assert ids(**{"from": day}) == {later}
    page = viewer.get(
        path_of(shop, "sessions"), params={"email": "bob", "product": "prod_x", "from": "soon"}
    ).text
    for field in ("email", "product", "from"):
        assert f'id="{field}-error"' in page
    assert 'value="bob"' in page


def test_an_ended_session_cannot_be_paid(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    session = shop.create_session()
    path = path_of(shop, "sessions", session["id"])
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
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    path = path_of(shop, "sessions", order["checkoutSessionId"])
    refused = owner.post(f"{path}/end")
    assert refused.status_code == 409
    assert "This session is paid already" in refused.text
    assert shop.read_order(order["id"])["status"] == "PAID"


def test_another_merchants_session_is_not_found(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    other = shop.api_server.create_shop()
    other_id = other.create_session()["id"]
    path = path_of(shop, "sessions", other_id)
    assert owner.get(path).status_code == owner.post(f"{path}/end").status_code == 404
    assert other.data("GET", f"/v1/checkouts/{other_id}")["status"] == "OPEN"
    product = other.data("GET", "/v1/products")["items"][0]["id"]
    page = owner.get(path_of(shop, "sessions"), params={"product": product})
    assert "Choose one of your products" in page.text
    assert other_id not in page.text


def test_the_steps_of_a_new_merchant_link_their_pages(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    owner = create_person(api_server, shop.id, "owner")

    def links() -> set[str]:
        (steps,) = re.findall(
            r'<ol class="start">.*?</ol>', owner.get(path_of(shop, "")).text, re.DOTALL
        )
        return set(re.findall(r'href="([^"]+)"', steps))

    assert path_of(shop, "products") in links()
    product = shop.create_product()["id"]
    assert path_of(shop, "products", product) in links()
    session = shop.create_session(product)["id"]
    assert path_of(shop, "sessions", session) in links()
    for path in links():
        assert owner.get(path).status_code == 200
    support = create_person(api_server, shop.id, "support")
    assert "API key" not in support.get(path_of(shop, "")).text
