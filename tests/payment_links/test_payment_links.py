"""Payment links open sessions for customers, as often as they may (contract.md#payment-links)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from opentill import merchants
from payment_links.links import FORM_ID, create_link, open_by_form, read_link
from support.api_server import ApiServer, Shop, assert_refused
from support.people import Visitor

GIFT: Final = {"name": "A gift", "currency": "USD", "minAmount": "5", "maxAmount": "500.00"}
INVALID_LINKS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("productId", {}),
    ("productId", {"productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}),
    ("item", {"item": {"name": "A gift", "currency": "USD"}}),
    ("item", {"item": GIFT | {"price": "5"}}),
    ("item", {"item": {"name": "A gift", "currency": "USD", "minAmount": "5"}}),
    ("item.maxAmount", {"item": GIFT | {"maxAmount": "5.00"}}),
    ("item.minAmount", {"item": GIFT | {"minAmount": "0"}}),
    ("item.currency", {"item": GIFT | {"currency": "XTS"}}),
    ("item.name", {"item": GIFT | {"name": ""}}),
    ("item.image", {"item": GIFT | {"image": "/x.png"}}),
    ("item", {"item": "A gift"}),
    ("maxQuantity", {"item": GIFT, "maxQuantity": 2}),
    ("maxQuantity", {"item": GIFT, "maxQuantity": 100}),
    ("maxUses", {"item": GIFT, "maxUses": 0}),
    ("maxUses", {"item": GIFT, "maxUses": "1"}),
    ("expiresAt", {"item": GIFT, "expiresAt": 1}),
    ("expiresAt", {"item": GIFT, "expiresAt": 10**20}),
    ("successUrl", {"item": GIFT, "successUrl": "javascript:alert(1)"}),
    ("paymentMethods", {"item": GIFT, "paymentMethods": ["PAYNOW"]}),
    ("clientReference", {"item": GIFT, "clientReference": " "}),
    ("metadata", {"item": GIFT, "metadata": []}),
)


@pytest.mark.parametrize(("field", "body"), INVALID_LINKS)
def test_an_invalid_link_is_refused_with_its_field(
    shop: Shop, field: str, body: dict[str, Any]
) -> None:
    assert field in assert_refused(shop.post("/v1/payment-links", body), field)
    assert shop.data("GET", "/v1/payment-links")["items"] == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("item.name", {"item": {"name": " "}}),
        ("item.description", {"item": {"description": "x" * 1001}}),
        # maxQuantity is invalid if the customer enters the amount.
        ("maxQuantity", {"maxQuantity": 2}),
        ("maxQuantity", {"maxQuantity": None}),
        ("maxUses", {"maxUses": 0}),
        ("expiresAt", {"expiresAt": 1}),
        ("successUrl", {"successUrl": "javascript:alert(1)"}),
        ("clientReference", {"clientReference": " "}),
    ],
)
def test_an_invalid_change_of_a_link_is_refused_with_its_field(
    shop: Shop, field: str, body: dict[str, Any]
) -> None:
    created = create_link(shop, item=GIFT)
    assert field in assert_refused(
        shop.call("PATCH", f"/v1/payment-links/{created['id']}", json=body), field
    )
    assert read_link(shop, created) == created


def test_an_update_changes_only_the_fields_sent(shop: Shop) -> None:
    created, product_link = create_link(shop, item=GIFT, maxUses=5), create_link(shop)
    item_changes = {
        "item": {"name": "A present", "description": "Wrapped"},
        "clientReference": "G-1",
    }
    updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=item_changes)
    item = created["item"] | item_changes["item"]
    assert updated == created | {
        "item": item, "clientReference": "G-1", "updatedAt": updated["updatedAt"]
    }  # fmt: skip
    other_changes = {
        "maxUses": None, "clientReference": None, "successUrl": "https://shop.example/ok",
    }  # fmt: skip
    for changes in (other_changes, dict.fromkeys(("expiresAt", "successUrl"))):
        updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=changes)
        assert {name: updated[name] for name in changes} == changes
    removals = {"metadata": None, "item": {"description": None}}
    updated = shop.data("PATCH", f"/v1/payment-links/{created['id']}", json=removals)
    assert (updated["metadata"], updated["item"]["description"]) == ({}, "")
    path = f"/v1/payment-links/{product_link['id']}"
    assert "sells a product" in assert_refused(shop.call("PATCH", path, json=item_changes), "item")
    assert shop.data("PATCH", path, json={"maxQuantity": 9})["maxQuantity"] == 9


def test_each_customer_gets_a_session_with_the_values_of_the_link(shop: Shop) -> None:
    body = {
        "maxQuantity": 5,
        "metadata": {"campaign": "spring"},
        "clientReference": "C-7",
        "paymentMethods": ["CREDIT_CARD"],
        "locale": "zh-Hans",
        "successUrl": "https://shop.example/ok",
    }
    created = create_link(shop, **body)
    assert {name: created[name] for name in body} == body
    assert created["status"] == "ACTIVE"
    session_id = open_by_form(Visitor(shop.api_server), created, quantity="2")
    assert open_by_form(Visitor(shop.api_server), created, quantity="1") != session_id
    session = shop.data("GET", f"/v1/checkouts/{session_id}")
    assert (session["amount"], session["quantity"], session["locale"]) == ("19.98", 2, "zh-Hans")
    order = shop.read_order(session["orderId"])
    assert order["metadata"] == {"campaign": "spring"}
    assert (order["paymentLinkId"], order["clientReference"]) == (created["id"], "C-7")
    shop.confirm(order["id"])
    link = read_link(shop, created)
    assert (link["payments"], link["openSessions"]) == (1, 1)
    assert link["sales"] == [{"currency": "USD", "payments": 1, "amount": "19.98"}]
    (event,) = [
        event for event in shop.data("GET", "/v1/events")["items"] if event["type"] == "order.paid"
    ]
    assert event["data"]["payment_link_id"] == created["id"]
    assert created["id"] in shop.get("/v1/orders/export").text
    assert shop.data("GET", "/v1/payment-links", params={"active": "true"})["items"] == [link]
    assert shop.data("GET", "/v1/payment-links", params={"active": "false"})["items"] == []


def test_an_entered_amount_must_be_within_the_bounds(shop: Shop) -> None:
    created = create_link(shop, item=GIFT)
    visitor, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    for amount in ("4.99", "500.01", "", "ten", "1e2", "-5", "5.001", "€9", "5\x01"):
        response = visitor.post(path, {"amount": amount, "lang": "en"})
        assert response.status_code == 400, amount
        assert 'id="amount-error"' in response.text
        assert "from $5.00 to $500.00" in response.text
    assert read_link(shop, created)["openSessions"] == 0
    session = open_by_form(visitor, created, amount=" 12,5 ")
    assert shop.data("GET", f"/v1/checkouts/{session}")["amount"] == "12.50"


def test_concurrent_copies_of_the_form_open_one_session(shop: Shop) -> None:
    created = create_link(shop, maxQuantity=9)
    visitor, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    (form_id,) = FORM_ID.findall(visitor.get(path).text)
    form = {"form_id": form_id, "quantity": "2", "lang": "en"}
    with ThreadPoolExecutor(4) as threads:
        responses = list(threads.map(lambda _: visitor.post(path, form), range(4)))
    assert len({response.headers["location"] for response in responses}) == 1
    assert read_link(shop, created)["openSessions"] == 1
    changed_form = visitor.post(path, form | {"quantity": "3"})
    assert changed_form.headers["location"] != responses[0].headers["location"]
    # After the session has ended, the same form leads to the link's page.
    session = urlsplit(responses[0].headers["location"]).path.removeprefix("/checkout/")
    shop.data("POST", f"/v1/checkouts/{session}/expire")
    assert visitor.post(path, form).headers["location"].startswith(path)


def test_only_the_visitor_who_opened_a_session_gets_a_link_to_it(shop: Shop) -> None:
    created = create_link(shop, maxUses=1)
    ada, path = Visitor(shop.api_server), urlsplit(created["url"]).path
    session = open_by_form(ada, created)
    page = ada.get(path)
    assert page.status_code == 200
    assert f"/checkout/{session}" in page.text
    assert session not in Visitor(shop.api_server).get(path).text
    other_link = create_link(shop)
    forged = Visitor(shop.api_server).get(
        urlsplit(other_link["url"]).path, headers={"cookie": f"opentill_link={session}"}
    )
    assert session not in forged.text


def test_the_page_of_an_unusable_link_states_the_reason(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    now = shop.api_server.app.clock()
    clock(now)
    visitor = Visitor(shop.api_server)
    inactive, expired = create_link(shop), create_link(shop, expiresAt=now + 1000)
    product = shop.create_product()["id"]
    without_product = create_link(shop, productId=product)
    path = f"/v1/payment-links/{inactive['id']}"
    assert shop.data("PATCH", path, json={"active": False})["status"] == "INACTIVE"
    shop.call("DELETE", f"/v1/products/{product}")
    clock(now + 1000)
    for unusable_link, sentence in (
        (inactive, "This link is not available"),
        (expired, "This link has expired"),
        (without_product, "This link is not available"),
    ):
        path = urlsplit(unusable_link["url"]).path
        for response in (visitor.get(path), visitor.post(path, {"lang": "en"})):
            assert response.status_code == 410
            assert sentence in response.text
    body = {"active": True, "expiresAt": None, "maxUses": 5, "metadata": {"a": 1}}
    changed = shop.data("PATCH", f"/v1/payment-links/{expired['id']}", json=body)
    assert (changed["status"], changed["maxUses"], changed["metadata"]) == (
        "ACTIVE", 5, {"a": 1}
    )  # fmt: skip
    assert shop.data("PATCH", f"/v1/payment-links/{expired['id']}", json={})["maxUses"] == 5
    open_by_form(visitor, expired)


def test_every_request_to_a_links_url_gets_a_page(shop: Shop) -> None:
    created = create_link(shop, maxQuantity=3)
    path, http = urlsplit(created["url"]).path, Visitor(shop.api_server).http
    form = {"content-type": "application/x-www-form-urlencoded"}
    for method, requested_path, status, headers in (
        ("GET", "/pay", 404, {}),
        ("GET", "/pay/" + "0" * 32, 404, {}),
        ("GET", "/pay/%00", 404, {}),
        ("GET", f"{path}x", 404, {}),
        ("GET", f"{path}/nothing", 404, {}),
        ("PUT", path, 405, {}),
        ("HEAD", path, 200, {}),
        ("POST", path, 415, {}),
        ("POST", path, 403, {**form, "sec-fetch-site": "cross-site"}),
        ("GET", path, 200, {"cookie": "opentill_link=cs_';--"}),
    ):
        response = http.request(method, requested_path, headers=headers)
        assert response.status_code == status, (method, requested_path)
        assert response.headers["content-type"] == "text/html; charset=utf-8"
    for quantity in ("0", "4", "-1", "1.5", "x" * 5000, "٣"):
        response = http.post(path, data={"quantity": quantity}, headers=form)
        assert response.status_code == 400, quantity
        assert 'id="quantity-error"' in response.text
    assert read_link(shop, created)["openSessions"] == 0
    svg, png = (http.get(f"{path}/qr.{kind}") for kind in ("svg", "png"))
    assert svg.headers["content-type"] == "image/svg+xml"
    assert png.content.startswith(b"\x89PNG")
    assert http.get("/pay/" + "0" * 32 + "/qr.png").status_code == 404


def test_forms_of_an_ip_address_have_a_rate_limit_of_their_own(
    shop: Shop,
) -> None:
    created = create_link(shop)
    path, visitor = urlsplit(created["url"]).path, Visitor(shop.api_server)
    body = {"productId": shop.create_product()["id"]}
    with shop.api_server.limited(limit_payments_per_minute=2, limit_checkouts_per_minute=1):
        statuses = [visitor.post(path, {"lang": "en"}).status_code for _ in range(3)]
        assert statuses == [303, 303, 429]
        assert shop.post("/v1/checkouts", body).status_code == 201


def test_a_link_cannot_be_used_until_its_merchant_has_accepted_the_agreement(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgspec

    app, created = shop.api_server.app, create_link(shop)
    strict = msgspec.structs.replace(app.settings, agreement_required=True)
    monkeypatch.setattr(app, "settings", strict)
    response = Visitor(shop.api_server).post(urlsplit(created["url"]).path, {"lang": "en"})
    assert response.status_code == 403
    assert "This link is not available" in response.text
    assert read_link(shop, created)["openSessions"] == 0


def test_a_link_cannot_be_used_while_its_merchant_may_not_take_payments(shop: Shop) -> None:
    created, now = create_link(shop), shop.api_server.app.clock()
    path, visitor = urlsplit(created["url"]).path, Visitor(shop.api_server)
    open_by_form(visitor, created)
    actor = merchants.Actor("ann", "no")
    shop.api_server.tx(
        lambda tx: merchants.set_capability(tx, shop.id, "charge", on=False, actor=actor, now=now)
    )
    for status, response in ((410, visitor.get(path)), (403, visitor.post(path, {"lang": "en"}))):
        assert response.status_code == status
        assert "This link is not available" in response.text
    assert read_link(shop, created)["openSessions"] == 1


def test_products_and_links_of_another_merchant_are_hidden(
    api_server: ApiServer, shop: Shop
) -> None:
    foreign_link = create_link(api_server.create_shop())
    body = {"productId": foreign_link["productId"]}
    assert_refused(shop.post("/v1/payment-links", body), "productId")
    assert shop.get(f"/v1/payment-links/{foreign_link['id']}").status_code == 404
