"""The pages of checkout sessions: opening, filtering and ending them."""

import re
from decimal import Decimal
from typing import Final

import httpx2

from dashboard.pages import new_form_id, text_of
from support.api_server import ApiServer, Shop
from support.people import Visitor, create_person

DAY: Final = 86_400_000


def path_of(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}", *parts))


def session_form(visitor: Visitor, path: str, **entries: str) -> dict[str, str]:
    """Return the values of the form that opens a session for a product."""
    return {"form_id": new_form_id(visitor, path), "email": "", "success": ""} | entries


def payment_url(page: httpx2.Response) -> str:
    """Return the URL of the payment page that a session's page shows."""
    (link,) = re.findall(r'readonly value="([^"]+)"', page.text)
    return link


def test_submitting_a_form_twice_opens_one_session_that_can_be_paid(shop: Shop) -> None:
    support = create_person(shop.api_server, shop.id, "support")
    product = shop.create_product()["id"]
    path = path_of(shop, "products", product)
    form = session_form(
        support, path, email="Ada@example.com", success="https://shop.example.com/ok"
    )
    # A double click submits the form twice.
    responses = [support.post(f"{path}/sessions", form) for _ in range(2)]
    assert [response.status_code for response in responses] == [303, 303]
    session_path = responses[0].headers["location"]
    assert responses[1].headers["location"] == session_path
    page = support.get(session_path)
    assert "The session is open." in page.text
    url = payment_url(page)
    assert 'value="Ada@example.com"' in Visitor(shop.api_server).get(url).text
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert session["url"] == url
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'sessions open'",
        shop.id,
    )
    who = f"{support.email} ({support.person_id})"
    assert rows == [{"who": who, "subject": f"{session['orderId']}: {product}"}]
    assert support.post(f"{path}/sessions", form | {"email": ""}).status_code == 422
    assert shop.data("GET", "/v1/checkouts")["pagination"]["total"] == 1


def test_a_session_is_opened_on_the_list_for_a_chosen_product(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    tea, path = shop.create_product()["id"], path_of(shop, "sessions")
    form = session_form(owner, path, sold=tea, methods_shown="yes", reference="INV-7")
    page = owner.get(path).text
    methods = re.findall(r'name="(method_\w+)" value="yes" checked', page)
    assert len(methods) > 1
    # Every method is selected at first: such a session offers all that there will be.
    response = owner.post(path, form | dict.fromkeys(methods, "yes"))
    assert response.status_code == 303
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert (session["productId"], session["paymentMethods"]) == (tea, None)
    form |= {"form_id": new_form_id(owner, path)}
    assert owner.post(path, form | {methods[0]: "yes"}).status_code == 303
    (session, _) = shop.data("GET", "/v1/checkouts")["items"]
    assert session["paymentMethods"] == [methods[0].removeprefix("method_")]


def test_a_session_on_the_list_needs_a_product_and_a_method(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    tea, path = shop.create_product()["id"], path_of(shop, "sessions")
    form = session_form(owner, path, sold=tea, methods_shown="yes", reference="INV-7")
    for entries, field, error in (
        ({}, "methods", "Select at least one of the payment methods"),
        ({"sold": ""}, "sold", "Choose one of your products"),
        ({"sold": f"{tea[:-1]}{'0' if tea[-1] != '0' else '1'}"}, "sold", "Choose one of your"),
    ):
        refusal = owner.post(path, form | entries)
        assert refusal.status_code == 400
        assert error in refusal.text.partition(f'id="{field}-error"')[2]
        assert 'value="INV-7"' in refusal.text
    assert shop.data("GET", "/v1/checkouts")["items"] == []


def test_each_field_of_a_session_shows_its_error_and_keeps_its_input(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "products", shop.create_product()["id"])
    form = session_form(owner, path, email="ada@example.com", success="https://shop.example.com/ok")
    for field, entry, error in (
        ("email", "nobody", "Enter an email address"),
        ("success", "shop.example.com", "Enter a whole address"),
    ):
        refusal = owner.post(f"{path}/sessions", form | {field: entry})
        assert refusal.status_code == 400
        assert error in refusal.text.partition(f'id="{field}-error"')[2]
        for name, value in (form | {field: entry}).items():
            assert name == "form_id" or f'value="{value}"' in refusal.text
    assert shop.data("GET", "/v1/checkouts")["items"] == []


def test_one_submission_marks_all_wrong_fields_of_a_session(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "sessions")
    wrong = {"quantity": "0", "email": "nobody", "success": "thanks", "locale": "xx"}
    for entries, fields in (
        ({"sold": "", "methods_shown": "yes"}, ["sold", *wrong, "methods"]),
        ({"sold": "item", "currency": "USD"}, ["name", "price", *wrong]),
        ({"sold": "item", "name": "Cake", "price": "5", "currency": "x"}, ["currency", *wrong]),
    ):
        refusal = owner.post(path, session_form(owner, path, **wrong, **entries))
        assert refusal.status_code == 400
        assert re.findall(r'id="(\w+)-error"', refusal.text) == fields
        assert re.findall(r'id="(\w+)" autofocus', refusal.text) == fields[:1]
    assert shop.data("GET", "/v1/checkouts")["items"] == []


def test_a_session_sells_an_item_without_a_product(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "sessions")
    item = {"sold": "item", "name": "Birthday cake", "price": "$24.90", "currency": "USD"}
    response = owner.post(path, session_form(owner, path, **item, quantity="2"))
    assert response.status_code == 303
    assert "Birthday cake" in owner.get(response.headers["location"]).text
    (session,) = shop.data("GET", "/v1/checkouts")["items"]
    assert (session["amount"], session["quantity"], session["currency"]) == ("49.80", 2, "USD")


def test_a_product_that_cannot_be_sold_shows_the_reason(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    server = shop.api_server
    path = path_of(shop, "products", shop.create_product(currency="VUV", price="1")["id"])
    form = session_form(owner, path, email="ada@example.com")
    refusal = owner.post(f"{path}/sessions", form)
    assert "There is no exchange rate for the currency of this product" in refusal.text
    assert 'value="ada@example.com"' in refusal.text
    server.set_rate("VUV", "USD", Decimal("0.001"))
    refusal = owner.post(f"{path}/sessions", form)
    assert "this price is worth too little or too much" in refusal.text
    archived = shop.create_product()["id"]
    path = path_of(shop, "products", archived)
    form = session_form(owner, path)
    shop.call("DELETE", f"/v1/products/{archived}")
    refusal = owner.post(f"{path}/sessions", form)
    assert refusal.status_code == 400
    assert "This product is archived" in refusal.text


def test_sessions_opened_on_the_page_count_towards_the_rate_limit(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = path_of(shop, "products", shop.create_product()["id"])
    with shop.api_server.limited(limit_checkouts_per_minute=1):
        assert owner.post(f"{path}/sessions", session_form(owner, path)).status_code == 303
        refusal = owner.post(f"{path}/sessions", session_form(owner, path, email="ada@example.com"))
    assert refusal.status_code == 429
    assert "Too many sessions were opened within a minute" in refusal.text
    assert 'value="ada@example.com"' in refusal.text


def test_sessions_are_filtered_by_status_product_email_and_day(shop: Shop, clock) -> None:
    tea, cake = shop.create_product()["id"], shop.create_product(name="Cake")["id"]
    now = shop.api_server.app.clock()
    open_id = shop.create_session(tea, customerEmail="ada@example.com")["id"]
    ended_id = shop.create_session(cake)["id"]
    shop.data("POST", f"/v1/checkouts/{ended_id}/expire")
    paid_id = shop.create_paid_order(cake, customerEmail="bob@example.com")["checkoutSessionId"]
    clock(now + 3 * DAY)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    newest_id = shop.create_session(tea)["id"]

    def list_ids(**query: str) -> set[str]:
        page = viewer.get(path_of(shop, "sessions"), params=query)
        assert page.status_code == 200
        return set(re.findall(r"/sessions/(cs_\w+)", page.text))

    assert list_ids() == {open_id, ended_id, paid_id, newest_id}
    tabs = "All 4 Open 2 Complete 1 Expired 0 Declined 0 Canceled 1"
    assert tabs in text_of(viewer.get(path_of(shop, "sessions")))
    assert list_ids(tab="OPEN") == {open_id, newest_id}
    assert list_ids(tab="COMPLETE") == {paid_id}
    assert list_ids(tab="CANCELED", product=cake) == {ended_id}
    assert list_ids(tab="EXPIRED") == list_ids(tab="DECLINED") == set()
    assert list_ids(product=tea) == {open_id, newest_id}
    assert list_ids(email="ADA@example.com") == {open_id}
    assert list_ids(email="bob@example.com", tab="OPEN") == set()
    assert list_ids(email="bob") == list_ids(email="bob", tab="COMPLETE") == {paid_id}
    assert list_ids(email="nobody") == set()
    page = viewer.get(path_of(shop, "sessions")).text
    (row,) = [row for row in page.split("<tr role") if newest_id in row]
    day = re.findall(r'<time datetime="([\d-]+)T', row)[0]
    assert list_ids(**{"from": day}) == {newest_id}
    page = viewer.get(
        path_of(shop, "sessions"), params={"email": "bob", "product": "prod_x", "from": "soon"}
    ).text
    for field in ("product", "from"):
        assert f'id="{field}-error"' in page
    assert 'value="bob"' in page


def test_an_ended_session_cannot_be_paid(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    session = shop.create_session()
    path = path_of(shop, "sessions", session["id"])
    url = payment_url(owner.get(path))
    for _ in range(2):
        assert owner.post(f"{path}/end").headers["location"] == f"{path}?done=ended"
    page = owner.get(f"{path}?done=ended")
    assert "Nobody can pay it any more." in page.text
    assert url not in page.text
    assert "expired" in Visitor(shop.api_server).get(url).text
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
    (closed_event,) = shop.api_server.sql(
        "select body from events where merchant_id = $1 and type = 'order.closed'", shop.id
    )
    assert owner.email not in str(closed_event["body"])


def test_a_paid_session_cannot_be_ended(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    path = path_of(shop, "sessions", order["checkoutSessionId"])
    refusal = owner.post(f"{path}/end")
    assert refusal.status_code == 409
    assert "This session is paid already" in refusal.text
    assert shop.read_order(order["id"])["status"] == "PAID"


def test_a_complete_session_says_who_paid_what(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order(customerEmail="ada@example.com")
    page = owner.get(path_of(shop, "sessions", order["checkoutSessionId"]))
    paid = text_of(page).translate({0x2068: None, 0x2069: None})
    assert "ada@example.com paid $9.99" in paid
    assert "Payment method Bank transfer" in paid
    for path in (f"payments/{order['id']}", "customers/one?email=ada%40example.com"):
        assert f'href="{path_of(shop, path)}"' in page.text
    session = shop.create_session()
    assert "paid $9.99" not in text_of(owner.get(path_of(shop, "sessions", session["id"])))


def test_another_merchants_session_is_not_found(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    other_shop = shop.api_server.create_shop()
    other_id = other_shop.create_session()["id"]
    path = path_of(shop, "sessions", other_id)
    assert owner.get(path).status_code == owner.post(f"{path}/end").status_code == 404
    assert other_shop.data("GET", f"/v1/checkouts/{other_id}")["status"] == "OPEN"
    product = other_shop.data("GET", "/v1/products")["items"][0]["id"]
    page = owner.get(path_of(shop, "sessions"), params={"product": product})
    assert "Choose one of your products" in page.text
    assert other_id not in page.text


def test_the_first_tasks_of_a_new_merchant_link_to_their_pages(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    owner = create_person(api_server, shop.id, "owner")

    def task_links() -> set[str]:
        home = owner.get(path_of(shop, "")).text
        ways = re.findall(r'<ol class="start">.*?</ol>', home, re.DOTALL)
        assert len(ways) == 2  # with links, and with the API
        return {href for tasks in ways for href in re.findall(r'href="([^"]+)"', tasks)}

    assert f"{path_of(shop, 'products')}?sheet=add" in task_links()
    product = shop.create_product()["id"]
    assert f"{path_of(shop, 'products', product)}?sheet=open" in task_links()
    shop.create_session(product)
    assert (
        'Create a checkout session</a> <span class="small">(done)'
        in owner.get(path_of(shop, "")).text
    )
    for path in task_links():
        assert owner.get(path).status_code == 200
    support = create_person(api_server, shop.id, "support")
    assert "API key" not in support.get(path_of(shop, "")).text


def test_what_is_sold_without_a_product_has_no_link_to_one(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    item = {"name": "Basket 17", "price": "12.00", "currency": "USD"}
    cart = shop.data("POST", "/v1/checkouts", json={"item": item})
    product = shop.create_product(name="Teapot")["id"]
    for session, has_link in ((cart, False), (shop.create_session(product), True)):
        details = shop.data("GET", f"/v1/checkouts/{session['id']}")
        for path in (f"sessions/{session['id']}", f"payments/{details['orderId']}"):
            page = owner.get(f"/dashboard/{shop.id}/{path}").text
            assert ("Teapot" if has_link else "Basket 17") in page
            assert (f"/dashboard/{shop.id}/products/prod_" in page) == has_link, path


def test_a_checkout_without_a_product_is_told_of_the_item(shop: Shop) -> None:
    refusal = shop.post("/v1/checkouts", {})
    assert refusal.status_code == 400
    assert "productId is required: the id of one of your active products, or else an item" in (
        refusal.text
    )
