"""The search in the header finds everything of a merchant that the person may see."""

import re
from typing import Final

import pytest

from dashboard.pages import text_of
from opentill.orders import receipt_number
from opentill.orders.search import jobs as indexing
from opentill.people import MERCHANT_ROLES, MerchantRole
from support.api_server import Shop
from support.people import Visitor, create_person

_GROUP: Final = re.compile(r'<section class="search-group".*?</section>', re.DOTALL)
_HEADING: Final = re.compile(r"<h2 [^>]*>(.*?)</h2>", re.DOTALL)
HELP: Final = "Search by customer, product, amount"


def search(visitor: Visitor, shop: Shop, text: str) -> dict[str, str]:
    """Return the text of each group that a search finds, by its heading without the number."""
    response = visitor.get(f"/dashboard/{shop.id}/search", params={"q": text})
    assert response.status_code == 200, response.headers
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
    groups = {}
    for group in _GROUP.findall(response.text):
        heading = text_of(_HEADING.search(group)[1])
        groups[re.sub(r" [0-9,]+$", "", heading)] = text_of(group)
    assert groups or HELP in response.text
    return groups


def links(visitor: Visitor, shop: Shop, text: str) -> list[str]:
    """Return the addresses of results and lists that a search shows."""
    page = visitor.get(f"/dashboard/{shop.id}/search", params={"q": text}).text
    return [href for group in _GROUP.findall(page) for href in re.findall(r'href="([^"]+)"', group)]


def fill(shop: Shop) -> tuple[str, str]:
    """Create what the searches find; return the ids of the product and of the order."""
    tea = shop.create_product(name="Green tea", price="24.90")["id"]
    order = shop.create_paid_order(
        tea,
        customerEmail="ada.brook@shop.example",
        customerName="Ada Brook",
        clientReference="R-1001",
        metadata={"cart": "Kettle 7"},
    )
    shop.create_order(
        shop.create_product(name="Cup", price="1200")["id"],
        customerEmail="zoe@example.com",
    )
    return tea, order["id"]


# The searched text, and the groups that it leads to.
CASES: Final = [
    ("ada", "Customers Payments"),
    ("Brook Ada", "Customers Payments"),
    ("brook@shop", "Customers Payments"),
    ("@shop.example", "Customers Payments"),
    ("\u2068ada.brook@shop.example\u2069", "Customers Payments"),  # with marks of direction
    ("$24.90", "Payments"),
    ("24,90", "Payments"),
    ("USD 24.9", "Payments"),
    ("1 200", "Payments"),
    ("$1.200,00", "Payments"),
    ("€1,200", ""),
    ("r-1001", "Payments"),
    ("Kettle 7", "Payments"),
    ("green", "Products Payments"),
    ("refund", "Pages"),
    ("hook", "Webhook endpoints"),
    ("Webhooks", "Pages"),
    ("settings", "Pages"),
    ("nobody", ""),
]  # fmt: skip


def test_a_search_finds_customers_amounts_numbers_and_names(shop: Shop) -> None:
    fill(shop)
    shop.create_endpoint(url="https://shop.example/hooks")
    owner = create_person(shop.api_server, shop.id, "owner")
    for is_indexed in (False, True):
        if is_indexed:
            shop.api_server.run(indexing.index_merchant(shop.api_server.app.db, shop.id, many=2))
        for text, names in CASES:
            assert " ".join(search(owner, shop, text)) == names, text
    groups = search(owner, shop, "ada")
    assert "Ada Brook ada.brook@shop.example · Green tea" in groups["Payments"]
    assert "$24.90" in groups["Payments"]


def test_each_group_leads_to_its_list_with_the_same_filter(shop: Shop) -> None:
    fill(shop)
    for number in range(6):
        shop.create_product(name=f"Green tea {number}")
        shop.create_order(customerEmail=f"ada{number}@example.com")
    owner = create_person(shop.api_server, shop.id, "owner")
    root = f"/dashboard/{shop.id}"
    assert f"{root}/products?query=green" in links(owner, shop, "green")
    addresses = links(owner, shop, "ada")
    assert f"{root}/payments?query=ada" in addresses
    assert f"{root}/customers?email=ada" in addresses
    for path, text, number in (
        ("products", "green", 7),
        ("products", "Green tea 3", 1),
        ("payments", "ada", 7),
        ("links", "tea", 0),
        ("payouts", "tea", 0),
        ("developers/webhooks", "tea", 0),
    ):
        page = owner.get(f"{root}/{path}", params={"query": text}).text
        assert len(re.findall(r'<tr role="row">\s*<td', page)) == number, path
        assert number or "match these filters." in page, path


def test_the_name_of_a_product_finds_its_payments(shop: Shop) -> None:
    tea, order = fill(shop)
    other = shop.create_order(shop.create_product(name="Green cup")["id"])["id"]
    owner = create_person(shop.api_server, shop.id, "owner")
    root = f"/dashboard/{shop.id}"
    for _ in range(5):
        shop.create_order(tea)
    addresses = links(owner, shop, "green t")
    assert f"{root}/payments?product={tea}" in addresses
    assert sum("/payments/order_" in address for address in addresses) == 5
    # Several products: the newest payments of all of them.
    assert f"{root}/payments?product={tea}" not in links(owner, shop, "green")
    assert " 7 " in search(owner, shop, "green")["Payments"]
    assert f"{root}/payments?query=green" in links(owner, shop, "green")
    # That list, where a text finds payments by what they say themselves, leads to them as well.
    page = owner.get(f"{root}/payments", params={"query": "green"})
    for words in ("6 payments of Green tea", "1 payment of Green cup"):
        assert words in text_of(page)
    assert f'href="{root}/payments?product={tea}"' in page.text
    with_days = {"query": "green", "from": "2020-01-01", "to": "2020-01-02"}
    assert "6 payments" in text_of(owner.get(f"{root}/payments", params=with_days))
    addresses = links(owner, shop, "green c")
    assert f"{root}/payments/{other}" in addresses
    assert f"{root}/payments/{order}" not in addresses


def test_a_status_leads_to_its_payments(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    addresses = links(owner, shop, "refund")
    for status in ("REFUNDED", "PARTIALLY_REFUNDED", "REFUND_PENDING", "REFUND_FAILED"):
        assert f"/dashboard/{shop.id}/payments?status={status}" in addresses
    assert not any("status=" in address for address in links(owner, shop, "re"))


def test_an_id_leads_straight_to_its_page(shop: Shop) -> None:
    product_id, order_id = fill(shop)
    refund_id = shop.refund(order_id, amount="1", refundNo="R-77")["id"]
    owner = create_person(shop.api_server, shop.id, "owner")
    for text, path in (
        (order_id, f"payments/{order_id}"),
        (f" {refund_id}\u200b", f"payments/{order_id}"),
        ("R-77", f"payments/{order_id}"),
        (product_id, f"products/{product_id}"),
    ):
        response = owner.get(f"/dashboard/{shop.id}/search", params={"q": text})
        assert response.headers["location"] == f"/dashboard/{shop.id}/{path}"
    assert not search(owner, shop, "order_00000000000000000000000000")


def test_a_part_of_an_id_leads_to_its_payment_as_pages_show_it(shop: Shop) -> None:
    product_id, order_id = fill(shop)
    owner = create_person(shop.api_server, shop.id, "owner")
    number = receipt_number(order_id)  # such as 261128-9E85-0VJQ-HRFC
    day, first, second, third = number.split("-")
    for text in (
        order_id[-6:],
        f"order_…{order_id[-6:]}",
        third,
        first,
        f"{first}-{second}",
        f"{day}-{first}",
        f"{second}-{third}",
    ):
        response = owner.get(f"/dashboard/{shop.id}/search", params={"q": text})
        assert response.headers["location"] == f"/dashboard/{shop.id}/payments/{order_id}", text
    names = list(search(owner, shop, "green"))
    assert names.index("Products") < names.index("Payments")
    assert f"/dashboard/{shop.id}/products/{product_id}" in links(owner, shop, product_id[-6:])
    session = shop.create_session(product_id)["id"]
    response = owner.get(f"/dashboard/{shop.id}/search", params={"q": session})
    assert response.headers["location"] == f"/dashboard/{shop.id}/sessions/{session}"


def test_a_search_shows_only_what_the_role_may_see(shop: Shop) -> None:
    product_id, order_id = fill(shop)
    other_shop = shop.api_server.create_shop()
    shop.create_endpoint(url="https://shop.example/green")
    developer = create_person(shop.api_server, shop.id, "developer")
    finance = create_person(shop.api_server, shop.id, "finance")
    assert set(search(developer, shop, "ada")) == {"Payments"}
    assert set(search(finance, shop, "green")) == {"Payments", "Products"}
    assert set(search(developer, shop, "green")) == {"Payments", "Products", "Webhook endpoints"}
    stranger = create_person(shop.api_server, other_shop.id, "owner")
    for text in ("ada", "24.90", "green", "Kettle 7", order_id, product_id):
        assert not search(stranger, other_shop, text)
        path = f"/dashboard/{shop.id}/search"
        assert stranger.get(path, params={"q": text}).status_code == 404


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_an_id_leads_to_a_page_that_the_role_may_open_or_to_nothing(
    shop: Shop, role: MerchantRole
) -> None:
    member = create_person(shop.api_server, shop.id, role)
    product, order = shop.create_product()["id"], shop.create_paid_order()
    refund = shop.refund(order["id"], amount="1.00")
    link = shop.data("POST", "/v1/payment-links", json={"productId": product})
    dispute, payout = shop.open_dispute(order["id"]), shop.create_payout()
    event = shop.data("GET", "/v1/events")["items"][0]
    for id_ in (
        product, order["id"], order["checkoutSessionId"], refund["id"], link["id"], dispute.id,
        payout.id, shop.create_endpoint()["id"], event["id"],
    ):  # fmt: skip
        response = member.get(f"/dashboard/{shop.id}/search", params={"q": id_})
        if response.status_code == 303:
            assert member.get(response.headers["location"]).status_code == 200, id_
        else:
            assert response.status_code == 200
            assert HELP in response.text, id_


HOSTILE: Final = [
    "%", "_", "\\", "%%%", "_%\\", "' or 1=1 --", "\0", "a\0da", "<script>alert(1)</script>",
    "\ud7ff", "\u202e", "()&|!:*", "x" * 200, "9" * 200, "1,2,3,4", "\"'", "${7*7}", "{{ 7 * 7 }}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_finds_nothing_and_is_shown_as_it_is(shop: Shop, text: str) -> None:
    fill(shop)
    owner = create_person(shop.api_server, shop.id, "owner")
    groups = search(owner, shop, text)
    assert set(groups) <= ({"Payments", "Customers"} if text == "a\0da" else set())


def test_a_long_text_is_refused_and_many_customers_ask_for_more(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/search", params={"q": "x" * 201})
    assert "Enter at most 200 characters" in page.text
    assert page.status_code == 200
    assert HELP in owner.get(f"/dashboard/{shop.id}/search").text
    for number in range(201):
        shop.create_order(customerEmail=f"ada{number}@example.com")
    groups = search(owner, shop, "ada")
    assert "More than 200 customers match" in groups["Customers"]
    assert list(search(owner, shop, "ada20")) == ["Customers", "Payments"]


def test_every_page_of_a_merchant_has_the_search(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    here = f"/dashboard/{shop.id}"
    # A member of one merchant keeps the search on the pages of the own account.
    for path in (f"{here}/", f"{here}/payments", f"{here}/settings", f"{here}/search", "/security"):
        page = owner.get(path).text
        assert page.count('class="search-box" method="get"') == 1
        assert f'action="/dashboard/{shop.id}/search"' in page


def test_suggestions_are_the_first_results_of_each_group(shop: Shop) -> None:
    fill(shop)
    owner = create_person(shop.api_server, shop.id, "owner")

    def suggest(text: str) -> str:
        response = owner.get(f"/dashboard/{shop.id}/search", params={"q": text, "suggest": "1"})
        assert response.status_code == 200, response.headers
        assert "<html" not in response.text
        return str(response.text)

    page = suggest("ada")
    assert f'href="/dashboard/{shop.id}/search?q=ada"' in page
    assert f'href="/dashboard/{shop.id}/customers/one?email=ada.brook%40shop.example"' in page
    text = text_of(page)
    customers, payments = text.split("Payments Ada Brook ")
    assert re.fullmatch(r"Customers Ada Brook ada\.brook@shop\.example \w+.* ", customers)
    assert re.match(r"ada\.brook@shop\.example · Green tea \$24\.90 \w+ .* Paid ", payments)
    assert text.endswith("Results: 2")
    assert "Nothing matches" in suggest("nobody")
    for _ in range(4):
        shop.create_order(customerEmail="zoe@example.com")
    assert suggest("zoe").count("payments/order_") == 3
    viewer = create_person(shop.api_server, shop.api_server.create_shop().id, "owner")
    path = f"/dashboard/{shop.id}/search"
    assert viewer.get(path, params={"q": "ada", "suggest": "1"}).status_code == 404


def test_a_search_without_results_has_examples_that_find_payments(shop: Shop) -> None:
    shop.create_paid_order(customerEmail="ada@example.com")
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/search"
    page = owner.get(path, params={"q": "nobody"}).text
    (line,) = re.findall(r"Examples from your newest payments:(.*?)</p>", page, re.DOTALL)
    examples = [text_of(text) for text in re.findall(r"<a [^>]*>(.*?)</a>", line)]
    assert examples == ["ada@example.com", "$9.99"]
    for text in examples:
        assert "Payments" in search(owner, shop, text), text
    assert f'href="/dashboard/{shop.id}/payments">See all payments' in page
    assert f'href="{path}">Clear the search' in page
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(path, params={"q": "nobody"}).text
    assert "ada@example.com" not in page
    empty_shop = shop.api_server.create_shop()
    newcomer = create_person(shop.api_server, empty_shop.id, "owner")
    page = newcomer.get(f"/dashboard/{empty_shop.id}/search", params={"q": "nobody"}).text
    assert "Examples" not in page


def test_the_search_of_the_header_says_what_it_finds(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/products").text
    (hint,) = re.findall(r'<p class="suggestions search-hint small" id="q-hint">([^<]*)</p>', page)
    for word in ("email", "amount", "last four digits", "ID"):
        assert word in hint
    assert re.search(r'<input id="q"[^>]* aria-describedby="q-hint"', page)


def test_pages_are_found_by_what_one_does_there(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    home = f"/dashboard/{shop.id}"
    for text, path in (
        ("invite", "/team?sheet=invite"),
        ("create", "/links?sheet=add"),
        ("logo", "/settings/branding"),
        ("tax", "/settings"),
        ("bank account", "/payouts/account"),
        ("report", "/balance/statement"),
        ("unpaid", "/sessions"),
    ):
        assert f"{home}{path}" in links(owner, shop, text), text
    # A title comes before the words of other pages.
    assert links(owner, shop, "invite")[0] == f"{home}/team?sheet=invite"
    # Failed refunds need work, so their list comes first.
    assert links(owner, shop, "refund")[0].endswith("status=REFUND_FAILED")
    viewer = create_person(shop.api_server, shop.id, "viewer")
    assert links(viewer, shop, "create") == []
