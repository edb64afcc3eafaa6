"""The pages of products: their forms keep the input and act once if submitted twice."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import pytest

from dashboard.pages import hidden_field_values, text_of
from opentill.list_counts import service as list_counts
from opentill.orders.search import product_sales
from opentill.people import MerchantRole
from opentill.products import stand_in_id
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of

TEA: Final = {
    "name": "Tea, 100 g",
    "price": "9.99",
    "currency": "USD",
    "description": "Loose leaf.\r\nGreen.",
    "image": "https://pictures.example.com/tea.jpg",
}


def path_of(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/products", *parts))


def hidden_field(response: httpx2.Response, name: str) -> dict[str, str]:
    """Return the hidden field of a page by its name."""
    (value,) = set(hidden_field_values(response, name))
    return {name: value}


def product_form(owner: Visitor, shop: Shop) -> dict[str, str]:
    return TEA | hidden_field(owner.get(path_of(shop)), "form_id")


def audit_rows(shop: Shop, *actions: str) -> list[tuple[Any, ...]]:
    rows = shop.api_server.sql(
        "select action, who, subject from audit_log"
        " where merchant_id = $1 and action = any ($2::text[]) order by number",
        shop.id, list(actions),
    )  # fmt: skip
    return [tuple(row.values()) for row in rows]


def test_submitting_a_form_concurrently_adds_one_product(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    form = product_form(owner, shop)
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: owner.post(path_of(shop), form), range(4)))
    assert {response.status_code for response in responses} == {303}
    (path,) = {response.headers["location"] for response in responses}
    (product,) = shop.data("GET", "/v1/products")["items"]
    assert path == f"{path_of(shop, product['id'])}?done=added"
    assert product["description"] == "Loose leaf.\nGreen."
    assert {name: product[name] for name in ("name", "price", "currency", "image")} == {
        name: TEA[name] for name in ("name", "price", "currency", "image")
    }
    page = owner.get(path)
    assert heading_of(page) == TEA["name"]
    assert "The product has been added." in page.text
    who = f"{owner.email} ({owner.person_id})"
    assert audit_rows(shop, "products add") == [("products add", who, product["id"])]

    refusal = owner.post(path_of(shop), form | {"name": "Cake"})  # the form was used already
    assert refusal.status_code == 422
    assert "was already sent" in refusal.text
    assert 'value="Cake"' in refusal.text
    form |= {"name": "Cake"} | hidden_field(refusal, "form_id")
    assert owner.post(path_of(shop), form).is_redirect
    assert len(shop.data("GET", "/v1/products")["items"]) == 2


@pytest.mark.parametrize(
    ("field", "entry", "error"),
    [
        ("name", " ", "Enter a name of 1 to 200 characters"),
        ("price", "nine", "Enter an amount from 0.01"),
        ("price", "€9.99", "of another currency"),
        ("price", "9.990", "may stand for thousands"),
        ("price", "0.00", "Enter an amount from 0.01"),
        ("price", "123456789", "Enter an amount from 0.01"),
        ("currency", "XXX", "Choose one of the currencies"),
        ("description", "x" * 1001, "Enter at most 1,000 characters"),
        ("image", "javascript:alert(1)", "Enter a whole address"),
        ("image", "https://me:secret@example.com/a.png", "Enter a whole address"),
    ],
)
def test_each_field_of_a_product_shows_its_error_and_keeps_its_input(
    shop: Shop, field: str, entry: str, error: str
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    form = product_form(owner, shop) | {field: entry}
    product = shop.create_product()
    before = shop.data("GET", "/v1/products")
    for path in (path_of(shop), path_of(shop, product["id"])):
        refusal = owner.post(path, form | {"version": str(product["updatedAt"])})
        assert refusal.status_code == 400
        (sheet,) = re.findall('<dialog class="sheet".*?</dialog>', refusal.text, re.DOTALL)
        # A single error is told once, at its field, which has the focus.
        assert 'role="alert"' not in refusal.text
        assert re.search(rf'id="{field}" autofocus', sheet)
        assert f'id="{field}-hint"' not in sheet  # the error stands in its place
        (paragraph,) = re.findall(rf'id="{field}-error">.*?</p>', refusal.text, re.DOTALL)
        assert error in paragraph
        assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', refusal.text)
        for name in ("name", "image"):
            if name != field:
                assert f'value="{TEA[name]}"' in refusal.text
        assert "Loose leaf.\nGreen." in refusal.text or field == "description"
    assert shop.data("GET", "/v1/products") == before


def test_one_submission_marks_all_wrong_fields_of_a_product(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()
    wrong = {"name": " ", "price": "", "description": "x" * 1001, "image": "tea.jpg"}
    form = product_form(owner, shop) | wrong | {"version": str(product["updatedAt"])}
    for path in (path_of(shop), path_of(shop, product["id"])):
        refusal = owner.post(path, form)
        assert refusal.status_code == 400
        assert re.findall(r'id="(\w+)-error"', refusal.text) == list(wrong)
        assert re.findall(r'id="(\w+)" autofocus', refusal.text) == ["name"]
        assert 'role="alert"' not in refusal.text


def test_a_price_is_entered_as_people_write_it(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for entry in ("$9.99", "9,99", "9.99 USD"):
        form = product_form(owner, shop) | {"currency": "USD", "price": entry}
        assert owner.post(path_of(shop), form).status_code == 303
        assert shop.data("GET", "/v1/products")["items"][0]["price"] == "9.99"


def test_decimals_in_a_currency_without_decimals_are_refused(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    form = product_form(owner, shop) | {"currency": "XPF", "price": "10.50"}
    assert "This currency has no decimals" in owner.post(path_of(shop), form).text
    created = owner.post(path_of(shop), form | {"price": "1050"})
    page = owner.get(created.headers["location"])
    assert "CFPF 1,050" in text_of(page)
    assert 'value="1050"' in page.text
    assert "there is no exchange rate from XPF to USD" in page.text


def test_a_stale_form_does_not_overwrite_the_product(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product(metadata={"sku": "T-1"})
    path = path_of(shop, product["id"])
    form = TEA | hidden_field(owner.get(path), "version")
    shop.data("PATCH", f"/v1/products/{product['id']}", json={"price": "8.00"})
    conflict = owner.post(path, form)
    assert conflict.status_code == 409
    assert "Somebody has changed this product" in conflict.text
    assert "$8.00" in conflict.text
    assert f'value="{TEA["image"]}"' in conflict.text
    assert shop.data("GET", f"/v1/products/{product['id']}")["price"] == "8.00"

    form |= hidden_field(conflict, "version")
    for _ in range(2):  # a double click submits the form twice
        assert owner.post(path, form).headers["location"] == f"{path}?done=saved"
    saved = shop.data("GET", f"/v1/products/{product['id']}")
    assert (saved["price"], saved["metadata"]) == ("9.99", {"sku": "T-1"})
    assert "The product is saved." in owner.get(f"{path}?done=saved").text
    ((_, _, subject),) = audit_rows(shop, "products set")
    assert subject == f"{product['id']}: name, description, image, price_minor"


def test_an_archived_product_offers_no_session(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()
    path = path_of(shop, product["id"])
    assert "Create a checkout session" in owner.get(path).text
    for _ in range(2):
        assert owner.post(f"{path}/archive").headers["location"] == f"{path}?done=archived"
    assert "Create a checkout session" not in owner.get(path).text
    assert len(audit_rows(shop, "products archive")) == 1
    assert product["id"] not in owner.get(path_of(shop), params={"tab": "active"}).text
    assert product["id"] in owner.get(path_of(shop), params={"tab": "archived"}).text


def test_an_archived_product_can_be_restored_and_sold_again(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product, shelf = shop.create_product(), page_of_active(shop, owner)
    path = path_of(shop, product["id"])
    assert f"{path}/restore" not in owner.get(path).text
    owner.post(f"{path}/archive")
    assert product["id"] not in page_of_active(shop, owner)
    assert f'action="{path}/restore"' in owner.get(path).text
    viewer = create_person(shop.api_server, shop.id, "viewer")
    assert f"{path}/restore" not in viewer.get(path).text
    assert viewer.post(f"{path}/restore").status_code in {403, 404}
    for _ in range(2):
        assert owner.post(f"{path}/restore").headers["location"] == f"{path}?done=restored"
    assert "The product is active again" in owner.get(f"{path}?done=restored").text
    assert re.findall(r"prod_\w+", page_of_active(shop, owner)) == re.findall(r"prod_\w+", shelf)
    assert len(audit_rows(shop, "products restore")) == 1
    assert shop.create_session(product["id"])["status"] == "OPEN"


def page_of_active(shop: Shop, owner: Visitor) -> str:
    page: str = owner.get(path_of(shop), params={"tab": "active"}).text
    return page


def test_a_product_that_stands_in_for_items_cannot_be_restored(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    item = {"name": "A gift", "price": "5.00", "currency": "USD"}
    shop.data("POST", "/v1/payment-links", json={"item": item})
    path = path_of(shop, stand_in_id(shop.id, "USD"))
    assert "Restore" not in owner.get(path).text
    assert owner.post(f"{path}/restore").status_code == 404


def test_products_of_the_same_name_are_told_apart_in_selects(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    prices = {"Tea": ["9.99", "9.99", "5.00"], "Cake": ["3.00"]}
    ids = [
        shop.create_product(name=name, price=price)["id"]
        for name, many in prices.items()
        for price in many
    ]
    shop.create_order(ids[0])
    tea = [f"Tea – $9.99 – …{product_id[-6:]}" for product_id in ids[:2]]
    for place, cake in (("sessions", "Cake"), ("payments", "Cake"), ("links", "Cake – $3.00")):
        page = owner.get(f"/dashboard/{shop.id}/{place}").text
        options = {
            product_id: text.translate({0x2068: None, 0x2069: None})
            for product_id, text in re.findall(r'<option value="(prod_\w+)">([^<]*)<', page)
        }
        expected = dict(zip(ids, [*tea, "Tea – $5.00", cake], strict=True))
        if place == "sessions":  # the filter follows the form, and shows prices only where needed
            assert "Cake – $3.00" in text_of(page).translate({0x2068: None, 0x2069: None})
        assert options == expected, place


def test_numbers_of_sales_and_open_sessions_are_exact_before_and_after_counting(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    tea, cake = shop.create_product()["id"], shop.create_product(name="Cake")["id"]
    refunded = shop.create_paid_order(tea)
    shop.report_refund(shop.refund(refunded["id"])["id"])
    shop.open_dispute(shop.create_paid_order(tea)["id"])
    for _ in range(3):
        shop.create_session(tea)
    shop.revoke(shop.create_order(tea)["id"])

    def read_counts() -> dict[str, list[str]]:
        """Return the numbers of paid orders and open sessions of each product."""
        page = viewer.get(path_of(shop)).text
        table_rows = re.findall(r'<tr role="row"><td.*?</tr>', page, re.DOTALL)
        return {
            re.findall(r"prod_\w+", row)[0]: re.findall(
                r'class="number(?: below)?">(?:<span.*?</span>)?([^<]*)</td>', row
            )
            for row in table_rows
        }

    expected = {cake: ["0", "0"], tea: ["2", "3"]}
    assert read_counts() == expected
    shop.api_server.run(list_counts.roll_up(shop.api_server.app.db, shop.id))
    assert read_counts() == expected
    shop.create_paid_order(cake)
    assert read_counts() == expected | {cake: ["1", "0"]}
    page = viewer.get(path_of(shop, tea)).text
    assert "Refunded" in page
    assert page.count("/sessions/cs_") == 3


def test_a_product_shows_its_gross_sales_and_for_whom_its_sessions_are(
    shop: Shop, clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tea = shop.create_product(price="9.99")["id"]
    shop.create_paid_order(tea)
    clock(shop.api_server.app.clock() + 40 * 86_400_000)
    viewer = create_person(shop.api_server, shop.id, "viewer")
    shop.create_paid_order(tea)
    shop.create_session(tea, customerEmail="ada@example.com")
    page = text_of(viewer.get(path_of(shop, tea)))
    assert "Gross sales, last 30 days $9.99 Payments, last 30 days 1" in page
    assert "Gross sales, all time $19.98 Payments, all time 2" in page
    assert "ada@example.com" in page.partition("Open sessions 1")[2]
    monkeypatch.setattr(product_sales, "MOST_SUMMED", 1)
    page = text_of(viewer.get(path_of(shop, tea)))
    assert "Gross sales, all time over $9.99 Payments, all time 2" in page


def test_the_list_of_products_has_tabs_with_counts(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    tea, cake = shop.create_product(name="Tea")["id"], shop.create_product(name="Cake")["id"]
    assert "Active 2 Archived 0 All 2" in text_of(owner.get(path_of(shop)))
    owner.post(f"{path_of(shop, cake)}/archive")
    for query, tabs, listed in (
        ({}, "Active 1 Archived 1 All 2", {tea}),
        ({"tab": "all"}, "Active 1 Archived 1 All 2", {tea, cake}),
        ({"query": "cake"}, "Active 0 Archived 1 All 1", {cake}),
        ({"query": "cake", "tab": "active"}, "Active 0 Archived 1 All 1", set()),
    ):
        page = owner.get(path_of(shop), params=query)
        assert tabs in text_of(page)
        assert set(re.findall(r"/products/(prod_\w+)\"", page.text)) == listed


def test_the_content_security_policy_allows_only_the_origins_of_shown_pictures(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    images = ("https://a.example.com/x.png", "http://b.example.com:8081/y.png")
    ids = [shop.create_product(image=image)["id"] for image in images]
    page = owner.get(path_of(shop))
    policy = page.headers["content-security-policy"]
    assert "img-src 'self' http://b.example.com:8081 https://a.example.com;" in policy
    assert policy.endswith("; script-src 'self'; connect-src 'self'")
    assert re.findall(r'<img src="(http[^"]+)"', page.text) == [images[1], images[0]]
    page = owner.get(path_of(shop, ids[0]))
    assert "img-src 'self' https://a.example.com;" in page.headers["content-security-policy"]
    assert 'referrerpolicy="no-referrer"' in page.text


def test_the_content_security_policy_stays_short_with_many_origins(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for number in range(12):
        shop.create_product(
            image=f"https://{'x' * 60}.{'y' * 60}.{'z' * 60}.n{number}.example.com/p.png"
        )
    page = owner.get(path_of(shop))
    assert len(page.headers["content-security-policy"]) < 2500
    origins = set(re.findall(r'<img src="(https://[^/]+)/', page.text))
    allowed = set(re.findall(r"https://[^ ;]+", page.headers["content-security-policy"]))
    assert 0 < len(origins) < 12
    assert origins <= allowed


def test_another_merchants_product_is_not_found(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    other_shop = shop.api_server.create_shop()
    other_id = other_shop.create_product()["id"]
    form = TEA | {"version": "1"}
    assert owner.get(path_of(shop, other_id)).status_code == 404
    for parts in ((other_id,), (other_id, "archive"), (other_id, "sessions")):
        assert owner.post(path_of(shop, *parts), form).status_code == 404
    product = other_shop.data("GET", f"/v1/products/{other_id}")
    assert (product["name"], product["status"]) == ("Tea", "ACTIVE")


def test_each_role_sees_only_the_product_forms_that_it_may_submit(shop: Shop) -> None:
    path = path_of(shop, shop.create_product()["id"])
    roles: dict[MerchantRole, set[str]] = {
        "viewer": set(), "support": {"sessions"}, "owner": {"", "archive", "sessions"},
    }  # fmt: skip
    for role, forms in roles.items():
        page = create_person(shop.api_server, shop.id, role).get(path).text
        assert set(re.findall(rf'method="post" action="{path}/?(\w*)"', page)) == forms, role


@pytest.mark.parametrize(("language", "text"), [("zh-Hans", "添加商品"), ("zh-Hant", "新增商品")])
def test_the_pages_of_products_are_translated_into_chinese(
    shop: Shop, language: str, text: str
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product = shop.create_product()["id"]
    shop.create_session(product)
    page = owner.get(path_of(shop), params={"lang": language})
    assert text in page.text
    assert "On sale" not in page.text
    page = owner.get(path_of(shop, product), params={"lang": language})
    assert "Open" not in text_of(page).replace("OpenTill", "")


def test_a_product_lists_its_links_and_says_that_archiving_stops_them(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    product, other = shop.create_product()["id"], shop.create_product()["id"]
    path = f"/dashboard/{shop.id}/products/{product}"
    assert "Active payment links that stop working" not in owner.get(path).text
    ids = [
        shop.data("POST", "/v1/payment-links", json={"productId": sold})["id"]
        for sold in (product, product, other)
    ]
    shop.data("PATCH", f"/v1/payment-links/{ids[0]}", json={"active": False})
    page = owner.get(path).text
    assert "Active payment links that stop working: 1." in page
    for link_id, is_listed in zip(ids, (True, True, False), strict=True):
        assert (f"/dashboard/{shop.id}/links/{link_id}" in page) == is_listed
