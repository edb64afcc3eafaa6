"""The search of the list of movements."""

import re

import pytest

from dashboard.pages import movement_cells
from opentill.dashboard import movement_search
from support.api_server import Shop
from support.people import Visitor, create_person


def _read(visitor: Visitor, shop: Shop, **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/balance", params=query)
    assert response.status_code == 200, response.text
    return response.text


def _tab_numbers(html: str) -> list[int]:
    """Return the numbers of rows that the tabs show."""
    tabs = html.partition('class="tabs counted')[2].partition("</nav>")[0]
    return [int(text) for text in re.findall(r"(\d+)</span></a>", tabs)]


def test_movements_are_found_by_the_words_of_their_rows(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    payout = shop.create_payout(5000)
    ada, _ = (
        shop.create_paid_order(customerEmail=f"{name}@example.com")["id"] for name in ("ada", "eve")
    )
    shop.report_refund(shop.refund(ada, amount="2.00")["id"])
    lamp = shop.create_product(name="Small greenhouse lamp", price="15.00")["id"]
    shop.create_paid_order(customerEmail="t@example.com", customerName="Ms Tove Berg")
    shop.create_paid_order(product_id=lamp, customerEmail="u@example.com")
    for text, shown in (
        (ada, ["-$2.00", "$9.59"]),
        ("ADA@example.com", ["-$2.00", "$9.59"]),
        (payout.id, ["-$50.00"]),
        (payout.reference, ["-$50.00"]),
        ("nobody@example.com", []),
        ("no such word", []),
        ("tove", ["$9.59"]),  # the beginning of a customer's name
        ("greenhouse", ["$14.40"]),  # a word of a product's name
        ("order_01m8fzwmfcemd9kxx5zk9mv2ke", []),
    ):
        page = _read(owner, shop, query=text)
        assert [row[5] for row in movement_cells(page)] == shown, text
        assert ("No movements match these filters." in page) == (not shown)
        assert _tab_numbers(page)[0] == len(shown), text
    rows = movement_cells(_read(owner, shop, query=ada, type="REFUND"))
    assert [row[5] for row in rows] == ["-$2.00"]
    newest = "These are movements of the newest 1 payments that match."
    assert newest not in _read(owner, shop, query="example")
    monkeypatch.setattr(movement_search, "MOST_ORDERS", 1)
    cut = _read(owner, shop, query="example")  # of all four customers
    assert [row[5] for row in movement_cells(cut)] == ["$14.40"]
    assert newest in cut
