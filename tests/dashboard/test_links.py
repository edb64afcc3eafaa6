"""The pages of payment links."""

import re
from typing import Final
from urllib.parse import urlsplit

from opentill.payment_links import jobs
from support.api_server import Shop
from support.people import Visitor, person

FORM_ID: Final = re.compile(r'name="form_id" value="(\w+)"')


def place(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/links", *parts))


def form(visitor: Visitor, shop: Shop, **entries: str) -> dict[str, str]:
    """Return the form that makes a link, filled in."""
    (form_id,) = set(FORM_ID.findall(visitor.get(place(shop)).text))
    return {"form_id": form_id, "currency": "USD", "quantity": "1"} | entries


def test_a_link_is_made_once_shown_with_its_code_and_switched_off(shop: Shop) -> None:
    support = person(shop.api_server, shop.id, "support")
    product = shop.product()["id"]
    entries = form(support, shop, product=product, uses="3", expires="2099-12-31", quantity="2")
    first, again = (support.post(place(shop), entries) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    (made,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (made["maxUses"], made["maxQuantity"], made["productId"]) == (3, 2, product)
    page = support.get(first.headers["location"]).text
    assert made["url"] in page
    assert "/qr.svg" in page
    listed = support.get(place(shop)).text
    assert "0 / 3" in listed
    for active, state in (("off", "INACTIVE"), ("off", "INACTIVE"), ("on", "ACTIVE")):
        support.post(place(shop, made["id"], "switch"), {"active": active})
        assert shop.data("GET", f"/v1/payment-links/{made['id']}")["status"] == state
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = $1 and who <> 'opentill' order by number",
        shop.id,
    )
    assert [row["action"] for row in rows if row["action"].startswith("links")] == [
        "links add", *["links set"] * 3
    ]  # fmt: skip


def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    good = form(owner, shop, name="A gift", least="5", most="500")
    for field, typed in (
        ("product", "prod_01m7y0m0jzefzv5n8efcf1hqw1"),
        ("name", ""),
        ("least", "five"),
        ("most", "4"),
        ("price", "5"),
        ("quantity", "2"),
        ("uses", "0"),
        ("uses", "many"),
        ("uses", "1" * 5000),
        ("quantity", "1" * 5000),
        ("expires", "2020-01-01"),
        ("expires", "9999-99-99"),
        ("reference", "r" * 201),
    ):
        refused = owner.post(place(shop), good | {field: typed})
        assert refused.status_code == 400, field
        assert f'id="{field}-error"' in refused.text, field
        if field != "name":
            assert 'value="A gift"' in refused.text
    assert shop.data("GET", "/v1/payment-links")["items"] == []
    assert owner.post(place(shop), good).status_code == 303
    assert "$5.00 – $500.00" in owner.get(place(shop)).text


def test_a_session_is_opened_with_more_than_an_address(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/products/{shop.product()['id']}"
    (form_id,) = set(FORM_ID.findall(owner.get(path).text))
    entries = {
        "form_id": form_id,
        "quantity": "3",
        "reference": "INV-1",
        "lasting": "30",
        "locale": "zh-Hans",
        "method_CREDIT_CARD": "yes",
    }
    for field, typed in (("quantity", "0"), ("quantity", "x"), ("reference", "r" * 201)):
        refused = owner.post(f"{path}/sessions", entries | {field: typed})
        assert refused.status_code == 400
        assert f'id="{field}-error"' in refused.text
    opened = owner.post(f"{path}/sessions", entries)
    assert opened.status_code == 303
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert (session["amount"], session["quantity"], session["clientReference"]) == (
        "29.97", 3, "INV-1"
    )  # fmt: skip
    assert session["paymentMethods"] == ["CREDIT_CARD"]
    assert session["expiresAt"] - session["createdAt"] == 1_800_000
    assert "INV-1" in owner.get(opened.headers["location"]).text
    found = owner.get(f"/dashboard/{shop.id}/payments", params={"query": "INV-1"}).text
    assert session["orderId"] in found


def test_a_link_is_changed_and_lists_what_it_was_paid(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    good = form(owner, shop, name="A gift", price="5", quantity="2")
    one = owner.post(place(shop), good).headers["location"].partition("?")[0]
    page = owner.get(one).text
    (version,) = re.findall(r'name="version" value="(\d+)"', page)
    entries = {
        "version": version, "name": "A present", "description": "Wrapped", "quantity": "3",
        "uses": "9", "expires": "2099-12-31", "reference": "G-1",
    }  # fmt: skip
    for field, typed in (
        ("name", ""),
        ("description", "x" * 1001),
        ("quantity", "0"),
        ("uses", "0"),
        ("expires", "2020-01-01"),
        ("reference", "r" * 201),
    ):
        refused = owner.post(one, entries | {field: typed})
        assert refused.status_code == 400, field
        assert f'id="{field}-error"' in refused.text, field
        assert 'value="9"' in refused.text or field == "uses"
    saved = [owner.post(one, entries).headers["location"] for _ in range(2)]  # a double click
    assert saved == [f"{one}?done=saved"] * 2
    stale = owner.post(one, entries | {"name": "Something else"})
    assert stale.status_code == 409
    assert 'value="Something else"' in stale.text
    (made,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (made["item"]["name"], made["item"]["description"]) == ("A present", "Wrapped")
    assert (made["maxQuantity"], made["maxUses"], made["clientReference"]) == (3, 9, "G-1")
    assert made["expiresAt"] > 4_000_000_000_000

    assert "There are no payments yet" in owner.get(one).text
    customer, path = Visitor(shop.api_server), urlsplit(made["url"]).path
    for _ in range(2):  # of which one is paid
        (form_id,) = FORM_ID.findall(customer.get(f"{path}?again=1").text)
        opened = customer.post(path, {"form_id": form_id, "lang": "en", "quantity": "1"})
    session = urlsplit(opened.headers["location"]).path.removeprefix("/checkout/")
    order = shop.data("GET", f"/v1/checkouts/{session}")["orderId"]
    shop.confirm(order)
    for _ in range(2):  # before and after the worker has noted it
        rows = re.findall(r"payments/(order_\w+)", owner.get(one).text)
        assert set(rows) == {order}
        shop.api_server.run(jobs.record_ended(shop.api_server.app.db))
