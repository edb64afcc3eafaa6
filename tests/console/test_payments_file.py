"""The file of payments of all merchants, or of a chosen one, with the filters of the list."""

import csv
import io
from functools import partial
from typing import Final

import httpx2

from opentill import orders
from support import world
from support.api_server import Shop
from support.people import Visitor, create_person

PATH: Final = "/console/payments.csv"


def rows_of(response: httpx2.Response) -> dict[str, dict[str, str]]:
    """Return the rows of a file by the ids of their payments."""
    assert response.status_code == 200, response.text
    rows = csv.DictReader(io.StringIO(response.text.removeprefix("\ufeff")))
    return {row["id"]: row for row in rows}


def export(visitor: Visitor, **filters: str) -> dict[str, dict[str, str]]:
    # Each merchant is read by statements of its own, and other tests have added thousands of them.
    return rows_of(visitor.get(PATH, params=filters, timeout=120))


def test_the_file_has_the_payments_of_all_merchants_with_their_customers(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    paid, unpaid = shop.create_order(), other_shop.create_order()
    stored = shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=paid["id"]))
    shop.api_server.tx(lambda tx: world.pay_order(tx, stored))
    finance = create_person(shop.api_server, None, staff_role="finance")
    rows = export(finance)
    assert rows[paid["id"]]["merchantId"] == shop.id
    assert rows[paid["id"]]["customerEmail"] == "ann@example.com"
    assert (rows[paid["id"]]["amount"], rows[paid["id"]]["currency"]) == (
        paid["amount"],
        paid["currency"],
    )
    assert rows[paid["id"]]["paidAt"]
    assert rows[unpaid["id"]]["merchantId"] == other_shop.id
    assert rows[unpaid["id"]]["paidAt"] == ""
    assert unpaid["id"] not in export(finance, status="PAID")
    assert paid["id"] not in export(finance, to="2001-01-01")
    assert set(export(finance, merchant=shop.id)) == {paid["id"]}
    assert set(export(finance, merchant=shop.id, query="ann@example.com")) == {paid["id"]}
    assert export(finance, merchant=shop.id, query="nobody@example.com") == {}
    assert set(export(finance, merchant=shop.id, status="PAID")) == {paid["id"]}
    assert export(finance, merchant=shop.id, status="FAILED") == {}


def test_a_file_has_more_payments_than_one_statement_reads(shop: Shop, monkeypatch) -> None:
    monkeypatch.setattr("opentill.orders.export.service._READ", 2)
    ids = {shop.create_order()["id"] for _ in range(5)}
    finance = create_person(shop.api_server, None, staff_role="finance")
    assert set(export(finance, merchant=shop.id)) == ids


def test_each_file_is_in_the_audit_log_and_a_filter_with_an_error_makes_none(shop: Shop) -> None:
    shop.create_order()
    finance = create_person(shop.api_server, None, staff_role="finance")
    for filters in (
        {"merchant": "nobody of this name"},
        {"query": "ann@example.com"},  # a search at all merchants finds just the newest matches
        {"from": "tomorrow"},
    ):
        response = finance.get(PATH, params=filters)
        assert response.headers["location"].startswith("/console/payments?"), filters
    export(finance)
    export(finance, status="PAID", merchant=shop.id)
    rows = shop.api_server.sql(
        "select merchant_id, subject from audit_log"
        " where action = 'payments export' and who = $1 order by number",
        finance.audit_name,
    )
    assert [(row["merchant_id"], row["subject"]) for row in rows] == [
        ("", ""),
        (shop.id, f"merchant={shop.id}&status=PAID"),
    ]


def test_only_staff_who_may_export_get_the_file(shop: Shop) -> None:
    shop.create_order()
    for role, is_allowed in (("admin", True), ("finance", True), ("support", False)):
        visitor = create_person(shop.api_server, None, staff_role=role)  # type: ignore[arg-type]
        assert (visitor.get(PATH).status_code == 200) == is_allowed, role
        assert ('href="/console/payments.csv"' in visitor.get("/console/payments").text) == (
            is_allowed
        ), role
