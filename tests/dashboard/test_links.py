"""The pages of payment links, and the options of a session opened on a product's page."""

import re
from urllib.parse import quote, urlsplit

import pytest

from dashboard.pages import hidden_field_values, new_form_id, text_of
from opentill.payment_links import jobs
from support.api_server import Shop
from support.people import Visitor, create_person


def page_path(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/links", *parts))


def link_form(visitor: Visitor, shop: Shop, **entries: str) -> dict[str, str]:
    """Return the values of the form that creates a payment link."""
    form_id = new_form_id(visitor, page_path(shop))
    return {"form_id": form_id, "currency": "USD", "quantity": "1"} | entries


def test_submitting_a_form_twice_creates_one_payment_link(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    product = shop.create_product()["id"]
    entries = link_form(
        support, shop, product=product, uses="3", expires="2099-12-31", quantity="2"
    )
    # A double click submits the form twice.
    responses = [support.post(page_path(shop), entries) for _ in range(2)]
    assert responses[0].status_code == 303
    link_path = responses[0].headers["location"]
    assert responses[1].headers["location"] == link_path
    (link,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (link["maxUses"], link["maxQuantity"], link["productId"]) == (3, 2, product)
    page = support.get(link_path).text
    assert link["url"] in page
    assert "/qr.svg" in page
    assert "0 / 3" in support.get(page_path(shop)).text
    for active, state in (("off", "INACTIVE"), ("off", "INACTIVE"), ("on", "ACTIVE")):
        support.post(page_path(shop, link["id"], "switch"), {"active": active})
        assert shop.data("GET", f"/v1/payment-links/{link['id']}")["status"] == state
    rows = shop.api_server.sql(
        "select action from audit_log where merchant_id = $1 and who <> 'opentill' order by number",
        shop.id,
    )
    assert [row["action"] for row in rows if row["action"].startswith("links")] == [
        "links add", *["links set"] * 3
    ]  # fmt: skip


def test_the_form_of_a_link_begins_with_the_asked_product_or_with_none_chosen(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    path = page_path(shop)
    assert '<option value="" selected>' in support.get(path).text
    tea, cake = shop.create_product()["id"], shop.create_product(name="Cake")["id"]
    for query, product in (("", "undecided"), (f"?for={tea}", tea), ("?for=prod_x", "undecided")):
        page = support.get(path + query).text
        assert re.findall(r'<option value="([^"]*)" selected>[^<]*(?:product|Tea|Cake)', page) == [
            product
        ]
        assert f'<option value="{cake}">' in page
    product_page = support.get(f"/dashboard/{shop.id}/products/{tea}").text
    assert f"/links?sheet=add&amp;for={tea}" in product_page


def test_each_field_of_a_link_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    valid = link_form(owner, shop, name="A gift", pricing="open", least="5", most="500")
    fixed = valid | {"pricing": "fixed", "price": "12.50"}
    for field, entry in (
        ("product", "prod_01m7y0m0jzefzv5n8efcf1hqw1"),
        ("product", "undecided"),
        ("name", ""),
        ("least", "five"),
        ("most", "4"),
        ("least", "€5"),
        ("most", "1,200"),
        ("uses", "0"),
        ("uses", "many"),
        ("uses", "1" * 5000),
        ("expires", "2020-01-01"),
        ("expires", "9999-99-99"),
        ("reference", "r" * 201),
    ):
        refusal = owner.post(page_path(shop), valid | {field: entry})
        assert refusal.status_code == 400, field
        assert f'id="{field}-error"' in refusal.text, field
        if field != "name":
            assert 'value="A gift"' in refusal.text
    for field, entry in (
        ("price", ""),
        ("price", "5,"),
        ("quantity", "0"),
        ("quantity", "1" * 5000),
    ):
        refusal = owner.post(page_path(shop), fixed | {field: entry})
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
    assert shop.data("GET", "/v1/payment-links")["items"] == []
    assert owner.post(page_path(shop), valid).status_code == 303
    assert "$5.00 – $500.00" in owner.get(page_path(shop)).text


def test_one_submission_marks_all_wrong_fields_of_a_link(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    wrong = {"uses": "0", "expires": "2020-01-01", "reference": "r" * 201}
    for entries, fields in (
        ({"pricing": "fixed"}, ["name", "price"]),
        ({"pricing": "open"}, ["name", "least", "most"]),
        ({"product": "undecided", **wrong}, ["product", *wrong]),
    ):
        refusal = owner.post(page_path(shop), link_form(owner, shop, **entries))
        assert refusal.status_code == 400
        assert re.findall(r'id="(\w+)-error"', refusal.text) == fields
        assert re.findall(r'id="(\w+)" autofocus', refusal.text) == fields[:1]
    item = {"name": "A tip", "price": "5.00", "currency": "USD"}
    link = shop.data("POST", "/v1/payment-links", json={"item": item})
    path = page_path(shop, link["id"])
    entries = {"name": "", "description": "", "quantity": "x", "version": "1", **wrong}
    refusal = owner.post(path, entries)
    assert re.findall(r'id="(\w+)-error"', refusal.text) == ["name", "quantity", *wrong]


def test_a_link_is_sold_by_the_chosen_pricing_at_an_amount_as_people_write_it(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for entries, item in (
        ({"pricing": "fixed", "price": "$24.90", "most": "9"}, ("24.90", None, None)),
        ({"price": "24,90 USD"}, ("24.90", None, None)),
        (
            {
                "pricing": "open",
                "least": "12,50",
                "most": "1,200.00",
                "price": "x",
                "quantity": "7",
            },
            (None, "12.50", "1200.00"),
        ),
    ):
        form = link_form(owner, shop, name="A gift", **entries)
        assert owner.post(page_path(shop), form).status_code == 303
        link = shop.data("GET", "/v1/payment-links")["items"][0]
        assert tuple(link["item"][name] for name in ("price", "minAmount", "maxAmount")) == item


def test_a_links_last_day_is_the_day_that_was_entered(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    entries = link_form(owner, shop, name="A gift", price="5", expires="2099-12-31")
    page = owner.get(owner.post(page_path(shop), entries).headers["location"]).text
    assert "<dt>Expires</dt><dd>Dec 31, 2099</dd>" in page
    (link,) = shop.data("GET", "/v1/payment-links")["items"]
    hour_earlier = {"expiresAt": link["expiresAt"] - 3_600_000}
    shop.data("PATCH", f"/v1/payment-links/{link['id']}", json=hour_earlier)
    page = owner.get(page_path(shop, link["id"])).text
    assert "<dt>Expires</dt><dd>Dec 31, 2099, 11:00\N{NARROW NO-BREAK SPACE}PM</dd>" in page


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
        refusal = owner.post(f"{product}/sessions", entries | {field: entry})
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
    response = owner.post(f"{product}/sessions", entries)
    assert response.status_code == 303
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert (session["amount"], session["quantity"], session["clientReference"]) == (
        "29.97", 3, "INV-1"
    )  # fmt: skip
    assert session["paymentMethods"] == ["CREDIT_CARD"]
    assert session["expiresAt"] - session["createdAt"] == 1_800_000
    assert "INV-1" in owner.get(response.headers["location"]).text
    matches = owner.get(f"/dashboard/{shop.id}/payments", params={"query": "INV-1"}).text
    assert session["orderId"] in matches


def test_a_link_with_more_payments_than_shown_leads_to_all_of_them(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()["id"]
    link = shop.data("POST", "/v1/payment-links", json={"productId": product})
    path = page_path(shop, link["id"])
    customer, address = Visitor(shop.api_server), urlsplit(str(link["url"])).path
    for _ in range(2):
        form_id = new_form_id(customer, f"{address}?again=1")
        entries = {"form_id": form_id, "lang": "en", "quantity": "1"}
        session = urlsplit(customer.post(address, entries).headers["location"]).path
        checkout = session.removeprefix("/checkout/")
        shop.confirm(shop.data("GET", f"/v1/checkouts/{checkout}")["orderId"])

    def shown(query: str = "") -> int:
        return len(set(re.findall(r"payments/(order_\w+)", owner.get(path + query).text)))

    assert shown() == 2
    assert "All payments of this link" not in owner.get(path).text
    monkeypatch.setattr("opentill.dashboard.links._NEWEST", 1)
    assert shown() == 1
    assert f'href="{path}?payments=all#payments"' in owner.get(path).text
    assert shown("?payments=all") == 2
    assert "All payments of this link" not in owner.get(f"{path}?payments=all").text
    monkeypatch.setattr("opentill.dashboard.links._MOST_PAYMENTS", 1)
    page = text_of(owner.get(f"{path}?payments=all"))
    assert "These are the newest 1 payments of 2." in page


def test_a_link_can_be_changed_and_lists_its_payments(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    created = owner.post(
        page_path(shop), link_form(owner, shop, name="A gift", price="5", quantity="2")
    )
    path = created.headers["location"].partition("?")[0]
    (version,) = hidden_field_values(owner.get(path), "version")
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
        refusal = owner.post(path, entries | {field: entry})
        assert refusal.status_code == 400, field
        assert f'id="{field}-error"' in refusal.text, field
        assert 'value="9"' in refusal.text or field == "uses"
    # A double click submits the form twice.
    locations = [owner.post(path, entries).headers["location"] for _ in range(2)]
    assert locations == [f"{path}?done=saved"] * 2
    conflict = owner.post(path, entries | {"name": "Something else"})
    assert conflict.status_code == 409
    assert 'value="Something else"' in conflict.text
    (link,) = shop.data("GET", "/v1/payment-links")["items"]
    assert (link["item"]["name"], link["item"]["description"]) == ("A present", "Wrapped")
    assert (link["maxQuantity"], link["maxUses"], link["clientReference"]) == (3, 9, "G-1")
    assert link["expiresAt"] > 4_000_000_000_000

    assert "There are no payments yet" in owner.get(path).text
    customer, address = Visitor(shop.api_server), urlsplit(str(link["url"])).path

    def open_session() -> str:
        form_id = new_form_id(customer, f"{address}?again=1")
        response = customer.post(address, {"form_id": form_id, "lang": "en", "quantity": "1"})
        return response.headers["location"]

    open_session()
    session = urlsplit(open_session()).path.removeprefix("/checkout/")
    order = shop.data("GET", f"/v1/checkouts/{session}")["orderId"]
    shop.confirm(order)
    payment = text_of(owner.get(f"/dashboard/{shop.id}/payments/{order}"))
    assert "Source Payment link" in payment
    assert "30 minutes to pay" in text_of(owner.get(path))
    amount = shop.read_order(order)["amount"]
    page = owner.get(path)
    assert f"Gross sales ${amount} USD Payments 1" in text_of(page)
    assert f"body={quote(str(link['url']), safe='/')}" in page.text
    assert re.search(rf"[^-] 1(?: / 9)? \${re.escape(amount)}", text_of(owner.get(page_path(shop))))
    for _ in range(2):  # the second time, the worker has recorded that the session has ended
        assert set(re.findall(r"payments/(order_\w+)", owner.get(path).text)) == {order}
        shop.api_server.run(jobs.record_ended(shop.api_server.app.db))


def test_a_link_for_one_payment_is_said_to_be_for_one(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()["id"]
    for uses, ready, hint in (
        (1, "Give it to your customer.", "it can be paid once."),
        (3, "Give it to your customers.", "it can be paid 3 times."),
        (None, "Give it to your customers.", "Send it to any number of customers"),
    ):
        body = {"productId": product} | ({} if uses is None else {"maxUses": uses})
        link = shop.data("POST", "/v1/payment-links", json=body)
        page = owner.get(f"/dashboard/{shop.id}/links/{link['id']}?done=made").text
        text = re.sub(r"[\u2068\u2069]", "", page)
        assert ready in text
        assert hint in text
        assert ("any number of customers" in text) == (uses is None)


def test_a_used_up_link_is_not_said_to_be_payable(shop: Shop) -> None:
    owner, customer = create_person(shop.api_server, shop.id, "owner"), Visitor(shop.api_server)
    body = {"productId": shop.create_product()["id"], "maxUses": 1}
    link = shop.data("POST", "/v1/payment-links", json=body)
    path, address = f"/dashboard/{shop.id}/links/{link['id']}", urlsplit(str(link["url"])).path
    assert "it can be paid once." in owner.get(path).text
    form_id = new_form_id(customer, f"{address}?again=1")
    form = {"form_id": form_id, "lang": "en", "quantity": "1"}
    session = customer.post(address, form).headers["location"]
    key = urlsplit(session).path.removeprefix("/checkout/")
    shop.confirm(shop.data("GET", f"/v1/checkouts/{key}")["orderId"])
    page = text_of(owner.get(path))
    assert "It has been used up, and takes no more payments." in page
    assert "Send it to your customer" not in page


def test_the_list_of_links_has_tabs_and_tells_links_of_one_product_apart(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()["id"]
    first, second = (
        shop.data("POST", "/v1/payment-links", json={"productId": product}) for _ in range(2)
    )
    shop.data("PATCH", f"/v1/payment-links/{first['id']}", json={"active": False})
    for tab, links in (("", [second]), ("deactivated", [first]), ("all", [second, first])):
        page = text_of(owner.get(page_path(shop), params={"tab": tab}))
        assert "Active 1 Deactivated 1 All 2" in page
        slugs = [link["url"].rpartition("/")[2][:10] for link in links]
        assert re.findall(r"…/pay/(\w+)…", page) == slugs


def test_a_deactivated_link_leads_to_activate_and_offers_no_code_to_share(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    link = shop.data("POST", "/v1/payment-links", json={"productId": shop.create_product()["id"]})
    path = f"/dashboard/{shop.id}/links/{link['id']}"
    assert f"{link['id']}.svg" in owner.get(path).text
    assert "$0.00" in text_of(owner.get(f"/dashboard/{shop.id}/links"))
    owner.post(f"{path}/switch", {"active": "off"})
    page = owner.get(f"{path}?done=off")
    assert "This link is deactivated. Nobody can open it." in text_of(page)
    assert page.text.count('role="status"') == 1  # the banner alone says what was done
    assert '<button class="button" type="submit">Activate</button>' in page.text
    assert "This link was never paid." in text_of(page)
    for text in ("data-main", f"{link['id']}.svg", "mailto:", "Send the address"):
        assert text not in page.text
    owner.post(f"{path}/switch", {"active": "on"})
    assert "The link is active again." in text_of(owner.get(f"{path}?done=on"))
