"""The console's list of merchants and the page of a merchant."""

from opentill import merchants
from opentill.merchants import Actor
from support.api_server import Shop
from support.people import create_person, heading_of
from support.spreadsheets import csv_rows


def test_merchants_are_found_by_a_part_of_their_name_or_their_id(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="support")
    now = shop.api_server.app.clock()
    ids = [
        shop.api_server.tx(lambda tx, name=name: merchants.create(tx, name=name, now=now)).id
        for name in ("Zebra 100% Tea", "Zebra 100_Coffee")
    ]
    for query, counts in (
        ("zebra", [1, 1]),
        ("100%", [1, 0]),
        ("0_c", [0, 1]),
        ("zebra q", [0, 0]),
    ):
        page = staff.get("/console/merchants", params={"query": query}).text
        assert [page.count(f'title="{merchant_id}"') for merchant_id in ids] == counts, query
    assert "No merchants match these filters." in page
    actor = Actor("eve", "late papers")
    shop.api_server.tx(lambda tx: merchants.change_status(tx, ids[1], "suspended", actor, now))
    for status, counts in (("", [1, 1]), ("ACTIVE", [1, 0]), ("SUSPENDED", [0, 1]), ("x", [1, 1])):
        filters = {"query": "zebra", "status": status}
        page = staff.get("/console/merchants", params=filters)
        file = staff.get("/console/merchants.csv", params=filters)
        assert [page.text.count(f'title="{merchant_id}"') for merchant_id in ids] == counts
        assert [file.text.count(merchant_id) for merchant_id in ids] == counts
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert [(row["name"], row["status"], row["chargeOff"]) for row in csv_rows(file)] == [
        ("Zebra 100_Coffee", "SUSPENDED", "late papers"),
        ("Zebra 100% Tea", "ACTIVE", ""),
    ]
    assert 'href="/console/merchants.csv?query=zebra"' in page.text
    by_id = staff.get("/console/merchants", params={"query": ids[0]})
    assert by_id.headers["location"] == f"/console/merchants/{ids[0]}"


def test_the_page_of_a_merchant_shows_balances_terms_agreement_and_members(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="auditor")
    create_person(shop.api_server, shop.id, "owner")
    shop.create_paid_order()
    now = shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: merchants.change(
            tx, shop.id, now, who="eve", reason="a good year", settlement_delay_days=3,
            dispute_fee_minor=1000,
        )
    )  # fmt: skip
    page = staff.get(f"/console/merchants/{shop.id}")
    assert page.status_code == 200
    for sentence in (
        "Settlement delay (days): 7 → 3",
        "Fee for a lost dispute: $15.00 → $10.00",
        "a good year",
        "No version is accepted",
        "Ada Example",
        "$9.59",  # the pending balance
        f'href="/dashboard/{shop.id}/payments"',
    ):
        assert sentence in page.text, sentence
    assert staff.get("/console/merchants/mer_0000000000000000000000000a").status_code == 404
    dashboard = staff.get(f"/dashboard/{shop.id}/payments").text
    assert f'href="/console/merchants/{shop.id}"' in dashboard
    assert heading_of(staff.get("/console/merchants")) == "Merchants"


def test_the_statement_of_last_month_is_offered_if_the_merchant_existed_then(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    path = f"/console/merchants/{shop.id}"
    assert "/balance/statement?" not in auditor.get(path).text
    two_months_ago = server.app.clock() - 62 * 86_400_000
    server.sql("update merchants set created_at = $1 where id = $2", two_months_ago, shop.id)
    assert f"/dashboard/{shop.id}/balance/statement?" in auditor.get(path).text
