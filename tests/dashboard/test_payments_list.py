"""The list of payments: its filters, its columns, what it says when asked again, and its file."""

import re
from typing import Any, Final

from opentill import merchants
from opentill.core.ids import new_id
from support.api_server import Shop
from support.people import Visitor, person
from support.spreadsheets import rows_of

_ROW: Final = re.compile(r'<tr role="row">\s*<td.*?</tr>', re.DOTALL)
POLL: Final = {"hx-request": "true"}


class Looker:
    """Somebody who looks at the payments of a shop."""

    def __init__(self, shop: Shop, role: Any = "owner") -> None:
        """Log in."""
        self.path = f"/dashboard/{shop.id}/payments"
        self.visitor: Visitor = person(shop.api_server, shop.id, role)

    def page(self, **query: str) -> str:
        """Return the page."""
        response = self.visitor.get(self.path, params=query)
        assert response.status_code == 200, response.headers
        assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
        return response.text

    def rows(self, **query: str) -> list[str]:
        """Return the words of each row, with spaces between cells."""
        return [words(row) for row in _ROW.findall(self.page(**query))]

    def file(self, **query: str) -> list[dict[str, str]]:
        """Return the rows of the file."""
        response = self.visitor.get(f"{self.path}.csv", params=query)
        assert response.status_code == 200
        assert response.headers["content-disposition"].startswith('attachment; filename="orders_')
        return rows_of(response)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def field_error(page: str, name: str) -> str:
    """Return what is said at a field, "" for nothing."""
    found = re.search(rf'id="{name}-error">(.*?)</p>', page, re.DOTALL)
    if found is None:
        return ""
    assert re.search(rf'id="{name}"[^>]*aria-describedby="{name}-error', page)
    return words(found[1])


def test_a_filter_leaves_the_same_payments_on_the_page_and_in_the_file(shop: Shop) -> None:
    tea = shop.product(name="Tea", price="9.99")["id"]
    cup = shop.product(name="Cup", price="20")["id"]
    first = shop.paid(tea, customerEmail="Ada@example.com", metadata={"cart": "42"})
    second = shop.order(cup, customerEmail="bob@example.com", metadata={"cart": "43"})
    looker = Looker(shop)
    both = {first["id"], second["id"]}
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({}, both),
        ({"status": "PAID"}, {first["id"]}),
        ({"product": cup}, {second["id"]}),
        ({"email": "ada@EXAMPLE.com"}, {first["id"]}),
        ({"amount": "20"}, {second["id"]}),
        ({"metadata_key": "cart", "metadata_value": "42"}, {first["id"]}),
        ({"query": "bob@ex"}, {second["id"]}),
        ({"query": "43"}, {second["id"]}),
        ({"query": "9.99", "status": "PENDING"}, set()),
        ({"from": "2020-01-01", "to": "2020-01-31"}, set()),
        ({"from": "2020-01-01"}, both),
    ]
    for query, expected in cases:
        page = looker.page(**query, with_order="1")
        assert {one for one in both if f"<bdi>{one}</bdi>" in page} == expected, query
        assert {row["id"] for row in looker.file(**query)} == expected, query
    assert words(looker.page(amount="1")).count("Nothing matches.") == 1


def test_what_is_no_filter_is_said_at_its_field_and_stays_there(shop: Shop) -> None:
    shop.order()
    looker = Looker(shop)
    other = shop.api_server.shop().product()["id"]
    for name, value, sentence in (
        ("status", "GONE", "Choose one of the statuses"),
        ("amount", "9,99", "Enter an amount as 9.99"),
        ("email", "ada", "Enter the whole e-mail address"),
        ("product", other, "Enter the id of one of your products"),
        ("from", "31.1.2026", "Enter a day as 2026-01-31"),
        ("metadata_value", "x", "Enter a key"),
        ("query", "x" * 201, "Search for at most 200"),
    ):
        page = looker.page(**{name: value})
        at = "metadata_key" if name == "metadata_value" else name
        assert sentence in field_error(page, at), name
        assert name == "status" or f'value="{value}"' in page
        assert "<details" in page
        refused = looker.visitor.get(f"{looker.path}.csv", params={name: value})
        assert refused.status_code == 303, name  # and no file of everything
        assert refused.headers["location"].startswith(f"{looker.path}?{name}=")
    assert "must not be before" in field_error(
        looker.page(**{"from": "2026-02-01", "to": "2026-01-01"}), "to"
    )


def test_the_file_is_named_by_the_days_of_the_list_and_not_by_those_of_utc(shop: Shop) -> None:
    shop.api_server.tx(lambda tx: moved(tx, shop))
    looker = Looker(shop)
    for query, name in (
        ({"from": "2026-01-01", "to": "2026-01-31"}, "orders_2026-01-01_2026-01-31.csv"),
        ({"from": "2026-01-01", "to": ""}, "orders_2026-01-01_all.csv"),
        ({}, "orders_all_all.csv"),
    ):
        answer = looker.visitor.get(f"{looker.path}.csv", params=query)
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_a_form_that_was_sent_empty_filters_nothing(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    for below, query, none in (
        ("mails", {"status": "", "email": ""}, "Nothing has been mailed yet."),
        ("developers/events", {"from": "", "to": "", "type": ""}, "Nothing has happened yet."),
        ("payouts", {"from": "", "to": "", "status": ""}, "There are no payouts yet."),
        ("payments", {"with_order": "", "query": ""}, "There are no payments yet"),
    ):
        page = words(owner.get(f"/dashboard/{shop.id}/{below}", params=query).text)
        assert "Nothing matches." not in page, below
        assert none.lower() in page.lower(), below
        assert "Clear" not in page, below
    assert "with_order" in Looker(shop).page(with_order="1").partition("checked")[0]
    assert "with_order" not in Looker(shop).page(with_order="").partition("checked")[0]


def test_columns_are_chosen_in_the_address_and_times_are_the_merchants(shop: Shop, clock) -> None:
    clock(1_798_761_000_000)  # 2026-12-31T23:50 in UTC
    order = shop.paid(customerEmail="=1+1@example.com", metadata={"a": "<b>"})
    looker = Looker(shop)
    (unasked,) = looker.rows()
    assert unasked.endswith("Paid =1+1@example.com Tea Bank transfer $9.99")
    (row,) = looker.rows(with_order="1", with_metadata="1", with_net="1", with_nothing="1")
    assert row == f"{order['id']} a: &lt;b&gt; ${order['netAmount']} $9.99"
    (line,) = looker.file(with_order="1")
    assert line["customerEmail"] == "'=1+1@example.com"
    assert line["createdAt"] == "1798761000000"
    assert line["createdAtUtc"] == "2026-12-31T23:50:00.000Z"
    assert (line["createdAtLocal"], line["timeZone"]) == ("2026-12-31 23:50:00", "UTC")
    shop.api_server.tx(lambda tx: moved(tx, shop))
    assert "Jan 1, 2027, 05:35" in looker.rows()[0]
    (line,) = looker.file(status="PAID")
    assert (line["paidAtLocal"], line["timeZone"]) == ("2027-01-01 05:35:00", "Asia/Kathmandu")
    assert looker.rows(**{"from": "2027-01-01"})
    assert not looker.rows(to="2026-12-31")


async def moved(tx: Any, shop: Shop) -> None:
    """Move the merchant to Kathmandu."""
    await merchants.change(tx, shop.id, 1, who="ann", reason="moved", time_zone="Asia/Kathmandu")


def test_an_id_that_leads_to_one_payment_goes_straight_there(shop: Shop) -> None:
    order = shop.paid(metadata={"cart": "77"})
    shop.order(metadata={"cart": order["id"]})  # of which that id is a value
    refund = shop.refund(order["id"], refundNo="R-77", amount="1")
    looker = Looker(shop)
    for text in (refund["id"], "R-77", order["checkoutSessionId"], f" {refund['id']} "):
        response = looker.visitor.get(looker.path, params={"query": text})
        assert response.status_code == 303, text
        assert response.headers["location"] == f"{looker.path}/{order['id']}"
    assert len(looker.rows(query=order["id"])) == 2
    assert len(looker.rows(query="77")) == 1  # a value of the metadata is no id
    assert len(looker.rows(query=refund["id"], status="PAID")) == 1


def test_a_live_page_gets_each_change_once(shop: Shop) -> None:
    looker = Looker(shop)
    response = looker.visitor.get(looker.path)
    assert "; script-src 'self'; connect-src 'self'" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]
    assert "There are no payments yet" in response.text
    (tag,) = re.findall(r'"If-None-Match": "\\"(\w+)\\""', response.text)
    asked = {**POLL, "if-none-match": f'"{tag}"'}
    assert looker.visitor.get(looker.path, headers=asked).status_code == 304
    shop.order(customerEmail="eve@example.com")
    changed = looker.visitor.get(looker.path, headers=asked)
    assert changed.status_code == 200
    assert "eve@example.com" in changed.text
    assert "<html" not in changed.text
    again = {**POLL, "if-none-match": changed.headers["etag"]}
    assert looker.visitor.get(looker.path, headers=again).status_code == 304
    for query in ({"live": "off"}, {"page": "2"}, {"amount": "x"}):
        page = looker.visitor.get(looker.path, params=query)
        assert "hx-get" not in page.text
        assert "script-src" not in page.headers["content-security-policy"]


def test_a_live_page_keeps_no_login_alive_and_shows_nothing_after_it(shop: Shop, clock) -> None:
    looker = Looker(shop)
    start = shop.api_server.app.clock()
    for hours in (5, 10):
        clock(start + hours * 3_600_000)
        assert looker.visitor.get(looker.path, headers=POLL).status_code == 200
    clock(start + 12 * 3_600_000 + 1)
    ended = looker.visitor.get(looker.path, headers=POLL)
    assert ended.status_code == 403
    assert ended.headers["hx-refresh"] == "true"
    assert ended.content == b""
    assert looker.visitor.get(looker.path).headers["location"].startswith("/login?next=")


def test_only_who_may_export_is_offered_the_file(shop: Shop) -> None:
    assert "payments.csv" in Looker(shop, "finance").page()
    assert "payments.csv" not in Looker(shop, "support").page()


def test_another_merchants_payments_are_not_found(shop: Shop) -> None:
    other = shop.api_server.shop()
    order = other.order(customerEmail="eve@example.com")
    looker = Looker(shop)
    for text in (order["id"], "eve@example.com", "9.99"):
        assert looker.rows(query=text) == []
        assert looker.file(query=text) == []
    assert looker.visitor.get(f"/dashboard/{new_id('mer')}/payments.csv").status_code == 404
