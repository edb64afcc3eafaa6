"""The balance page, its movements and statements: what is shown, and what the files hold."""

import re
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from opentill import merchants, orders
from opentill.figures import jobs
from support.api_server import Shop
from support.people import Visitor, person
from support.spreadsheets import rows_of

AT: Final = 1_798_761_000_000  # 2026-12-31T23:50 in UTC: next year in Kathmandu
ZONE: Final = ZoneInfo("Asia/Kathmandu")


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def page(visitor: Visitor, shop: Shop, below: str = "balance", **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/{below}", params=query)
    assert response.status_code == 200, response.text
    assert "unsafe" not in response.headers["content-security-policy"]
    return response.text


def rows(html: str) -> list[list[str]]:
    """Return the cells of the list."""
    table = html[html.index('<table class="list movements"') :]
    found = re.findall(r"<tr role=\"row\">(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    return [
        [words(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", one, re.DOTALL)] for one in found
    ][1:]


def file(visitor: Visitor, shop: Shop, below: str, **query: str) -> list[dict[str, str]]:
    response = visitor.get(f"/dashboard/{shop.id}/{below}", params=query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    return rows_of(response)


@pytest.fixture
def busy(shop: Shop, clock: Any) -> Shop:
    """A merchant in Kathmandu with a payment, a refund, a dispute and a payout of today."""
    server = shop.api_server
    clock(AT - 86_400_000)
    server.tx(lambda tx: merchants.change(
        tx, shop.id, AT, who="ann", reason="moved", time_zone=ZONE.key))  # fmt: skip
    shop.payout(5000)
    clock(AT)
    first, second = shop.paid(), shop.paid()
    shop.end_refund(shop.refund(first["id"], amount="2.00")["id"])
    server.tx(lambda tx: orders.settle_one(tx, shop.id, second["id"], AT, "test"))
    shop.dispute(second["id"])
    server.run(jobs.count_all(server.app.db))
    return shop


def test_every_movement_says_what_it_was_and_the_balances_after_it(busy: Shop) -> None:
    owner = person(busy.api_server, busy.id, "owner")
    html = page(owner, busy)
    seen = words(html)
    assert "those of Asia/Kathmandu" in seen
    assert "What can be paid out to your bank." in seen
    assert "What becomes available (USD)" in seen
    found = rows(html)
    entries = busy.data("GET", "/v1/balance/transactions?size=100")["items"]
    assert len(found) == len(entries)
    for row, entry in zip(found, entries, strict=True):
        amounts = [
            entry[name] for name in ("amount", "availableAfter", "pendingAfter", "frozenAfter")
        ]
        assert [cell.replace("$", "").replace(",", "") for cell in row[3:]] == amounts
    assert found[-1][0] == "Dec 31, 2026, 05:35"
    assert found[-1][1:3] == [
        "Credit by the operator bank → available",
        "Operator Recharge by the operator",
    ]
    assert found[-2][1:4] == [
        "Payout available → bank",
        f"Payout {entries[-2]['sourceId']}",
        "-$50.00",
    ]
    assert f'href="/dashboard/{busy.id}/payouts/{entries[-2]["sourceId"]}"' in html
    dispute = next(one["sourceId"] for one in entries if one["sourceType"] == "dispute")
    linked = f"/dashboard/{busy.id}/disputes/{dispute}"
    assert f'href="{linked}"' in html
    assert owner.get(linked).status_code == 200
    assert ["Refund frozen → customer", "-$2.00"] in [[row[1], row[3]] for row in found]


def test_the_list_asks_what_its_address_says_and_so_does_its_file(busy: Shop) -> None:
    owner = person(busy.api_server, busy.id, "finance")
    today = {"from": "2027-01-01", "to": "2027-01-01"}
    whole, later = rows(page(owner, busy)), rows(page(owner, busy, **today))
    assert len(later) == len(whole) - 2  # without the payout and what it was made of
    assert [row[1] for row in rows(page(owner, busy, type="PAYMENT", **today))] == [
        "Payment customer → pending"
    ] * 2
    payments = file(owner, busy, "balance.csv", type="PAYMENT", **today)
    assert [one["type"] for one in payments] == ["PAYMENT"] * 2
    assert len(file(owner, busy, "balance.csv", **today)) == len(later)
    numbers = [int(one["number"]) for one in file(owner, busy, "balance.csv")]
    assert numbers == list(range(1, len(whole) + 1))
    none = words(page(owner, busy, type="CHARGEBACK_RECOVERY"))
    assert "Nothing matches. Change or clear the filters." in none
    wrong = words(page(owner, busy, to="31.12.2026"))
    assert wrong.count("Enter a day as 2026-01-31") == 2  # at the top and at the field
    answer = owner.get(f"/dashboard/{busy.id}/balance.csv?to=soon")
    assert answer.headers["location"] == f"/dashboard/{busy.id}/balance?to=soon"


def minor(text: str) -> int:
    return int(text.replace("$", "").replace(",", "").replace(".", ""))


def test_a_statement_adds_up_on_the_page_and_in_its_file(busy: Shop) -> None:
    owner = person(busy.api_server, busy.id, "viewer")
    html = page(owner, busy, "balance/statement")  # of this month: the first of January
    seen = words(html)
    assert "From Fri, Jan 1, 2027 to Fri, Jan 1, 2027." in seen
    table = re.findall(
        r"<t[dh][^>]*>(.*?)</t[dh]>", html[html.index('class="sums"') :].split("</table>")[0]
    )[2:]
    amounts = [minor(text) for text in table[1::2]]
    assert sum(amounts[:-1]) == amounts[-1]
    assert dict(zip(table[::2], amounts, strict=True)) == {
        "Opening balance": 0, "Payments": 1998, "Refunds": -200,
        "Lost to disputes, less what was recovered": 0, "Fees, less those returned": -80,
        "Payouts, less those that came back": 0, "Credits by the operator": 0,
        "Corrections by the operator": 0, "Closing balance": 1718,
    }  # fmt: skip
    found = file(owner, busy, "balance/statement.csv")
    local = f"time {ZONE.key}"
    assert next(iter(found[0])) == local
    assert [one["row"] for one in found][:2] == ["OPENING", "MOVEMENT"]
    for one in found:
        if one["row"] == "MOVEMENT":
            there = datetime.fromtimestamp(int(one["time"]) / 1000, ZONE)
            assert one[local] == f"{there:%Y-%m-%d %H:%M:%S}" == "2027-01-01 05:35:00"
            assert one["timeUtc"] == "2026-12-31T23:50:00.000Z"
    totals = [one for one in found if one["row"] == "TOTAL"]
    for account in ("pending", "available", "frozen", "reserve"):
        moved = sum(minor(one[account]) for one in totals)
        opening, closing = found[0], found[-1]
        assert minor(opening[f"{account}After"]) + moved == minor(closing[f"{account}After"])
    assert "Payouts, less those that came back" in words(
        page(owner, busy, "balance/statement", **{"from": ""})
    )
    wrong = owner.get(f"/dashboard/{busy.id}/balance/statement?from=2027-02-01&to=2027-01-01")
    assert "The last day must not be before the first one" in words(wrong.text)
    assert "Opening balance" not in wrong.text


@pytest.mark.parametrize(
    ("zone", "day"), [("Africa/Monrovia", "1971-06-01"), ("Pacific/Kiritimati", "1975-01-01")]
)
def test_a_day_before_1980_is_refused_at_its_field(shop: Shop, zone: str, day: str) -> None:
    """Some zones' days began between two quarter hours then."""
    shop.api_server.tx(
        lambda tx: merchants.change(tx, shop.id, AT, who="ann", reason="moved", time_zone=zone)
    )
    shop.paid()
    owner = person(shop.api_server, shop.id, "owner")
    for name, given in (("from", {"from": day}), ("to", {"from": "", "to": day})):
        html = page(owner, shop, "balance/statement", **given)
        field = re.search(rf'id="{name}-error">.*?</p>', html)
        assert field is not None
        assert words(field[0]).endswith("Enter a day from 1980 on")
        assert "Opening balance" not in html
    assert "Opening balance" in page(owner, shop, "balance/statement", **{"from": "1980-01-01"})


def test_the_file_of_a_statement_has_the_days_of_the_page_that_it_is_linked_from(
    busy: Shop,
) -> None:
    owner = person(busy.api_server, busy.id, "owner")

    def linked(**days: str) -> tuple[str, list[str]]:
        """Return the name of the file behind the page's link, and the types that it has."""
        html = page(owner, busy, "balance/statement", **days)
        (link,) = re.findall(r'href="([^"]*/statement\.csv[^"]*)"', html)
        answer = owner.get(link.replace("&amp;", "&"))
        name = answer.headers["content-disposition"].partition("filename=")[2].strip('"')
        found = rows_of(answer)
        return name, [one["type"] for one in found if one["row"] == "MOVEMENT"]

    december = linked(**{"from": "2026-12-01", "to": "2026-12-31"})
    assert december == (
        "statement_2026-12-01_2026-12-31.csv", ["ADMIN_RECHARGE", "PAYOUT"]
    )  # fmt: skip
    name, today = linked()
    assert name == "statement_2027-01-01_2027-01-01.csv"
    emptied = linked(**{"from": "", "to": ""})  # the form with both days taken out: all of them
    assert emptied == ("statement_all_all.csv", december[1] + today)
    html = page(owner, busy, "balance/statement", **{"from": "", "to": ""})
    assert "Payouts, less those that came back -$50.00" in words(html)


def test_a_merchant_without_money_sees_an_empty_balance(shop: Shop) -> None:
    owner = person(shop.api_server, shop.id, "owner")
    seen = words(page(owner, shop))
    assert "Balance in USD" in seen
    assert seen.count("$0.00") == 4
    assert "No money has moved yet." in seen
    assert "No money has moved yet." in words(page(owner, shop, "balance/statement"))
    assert file(owner, shop, "balance/statement.csv") == []


@pytest.mark.parametrize("language", ["zh-Hans", "zh-Hant"])
def test_it_speaks_chinese(busy: Shop, language: str) -> None:
    owner = person(busy.api_server, busy.id, "owner")
    for below in ("balance", "balance/statement"):
        seen = words(page(owner, busy, below, lang=language))
        assert {"zh-Hans": "余额", "zh-Hant": "餘額"}[language] in seen
        assert "Payment" not in seen
