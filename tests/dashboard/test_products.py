"""The pages of products: what they show, and that forms lose nothing and do nothing twice."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import pytest

from opentill.list_counts import service as list_counts
from support.api_server import Shop
from support.people import Visitor, person, title

TEA: Final = {
    "name": "Tea, 100 g",
    "price": "9.99",
    "currency": "USD",
    "description": "Loose leaf.\r\nGreen.",
    "image": "https://pictures.example.com/tea.jpg",
}


def place(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/products", *parts))


def hidden(response: httpx2.Response, name: str) -> dict[str, str]:
    """Return a hidden field of a page, as its form would send it."""
    (value,) = set(re.findall(rf'name="{name}" value="(\w+)"', response.text))
    return {name: value}


def form_of(owner: Visitor, shop: Shop) -> dict[str, str]:
    return TEA | hidden(owner.get(place(shop)), "form_id")


def words(response: httpx2.Response) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", response.text).split())


def audit(shop: Shop, *actions: str) -> list[tuple[Any, ...]]:
    rows = shop.api_server.sql(
        "select action, who, subject from audit_log"
        " where merchant_id = $1 and action = any ($2::text[]) order by number",
        shop.id, list(actions),
    )  # fmt: skip
    return [tuple(row.values()) for row in rows]


def test_a_form_that_is_sent_several_times_adds_one_product(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    form = form_of(owner, shop)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: owner.post(place(shop), form), range(4)))
    assert {one.status_code for one in made} == {303}
    (address,) = {one.headers["location"] for one in made}
    (product,) = shop.data("GET", "/v1/products")["items"]
    assert address == place(shop, product["id"])
    assert product["description"] == "Loose leaf.\nGreen."
    assert {name: product[name] for name in ("name", "price", "currency", "image")} == {
        name: TEA[name] for name in ("name", "price", "currency", "image")
    }
    assert title(owner.get(address)) == TEA["name"]
    who = f"{owner.email} ({owner.person_id})"
    assert audit(shop, "products add") == [("products add", who, product["id"])]

    other = owner.post(place(shop), form | {"name": "Cake"})  # back, and sent with another name
    assert other.status_code == 422
    assert "was sent before" in other.text
    assert 'value="Cake"' in other.text
    assert owner.post(place(shop), form | {"name": "Cake"} | hidden(other, "form_id")).is_redirect
    assert len(shop.data("GET", "/v1/products")["items"]) == 2


@pytest.mark.parametrize(
    ("field", "typed", "sentence"),
    [
        ("name", " ", "Enter a name of 1 to 200 characters"),
        ("price", "9,99", "with a point and at most two decimals"),
        ("price", "0.00", "Enter an amount from 0.01"),
        ("price", "123456789", "Enter an amount from 0.01"),
        ("currency", "XXX", "Choose one of the currencies"),
        ("description", "x" * 1001, "Enter at most 1,000 characters"),
        ("image", "javascript:alert(1)", "Enter a whole address"),
        ("image", "https://me:secret@example.com/a.png", "Enter a whole address"),
    ],
)
def test_a_field_says_what_it_accepts_and_what_was_typed_stays(
    shop: Shop, field: str, typed: str, sentence: str
) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    form = form_of(owner, shop) | {field: typed}
    product = shop.product()
    before = shop.data("GET", "/v1/products")
    for path in (place(shop), place(shop, product["id"])):
        refused = owner.post(path, form | {"version": str(product["updatedAt"])})
        assert refused.status_code == 400
        (near,) = re.findall(rf'id="{field}-error">.*?</p>', refused.text, re.DOTALL)
        assert sentence in near
        assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', refused.text)
        for name in ("name", "image"):
            if name != field:
                assert f'value="{TEA[name]}"' in refused.text
        assert "Loose leaf.\nGreen." in refused.text or field == "description"
    assert shop.data("GET", "/v1/products") == before


def test_a_currency_without_decimals_is_said_to_have_none(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    form = form_of(owner, shop) | {"currency": "XPF", "price": "10.50"}
    assert "This currency has no decimals" in owner.post(place(shop), form).text
    made = owner.post(place(shop), form | {"price": "1050"})
    page = owner.get(made.headers["location"])
    assert "1,050 XPF" in words(page)
    assert 'value="1050"' in page.text
    assert "there is no exchange rate from XPF to USD" in words(page)


def test_what_somebody_else_has_changed_is_not_overwritten_unseen(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    product = shop.product(metadata={"sku": "T-1"})
    path = place(shop, product["id"])
    form = TEA | hidden(owner.get(path), "version")
    shop.data("PATCH", f"/v1/products/{product['id']}", json={"price": "8.00"})
    late = owner.post(path, form)
    assert late.status_code == 409
    assert "Somebody has changed this product" in late.text
    assert "$8.00" in late.text
    assert f'value="{TEA["image"]}"' in late.text
    assert shop.data("GET", f"/v1/products/{product['id']}")["price"] == "8.00"

    form |= hidden(late, "version")
    for _ in range(2):  # a double click
        assert owner.post(path, form).headers["location"] == f"{path}?done=saved"
    saved = shop.data("GET", f"/v1/products/{product['id']}")
    assert (saved["price"], saved["metadata"]) == ("9.99", {"sku": "T-1"})
    assert "The product is saved." in owner.get(f"{path}?done=saved").text
    ((_, _, subject),) = audit(shop, "products set")
    assert subject == f"{product['id']}: name, description, image, price_minor"


def test_an_archived_product_offers_no_session(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    product = shop.product()
    path = place(shop, product["id"])
    assert "Open a checkout session" in owner.get(path).text
    for _ in range(2):
        assert owner.post(f"{path}/archive").headers["location"] == f"{path}?done=archived"
    assert "Open a checkout session" not in owner.get(path).text
    assert len(audit(shop, "products archive")) == 1
    assert product["id"] not in owner.get(place(shop), params={"status": "ACTIVE"}).text
    assert product["id"] in owner.get(place(shop), params={"status": "ARCHIVED"}).text


def test_sales_and_open_sessions_are_exact_at_once_and_later(shop: Shop) -> None:
    viewer = person(shop.api_server, shop.id, "viewer")
    tea, cake = shop.product()["id"], shop.product(name="Cake")["id"]
    refunded = shop.paid(tea)
    shop.end_refund(shop.refund(refunded["id"])["id"])
    shop.dispute(shop.paid(tea)["id"])
    for _ in range(3):
        shop.session(tea)
    shop.revoke(shop.order(tea)["id"])

    def shown() -> dict[str, list[str]]:
        page = viewer.get(place(shop)).text
        rows = re.findall(r'<tr role="row"><td.*?</tr>', page, re.DOTALL)
        return {
            re.findall(r"prod_\w+", row)[0]: re.findall(r'class="number">([^<]*)</td>', row)[1:]
            for row in rows
        }

    exact = {cake: ["0", "0"], tea: ["2", "3"]}
    assert shown() == exact
    shop.api_server.run(list_counts.roll_up(shop.api_server.app.db, shop.id))
    assert shown() == exact
    shop.paid(cake)
    assert shown() == exact | {cake: ["1", "0"]}
    page = viewer.get(place(shop, tea)).text
    assert "Refunded" in page
    assert page.count("/sessions/cs_") == 3


def test_pictures_are_shown_from_their_own_origins_and_nothing_else_is(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    images = ("https://a.example.com/x.png", "http://b.example.com:8081/y.png")
    made = [shop.product(image=image)["id"] for image in images]
    page = owner.get(place(shop))
    policy = page.headers["content-security-policy"]
    assert "img-src 'self' http://b.example.com:8081 https://a.example.com;" in policy
    assert "script-src" not in policy
    assert re.findall(r'<img src="(http[^"]+)"', page.text) == [images[1], images[0]]
    one = owner.get(place(shop, made[0]))
    assert "img-src 'self' https://a.example.com;" in one.headers["content-security-policy"]
    assert 'referrerpolicy="no-referrer"' in one.text


def test_many_origins_do_not_make_a_header_that_proxies_refuse(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    for number in range(12):
        shop.product(image=f"https://{'x' * 60}.{'y' * 60}.{'z' * 60}.n{number}.example.com/p.png")
    page = owner.get(place(shop))
    assert len(page.headers["content-security-policy"]) < 2500
    shown = set(re.findall(r'<img src="(https://[^/]+)/', page.text))
    allowed = set(re.findall(r"https://[^ ;]+", page.headers["content-security-policy"]))
    assert 0 < len(shown) < 12
    assert shown <= allowed


def test_another_merchant_s_product_is_not_found(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    other = shop.api_server.shop()
    theirs = other.product()["id"]
    form = TEA | {"version": "1"}
    assert owner.get(place(shop, theirs)).status_code == 404
    for parts in ((theirs,), (theirs, "archive"), (theirs, "sessions")):
        assert owner.post(place(shop, *parts), form).status_code == 404
    product = other.data("GET", f"/v1/products/{theirs}")
    assert (product["name"], product["status"]) == ("Tea", "ACTIVE")


def test_who_may_change_nothing_sees_no_form_for_it(shop: Shop) -> None:
    path = place(shop, shop.product()["id"])
    for role, forms in (("viewer", set()), ("support", {"sessions"})):
        page = person(shop.api_server, shop.id, role).get(path).text
        assert set(re.findall(rf'method="post" action="{path}/?(\w*)"', page)) == forms
    owners = person(shop.api_server, shop.id, "owner").get(path).text
    assert set(re.findall(rf'method="post" action="{path}/?(\w*)"', owners)) == {
        "", "archive", "sessions",
    }  # fmt: skip


@pytest.mark.parametrize(("language", "said"), [("zh-Hans", "添加商品"), ("zh-Hant", "新增商品")])
def test_it_speaks_chinese(shop: Shop, language: str, said: str) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    product = shop.product()["id"]
    shop.session(product)
    page = owner.get(place(shop), params={"lang": language})
    assert said in page.text
    assert "On sale" not in page.text
    one = owner.get(place(shop, product), params={"lang": language})
    assert "Open" not in words(one).replace("OpenTill", "")
