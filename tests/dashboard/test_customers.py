"""Customers are searched by their email address, and have exact totals in each currency."""

import re
from decimal import Decimal
from typing import Final

import pytest

from dashboard.pages import text_of
from opentill.orders import sums_of_customer
from opentill.orders.search import jobs as indexing
from support.api_server import Shop
from support.people import create_person
from support.spreadsheets import csv_rows

_ROW: Final = re.compile(r'<tr role="row"><td.*?</tr>', re.DOTALL)


def table_rows(html: str) -> list[str]:
    return [text_of(row) for row in _ROW.findall(html)]


def index(shop: Shop) -> None:
    """Index the search terms of pending orders."""
    shop.api_server.run(indexing.index_merchant(shop.api_server.app.db, shop.id, many=2))


def test_customers_are_listed_by_their_newest_payments_and_searched_by_a_prefix(
    shop: Shop,
) -> None:
    for number, email in enumerate(("Ada@example.com", "adam@example.org", "ada@example.com")):
        shop.create_order(customerEmail=email)
        if number == 1:
            index(shop)
    shop.create_order(customerEmail="bob@example.com")
    owner, path = (
        create_person(shop.api_server, shop.id, "owner"),
        f"/dashboard/{shop.id}/customers",
    )
    for is_indexed in (False, True):
        if is_indexed:
            index(shop)
        page = owner.get(path).text
        assert "Recent customers" in page
        emails = ["bob@example.com", "ada@example.com", "adam@example.org"]
        assert [row.split()[0] for row in table_rows(page)] == emails
        for prefix in ("ADA", " ada ", "ada", "\u2068ada\u2069"):
            page = owner.get(path, params={"email": prefix}).text
            assert [row.split()[0] for row in table_rows(page)] == emails[1:]
        redirect = owner.get(path, params={"email": "BOB@example.com"})
        assert redirect.headers["location"] == f"{path}/one?email=bob%40example.com"
        assert (
            "No customers match this name or email."
            in owner.get(path, params={"email": "9.9"}).text
        )


def test_a_customers_address_is_copied_from_its_page_without_invisible_marks(shop: Shop) -> None:
    shop.create_order(customerEmail="ada@example.com")
    index(shop)
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/customers/one", params={"email": "ada@example.com"})
    assert "<h1><bdi>ada@example.com</bdi></h1>" in page.text


def test_a_customers_page_shows_the_name_of_the_newest_payment(shop: Shop) -> None:
    shop.create_paid_order(customerEmail="ada@example.com", customerName="Ada Smith")
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/customers/one", params={"email": "ada@example.com"})
    assert "<h1><bdi>Ada Smith</bdi></h1>" in page.text
    assert '<a href="mailto:ada@example.com"><bdi>ada@example.com</bdi></a>' in page.text
    page = text_of(owner.get(f"/dashboard/{shop.id}/customers"))
    assert "Ada Smith ada@example.com" in page


def test_customers_are_sorted_by_what_they_paid_and_exported(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.api_server.set_rate("JPY", "USD", Decimal("0.01"))
    tea = shop.create_product(price="9.99")["id"]
    yen = shop.create_product(price="5000", currency="JPY")["id"]
    shop.create_paid_order(yen, customerEmail="Ada@example.com", customerName="Ada Brook")
    shop.create_paid_order(tea, customerEmail="ada@example.com", customerName="Ada Brook")
    index(shop)
    refunded = shop.create_paid_order(tea, customerEmail="bob@example.com", customerName="=Bob")
    shop.report_refund(shop.refund(refunded["id"], amount="1.00")["id"])
    for _ in range(2):
        shop.create_paid_order(tea, customerEmail="bob@example.com", customerName="=Bob")
    shop.create_order(tea, customerEmail="cyd@example.com")
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/customers"
    for _ in range(2):  # the second time, all orders are indexed
        for sort, names in (
            ("", ["=Bob", "Ada", "cyd@example.com"]),
            ("spent", ["Ada", "=Bob", "cyd@example.com"]),
            ("payments", ["=Bob", "Ada", "cyd@example.com"]),
            ("name", ["=Bob", "Ada", "cyd@example.com"]),
            ("nothing", ["=Bob", "Ada", "cyd@example.com"]),
        ):
            rows = table_rows(owner.get(path, params={"sort": sort}).text)
            assert [row.split()[0] for row in rows] == names, sort
            by_name = {row.split()[0]: row for row in rows}
            assert by_name["Ada"].endswith("2 payments 2 ¥5,000 $9.99")
            assert by_name["=Bob"].endswith("3 payments 3 $28.97")
            assert by_name["cyd@example.com"].endswith("0 payments 0 –")
        for newest in range(1, 7):  # older payments count in the totals too
            monkeypatch.setattr("opentill.dashboard.customers._NEWEST", newest)
            few = {row.split()[0]: row for row in table_rows(owner.get(path).text)}
            assert few.items() <= by_name.items(), newest
            assert len(few) == (1, 2, 2, 2, 3, 3)[newest - 1]
        monkeypatch.undo()
        response = owner.get(f"{path}.csv")
        assert 'filename="customers.csv"' in response.headers["content-disposition"]
        rows = csv_rows(response)
        assert [
            (row["email"], row["name"], row["currency"], row["payments"], row["spent"])
            for row in rows
        ] == [
            ("bob@example.com", "'=Bob", "USD", "3", "29.97"),
            ("ada@example.com", "Ada Brook", "JPY", "1", "5000.00"),
            ("ada@example.com", "Ada Brook", "USD", "1", "9.99"),
            ("cyd@example.com", "", "", "0", ""),
        ]
        assert (rows[0]["refunded"], rows[0]["net_spent"]) == ("1.00", "28.97")
        assert len(csv_rows(owner.get(f"{path}.csv", params={"email": "bob"}))) == 1
        index(shop)
    support = create_person(shop.api_server, shop.id, "support")
    assert support.get(f"{path}.csv").status_code == 403
    assert "Download as CSV" not in support.get(path).text


def test_only_the_customers_of_the_newest_payments_are_listed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.dashboard.customers._NEWEST", 2)
    for name in "abc":
        shop.create_order(customerEmail=f"{name}@example.com")
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(f"/dashboard/{shop.id}/customers").text
    assert "Customers of the newest 2 payments; the search finds all others." in page
    assert [row.split()[0] for row in table_rows(page)] == ["c@example.com", "b@example.com"]


def test_a_former_address_of_an_order_is_not_listed_as_a_customer(shop: Shop) -> None:
    order = shop.create_order(customerEmail="old@example.com")
    index(shop)
    shop.api_server.sql(
        "update orders set customer_email = 'new@example.com' where id = $1 returning id",
        order["id"],
    )
    owner, path = (
        create_person(shop.api_server, shop.id, "owner"),
        f"/dashboard/{shop.id}/customers",
    )
    for _ in range(2):  # the second time, the changed order is indexed
        assert table_rows(owner.get(path, params={"email": "old"}).text) == []
        assert len(table_rows(owner.get(path, params={"email": "new"}).text)) == 1
        not_found = owner.get(f"{path}/one", params={"email": "old@example.com"})
        assert not_found.status_code == 404
        assert "There are no payments under this email address" in not_found.text
        index(shop)


def test_a_prefix_of_too_many_addresses_shows_an_error_at_the_field(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.orders.search.service.MOST_ADDRESSES", 2)
    for name in "abc":
        shop.create_order(customerEmail=f"x{name}@example.com")
    owner, path = (
        create_person(shop.api_server, shop.id, "owner"),
        f"/dashboard/{shop.id}/customers",
    )
    for _ in range(2):  # the second time, the orders are indexed
        page = owner.get(path, params={"email": "x"}).text
        assert 'aria-invalid="true"' in page
        assert "enter more of the name" in page
        assert 'value="x"' in page
        index(shop)


def test_a_customers_totals_are_exact_in_each_currency(shop: Shop) -> None:
    shop.api_server.set_rate("JPY", "USD", Decimal("0.01"))
    tea = shop.create_product(price="9.99")["id"]
    yen = shop.create_product(price="500", currency="JPY")["id"]
    customer = {"customerEmail": "Ada@example.com"}
    refunded_order = shop.create_paid_order(tea, **customer)
    index(shop)
    shop.create_paid_order(tea, customerEmail="ada@example.com")
    shop.create_paid_order(yen, **customer)
    shop.create_order(tea, **customer)
    shop.create_paid_order(tea, customerEmail="adam@example.com")
    shop.report_refund(shop.refund(refunded_order["id"], amount="1.23")["id"])
    shop.open_dispute(shop.create_paid_order(yen, **customer)["id"])
    owner, path = (
        create_person(shop.api_server, shop.id, "owner"),
        f"/dashboard/{shop.id}/customers/one",
    )
    for _ in range(2):  # the second time, the newest orders are indexed
        page = owner.get(path, params={"email": "ada@EXAMPLE.com"}).text
        for sums in (
            "Total spent ¥1,000 JPY Refunded ¥0 Paid payments 2 Unpaid payments 0 Disputed 1",
            "Total spent $18.75 USD after refunds Refunded $1.23 Paid payments 2 Unpaid payments 1",
        ):
            assert sums in text_of(page), text_of(page)
        assert "1 to 5 of 5" in text_of(page)
        index(shop)
    sums_of_newest_orders, _ = shop.api_server.run(
        sums_of_customer(shop.api_server.app.db, shop.id, "ada@example.com", most=2)
    )
    assert [(row.currency, row.orders) for row in sums_of_newest_orders] == [("JPY", 1), ("USD", 1)]


def test_a_customers_page_shows_how_they_paid_the_last_used_method_first(shop: Shop) -> None:
    shop.create_order(customerEmail="ada@example.com")
    owner = create_person(shop.api_server, shop.id, "owner")
    path, query = f"/dashboard/{shop.id}/customers/one", {"email": "ADA@example.com"}
    assert "Payment methods used" not in owner.get(path, params=query).text
    for email, brand, last4 in (
        ("ada@example.com", "visa", "4242"),
        ("Ada@example.com", "visa", "4242"),
        ("adam@example.com", "jcb", "1111"),
        ("ada@example.com", "amex", "0005"),
    ):
        order = shop.create_paid_order(customerEmail=email)
        shop.api_server.sql(
            "update payment_attempts set card_brand = $3, card_last4 = $4"
            " where merchant_id = $1 and order_id = $2",
            shop.id, order["id"], brand, last4,
        )  # fmt: skip
    for _ in range(2):  # the second time, the newest orders are indexed
        page = text_of(owner.get(path, params=query)).replace("\N{NO-BREAK SPACE}", " ")
        methods = page.partition("Payment methods used")[2].partition("View in Payments")[0]
        used = re.findall(
            r"(American Express|Visa|Jcb|JCB) •••• (\d+) (\d payments?) · Last used", methods
        )
        assert used == [("American Express", "0005", "1 payment"), ("Visa", "4242", "2 payments")]
        index(shop)


def test_another_merchants_customer_is_not_found(shop: Shop) -> None:
    shop.api_server.create_shop().create_paid_order(customerEmail="eve@example.com")
    owner, path = (
        create_person(shop.api_server, shop.id, "owner"),
        f"/dashboard/{shop.id}/customers",
    )
    assert table_rows(owner.get(path, params={"email": "eve"}).text) == []
    assert owner.get(f"{path}/one", params={"email": "eve@example.com"}).status_code == 404
    assert owner.get(f"{path}/one").headers["location"] == path
