"""The console's pages about merchants: found among many, and one with all that staff know."""

from opentill import merchants
from opentill.merchants import Actor
from support.api_server import Shop
from support.people import person, title
from support.spreadsheets import rows_of


def test_merchants_are_found_by_a_part_of_their_name_or_their_id(shop: Shop) -> None:
    staff = person(shop.api_server, None, staff_role="support")
    now = shop.api_server.app.clock()
    made = [
        shop.api_server.tx(lambda tx, name=name: merchants.create(tx, name=name, now=now))
        for name in ("Zebra 100% Tea", "Zebra 100_Coffee")
    ]
    for text, found in (("zebra", [0, 1]), ("100%", [0]), ("0_c", [1]), ("zebra quagga", [])):
        page = staff.get("/console/merchants", params={"query": text}).text
        assert [one.id in page for one in made] == [place in found for place in (0, 1)], text
    assert "Nothing matches" in page
    who = Actor("eve", "late papers")
    shop.api_server.tx(lambda tx: merchants.change_status(tx, made[1].id, "suspended", who, now))
    for status, found in (("", [1, 1]), ("ACTIVE", [1, 0]), ("SUSPENDED", [0, 1]), ("x", [1, 1])):
        asked = {"query": "zebra", "status": status}
        page = staff.get("/console/merchants", params=asked)
        file = staff.get("/console/merchants.csv", params=asked)
        for text in (page.text, file.text):
            assert [text.count(f"<code>{one.id}<") or text.count(one.id) for one in made] == found
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    lines = rows_of(file)
    assert [(one["name"], one["status"], one["chargeOff"]) for one in lines] == [
        ("Zebra 100_Coffee", "SUSPENDED", "late papers"),
        ("Zebra 100% Tea", "ACTIVE", ""),
    ]
    assert 'href="/console/merchants.csv?query=zebra"' in page.text
    by_id = staff.get("/console/merchants", params={"query": made[0].id})
    assert by_id.headers["location"] == f"/console/merchants/{made[0].id}"


def test_one_merchant_shows_money_terms_agreement_and_members(shop: Shop) -> None:
    staff = person(shop.api_server, None, staff_role="auditor")
    person(shop.api_server, shop.id, "owner")
    shop.paid()
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
        "Days until settlement: 7 → 3",
        "Fee of a lost dispute: $15.00 → $10.00",
        "a good year",
        "No version is accepted",
        "Ada Example",
        "$9.59",  # pending
        f'href="/dashboard/{shop.id}/payments"',
    ):
        assert sentence in page.text, sentence
    assert staff.get("/console/merchants/mer_0000000000000000000000000a").status_code == 404
    there = staff.get(f"/dashboard/{shop.id}/payments").text
    assert f'href="/console/merchants/{shop.id}"' in there  # and the way back
    assert title(staff.get("/console/merchants")) == "Merchants"
