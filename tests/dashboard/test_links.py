"""The pages of payment links, and the options of a session that is opened on a product's page."""

import re
from urllib.parse import urlsplit

from dashboard.pages import hidden_field_values, new_form_id
from opentill.payment_links import jobs
from support.api_server import Shop
from support.people import Visitor, create_person


def path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/links", *parts))


def form(visitor: Visitor, shop: Shop, **entries: str) -> dict[str, str]:
    """Return the form that creates a link, filled in."""
    form_id = new_form_id(visitor, path(shop))
    return {"form_id": form_id, "currency": "USD", "quantity": "1"} | entries


def test_a_link_form_that_is_sent_twice_creates_one_link(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    product = shop.create_product()["id"]
    entries = form(support, shop, product=product, uses="3", expires="2099-12-31", quantity="2")
    first, second = (support.post(path(shop), entries) for _ in range(2))
    assert first.status_code == 303
    assert first.headers["location"] == second.headers["location"]
    (link,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (link["maxUses"], link["maxQuantity"], link["productId"]) == (3, 2, product)
    page = support.get(first.headers["location"]).text
    assert link["url"] in page
    assert "/qr.svg" in page
    assert "0 / 3" in support.get(path(shop)).text
    for active, state in (("off", "INACTIVE"), ("off", "INACTIVE"), ("on", "ACTIVE")):
        support.post(path(shop, link["id"], "switch"), {"active": active})
        assert shop.data("GET", f"/v1/payment-links/{link['id']}")["status"] == state
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = $1 and who <> 'opentill' order by number",
        shop.id,
    )
    assert [row["action"] for row in rows if row["action"].startswith("links")] == [
        "links add", *["links set"] * 3
    ]  # fmt: skip


def test_each_field_of_a_link_shows_its_error_and_keeps_its_entry(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    valid = form(owner, shop, name="A gift", least="5", most="500")
    for field, entry in (
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
        refused = owner.post(path(shop), valid | {field: entry})
        assert refused.status_code == 400, field
        assert f'id="{field}-error"' in refused.text, field
        if field != "name":
            assert 'value="A gift"' in refused.text
    assert shop.data("GET", "/v1/payment-links")["items"] == []
    assert owner.post(path(shop), valid).status_code == 303
    assert "$5.00 – $500.00" in owner.get(path(shop)).text


def test_a_session_is_opened_with_all_its_options(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = f"/dashboard/{shop.id}/products/{shop.create_product()['id']}"
    entries = {
        "form_id": new_form_id(owner, product),
        "quantity": "3",
        "reference": "INV-1",
        "lasting": "30",
        "locale": "zh-Hans",
        "method_CREDIT_CARD": "yes",
    }
    for field, entry in (("quantity", "0"), ("quantity", "x"), ("reference", "r" * 201)):
        refused = owner.post(f"{product}/sessions", entries | {field: entry})
        assert refused.status_code == 400
        assert f'id="{field}-error"' in refused.text
    opened = owner.post(f"{product}/sessions", entries)
    assert opened.status_code == 303
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert (session["amount"], session["quantity"], session["clientReference"]) == (
        "29.97", 3, "INV-1"
    )  # fmt: skip
    assert session["paymentMethods"] == ["CREDIT_CARD"]
    assert session["expiresAt"] - session["createdAt"] == 1_800_000
    assert "INV-1" in owner.get(opened.headers["location"]).text
    matches = owner.get(f"/dashboard/{shop.id}/payments", params={"query": "INV-1"}).text
    assert session["orderId"] in matches


def test_a_link_can_be_changed_and_lists_its_payments(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    created = owner.post(path(shop), form(owner, shop, name="A gift", price="5", quantity="2"))
    here = created.headers["location"].partition("?")[0]
    (version,) = hidden_field_values(owner.get(here), "version")
    entries = {
        "version": version, "name": "A present", "description": "Wrapped", "quantity": "3",
        "uses": "9", "expires": "2099-12-31", "reference": "G-1",
    }  # fmt: skip
    for field, entry in (
        ("name", ""),
        ("description", "x" * 1001),
        ("quantity", "0"),
        ("uses", "0"),
        ("expires", "2020-01-01"),
        ("reference", "r" * 201),
    ):
        refused = owner.post(here, entries | {field: entry})
        assert refused.status_code == 400, field
        assert f'id="{field}-error"' in refused.text, field
        assert 'value="9"' in refused.text or field == "uses"
    locations = [owner.post(here, entries).headers["location"] for _ in range(2)]  # a double click
    assert locations == [f"{here}?done=saved"] * 2
    stale = owner.post(here, entries | {"name": "Something else"})
    assert stale.status_code == 409
    assert 'value="Something else"' in stale.text
    (link,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (link["item"]["name"], link["item"]["description"]) == ("A present", "Wrapped")
    assert (link["maxQuantity"], link["maxUses"], link["clientReference"]) == (3, 9, "G-1")
    assert link["expiresAt"] > 4_000_000_000_000

    assert "There are no payments yet" in owner.get(here).text
    customer, address = Visitor(shop.api_server), urlsplit(link["url"]).path
    for _ in range(2):  # of which one is paid
        form_id = new_form_id(customer, f"{address}?again=1")
        opened = customer.post(address, {"form_id": form_id, "lang": "en", "quantity": "1"})
    session = urlsplit(opened.headers["location"]).path.removeprefix("/checkout/")
    order = shop.data("GET", f"/v1/checkouts/{session}")["orderId"]
    shop.confirm(order)
    for _ in range(2):  # before and after the worker has recorded the end of the session
        assert set(re.findall(r"payments/(order_\w+)", owner.get(here).text)) == {order}
        shop.api_server.run(jobs.record_ended(shop.api_server.app.db))
