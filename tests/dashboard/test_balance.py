"""The balance, its movements and statements, as pages and as exports."""

import re
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from dashboard.pages import movement_cells, text_of
from opentill import merchants, orders, payouts
from opentill.figures import jobs
from support.api_server import Shop
from support.pdf_streams import streams_of
from support.people import Visitor, create_person
from support.spreadsheets import csv_rows

NOW: Final = 1_798_761_000_000  # 2026-12-31T23:50Z, which is in 2027 in Kathmandu
TRANSFERS: Final = {"Settlement", "Held for refund", "Held for dispute", "Released"}
ZONE: Final = ZoneInfo("Asia/Kathmandu")


def read_page(visitor: Visitor, shop: Shop, path: str = "balance", **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/{path}", params=query)
    assert response.status_code == 200, response.text
    assert "unsafe" not in response.headers["content-security-policy"]
    return response.text


def export(visitor: Visitor, shop: Shop, path: str, **query: str) -> list[dict[str, str]]:
    """Return the rows of an exported CSV file."""
    response = visitor.get(f"/dashboard/{shop.id}/{path}", params=query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    return csv_rows(response)


@pytest.fixture
def busy_shop(shop: Shop, clock: Any) -> Shop:
    """A merchant in Kathmandu with a payout of yesterday, and payments, a refund and a dispute."""
    server = shop.api_server
    created = int(datetime(2026, 11, 30, tzinfo=ZONE).timestamp() * 1000)
    server.sql("update merchants set created_at = $2 where id = $1", shop.id, created)
    clock(NOW - 86_400_000)
    server.tx(lambda tx: merchants.change(
        tx, shop.id, NOW, who="ann", reason="moved", time_zone=ZONE.key))  # fmt: skip
    shop.create_payout(5000)
    clock(NOW)
    refunded_order, disputed_order = shop.create_paid_order(), shop.create_paid_order()
    shop.report_refund(shop.refund(refunded_order["id"], amount="2.00")["id"])
    server.tx(lambda tx: orders.settle_one(tx, shop.id, disputed_order["id"], NOW, "test"))
    shop.open_dispute(disputed_order["id"])
    server.run(jobs.count_all(server.app.db))
    return shop


def test_every_movement_shows_its_type_and_cause_and_the_balances_after_it(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    html = read_page(owner, busy_shop, tab="all")
    text = text_of(html)
    assert "Times are in Asia/Kathmandu" in text
    assert "There is no money to pay out now." in text
    assert f"1 to {len(movement_cells(html))} of {len(movement_cells(html))}" in text
    assert "What becomes available (USD)" in text
    movements = movement_cells(html)
    entries = busy_shop.data("GET", "/v1/balance/transactions?size=100")["items"]
    fields = {"Available": "availableAfter", "Pending": "pendingAfter", "hold": "frozenAfter"}
    changed: list[int] = []
    newest_first = iter(entries)
    fees = 0
    for row in movements:
        entry = next(newest_first)
        amount, fee, net, balances = [cell.replace("$", "").replace(",", "") for cell in row[3:]]
        pairs = balances.replace("On hold", "hold").split()
        assert pairs[1::2] == [entry[fields[name]] for name in pairs[::2]]
        changed.append(len(pairs) // 2)
        if row[1] == "Payment":  # a payment and its fee are one row
            assert (entry["type"], entry["amount"]) == ("FEE", fee)
            entry = next(newest_first)
            fees += 1
            assert to_minor(net) == to_minor(amount) + to_minor(fee)
        elif row[1] in TRANSFERS:  # the merchant has as much as before
            assert (fee, net, amount) == ("–", "–", entry["amount"].removeprefix("-"))
            continue
        else:
            assert (fee, net) == ("–", amount)
        assert amount == entry["amount"]
    assert fees == 2
    assert list(newest_first) == []
    assert set(changed) == {1, 2}  # only the accounts that a movement changed are shown
    assert movements[-1][:3] == [
        "5:35 AM",
        "Credit by the operator",
        "Operator Recharge by the operator",
    ]
    days = re.findall(r'<tr class="day" role="row"><th.*?>(.*?)</th>', html)
    assert days == ["Jan 1", "Dec 31, 2026"]
    assert movements[-2][1:4] == [
        "Payout",
        f"To your bank account {entries[-2]['sourceId']}",
        "-$50.00",
    ]
    assert f'href="/dashboard/{busy_shop.id}/payouts/{entries[-2]["sourceId"]}"' in html
    dispute = next(entry["sourceId"] for entry in entries if entry["sourceType"] == "dispute")
    path = f"/dashboard/{busy_shop.id}/disputes/{dispute}"
    assert f'href="{path}"' in html
    assert owner.get(path).status_code == 200
    assert ["Refund", "-$2.00"] in [[row[1], row[3]] for row in movements]


def test_the_list_of_movements_and_its_export_have_the_same_filters(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "finance")
    today = {"from": "2027-01-01", "to": "2027-01-01"}
    all_rows, todays_rows = (
        movement_cells(read_page(owner, busy_shop, tab="all")),
        movement_cells(read_page(owner, busy_shop, tab="all", **today)),
    )
    assert len(todays_rows) == len(all_rows) - 2  # a recharge and a payout were made yesterday
    assert [
        row[1] for row in movement_cells(read_page(owner, busy_shop, type="PAYMENT", **today))
    ] == ["Payment"] * 2
    payment_cells = movement_cells(read_page(owner, busy_shop, type="PAYMENT"))
    assert [row[3:6] for row in payment_cells] == [["$9.99", "-$0.40", "$9.59"]] * 2
    payments = export(owner, busy_shop, "balance.csv", type="PAYMENT", **today)
    assert [row["type"] for row in payments] == ["PAYMENT"] * 2
    fees = 2  # each is in the row of its payment
    assert (
        len(export(owner, busy_shop, "balance.csv", tab="all", **today)) == len(todays_rows) + fees
    )
    numbers = [int(row["number"]) for row in export(owner, busy_shop, "balance.csv", tab="all")]
    assert numbers == list(range(1, len(all_rows) + fees + 1))
    money = [row for row in todays_rows if row[1] not in TRANSFERS]
    assert len(money) < len(todays_rows)
    page = read_page(owner, busy_shop, **today)
    # Balances are in the list of all movements alone, where no filter leaves out a change of them.
    assert movement_cells(page) == [row[:6] for row in money]
    assert ["Balance after" in read_page(owner, busy_shop, **query) for query in (
        {"tab": "all"}, {}, {"tab": "all", **today}, {"tab": "all", "type": "PAYMENT"},
    )] == [True, False, False, False]  # fmt: skip
    assert f"Money in and out {len(money)} All movements {len(todays_rows)}" in text_of(page)
    file = export(owner, busy_shop, "balance.csv", **today)
    assert len(file) == len(money) + fees
    for kind, tabs in (
        ("PAYMENT", "Money in and out 2 All movements 2"),
        ("SETTLEMENT", "Money in and out 0 All movements 1"),
    ):
        listed = read_page(owner, busy_shop, type=kind, **today)
        assert tabs in text_of(listed)
        assert f"tab=all&amp;type={kind}" in listed or f"type={kind}&amp;tab=all" in listed
    empty_list = text_of(read_page(owner, busy_shop, type="CHARGEBACK_RECOVERY"))
    assert "No movements match these filters." in empty_list
    wrong_day = text_of(read_page(owner, busy_shop, to="31.12.2026"))
    assert wrong_day.count("Enter a day as 2026-01-31") == 1  # only at the field
    response = owner.get(f"/dashboard/{busy_shop.id}/balance.csv?to=soon")
    assert response.headers["location"] == f"/dashboard/{busy_shop.id}/balance?to=soon"


def test_no_payment_is_parted_from_its_fee_by_the_end_of_a_page(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    for _ in range(3):
        shop.create_paid_order()
    shop.api_server.run(jobs.count_all(shop.api_server.app.db))
    monkeypatch.setattr("opentill.portal.lists.SIZE", 2)
    pages = [movement_cells(read_page(owner, shop, page=str(number))) for number in (1, 2)]
    rows = [row[1:2] + row[3:6] for page in pages for row in page]
    assert rows == [["Payment", "$9.99", "-$0.40", "$9.59"]] * 3
    assert [len(page) for page in pages] == [2, 1]
    assert "3 to 3 of 3" in text_of(read_page(owner, shop, page="2"))


def test_the_filter_of_movements_offers_the_types_that_the_merchant_has(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    html = read_page(owner, busy_shop, tab="all")
    options = html.partition('<select id="type"')[2].partition("</select>")[0]
    assert re.findall(r'value="(\w+)"', options) == [
        "PAYMENT", "SETTLEMENT", "PAYOUT", "FREEZE", "ADMIN_RECHARGE", "REFUND", "FEE",
    ]  # fmt: skip


def test_rows_are_counted_with_the_fees_that_belong_to_no_payment(shop: Shop) -> None:
    server = shop.api_server
    owner, now = create_person(server, shop.id, "owner"), server.app.clock()
    order_id = shop.create_paid_order()["id"]
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, now, "test"))
    request = payouts.PayoutRequest(
        amount_minor=900, fee_minor=25, reference="a", reason="weekly", by="op"
    )
    server.tx(lambda tx: payouts.create(tx, shop.id, request, None, server.app.clock()))
    server.run(jobs.count_all(server.app.db))
    html = read_page(owner, shop, tab="all")
    shown = [row[1] for row in movement_cells(html)]
    assert shown == ["Fee", "Payout", "Settlement", "Payment"]
    assert "1 to 4 of 4" in text_of(html)


def to_minor(text: str) -> int:
    return int(text.replace("$", "").replace(",", "").replace(".", ""))


def summary_of(html: str) -> dict[str, int]:
    """Return the opening balance, the changes and the closing balance of a statement's page."""
    summary = html[html.index('id="statement-USD"') :].partition("</dl>")[0]
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", summary)
    return {text_of(name): to_minor(amount) for name, amount in pairs}


def test_a_statement_adds_up_on_the_page_and_in_its_export(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "viewer")
    # By default, the statement is about this month.
    html = read_page(owner, busy_shop, "balance/statement")
    assert "From Fri, Jan 1, 2027 to Fri, Jan 1, 2027." in text_of(html)
    amounts = list(summary_of(html).values())
    assert sum(amounts[:-1]) == amounts[-1]
    assert summary_of(html) == {
        "Opening balance Jan 1": 0, "Payments": 1998, "Refunds": -200, "Fees": -80,
        "Closing balance Jan 1": 1718,
    }  # fmt: skip
    lines = export(owner, busy_shop, "balance/statement.csv")
    local_time = f"time {ZONE.key}"
    assert next(iter(lines[0])) == local_time
    assert [line["row"] for line in lines][:2] == ["OPENING", "MOVEMENT"]
    for line in lines:
        if line["row"] == "MOVEMENT":
            moment = datetime.fromtimestamp(int(line["time"]) / 1000, ZONE)
            assert line[local_time] == f"{moment:%Y-%m-%d %H:%M:%S}" == "2027-01-01 05:35:00"
            assert line["timeUtc"] == "2026-12-31T23:50:00.000Z"
    for account in ("pending", "available", "frozen", "reserve"):
        change = sum(to_minor(line[account]) for line in lines if line["row"] == "TOTAL")
        opening, closing = lines[0], lines[-1]
        assert to_minor(opening[f"{account}After"]) + change == to_minor(closing[f"{account}After"])
    assert "Payouts" in read_page(owner, busy_shop, "balance/statement", **{"from": ""})
    reversed_days = read_page(
        owner, busy_shop, "balance/statement", **{"from": "2027-02-01", "to": "2027-01-01"}
    )
    assert "The last day must not be before the first one" in reversed_days
    assert "Opening balance" not in reversed_days  # of no other days below the error
    assert "statement.pdf" not in reversed_days
    assert re.findall(r"<summary>(.*?)</summary>", reversed_days).count("Other days") == 1
    for field, days in (
        ("from", {"from": "2027-01-02", "to": ""}),
        ("to", {"from": "2026-12-31", "to": "2027-01-02"}),
    ):
        future = read_page(owner, busy_shop, "balance/statement", **days)
        errors = re.findall(r'id="(from|to)-error">(.*?)</p>', future)
        assert [(name, text_of(text).split(".")[0].strip()) for name, text in errors] == [
            (field, "This day is in the future")
        ]
        assert "Closing balance" not in future
        assert "statement.pdf" not in future
        moved = owner.get(f"/dashboard/{busy_shop.id}/balance/statement.csv", params=days)
        assert moved.status_code == 303
    types = re.findall(r'#movements">(.*?)</a>', html[html.index('id="types-USD"') :])
    assert types[:3] == ["Payment", "Refund", "Fee"]


def test_a_statement_of_the_last_month_is_two_actions_away_from_home(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    home = read_page(owner, busy_shop, "")
    (link,) = re.findall(r'href="([^"]*/balance/statement\?[^"]*)"', home)
    html = owner.get(link.replace("&amp;", "&")).text
    assert 'aria-current="true">Last month</a></li>' in html
    assert summary_of(html) == {
        "Opening balance Dec 1": 0, "Credits by the operator": 5000, "Payouts": -5000,
        "Closing balance Dec 31": 0,
    }  # fmt: skip
    assert "statement.pdf?from=2026-12-01&amp;to=2026-12-31" in html
    months = re.findall(r'to=[-\d]*"[^>]*>([^<]*)</a></li>', html.partition('class="chip')[0])
    assert months == ["This month", "Last month", "Nov 2026"]  # no month before it was created


def test_a_statement_leaves_out_accounts_and_currencies_without_money(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    html = read_page(owner, busy_shop, "balance/statement")
    accounts = html[html.index('id="accounts-USD"') :].partition("</table>")[0]
    names = re.findall(r'class="at-start">(.*?)</td>', accounts)
    assert names == ["Available", "Pending", "On hold"]
    assert "In reserve" not in html
    before = text_of(
        read_page(
            owner, busy_shop, "balance/statement", **{"from": "2026-11-01", "to": "2026-11-30"}
        )
    )
    assert "No money moved in these days, and the balance is zero." in before
    assert "Statement in USD" not in before


def test_a_type_of_movement_leads_to_its_movements(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    html = read_page(owner, busy_shop, "balance/statement")
    types = html[html.index('id="types-USD"') :].partition("</table>")[0]
    links = re.findall(r'class="row-link" href="([^"]*)#movements">(.*?)</a>', types)
    assert links
    for link, name in links:
        shown = {row[1] for row in movement_cells(owner.get(link.replace("&amp;", "&")).text)}
        assert all(kind.startswith(name.split()[0]) for kind in shown), (name, shown)
        assert shown, name


@pytest.mark.parametrize(
    ("zone", "day"), [("Africa/Monrovia", "1971-06-01"), ("Pacific/Kiritimati", "1975-01-01")]
)
def test_a_day_before_1980_is_refused_at_its_field(shop: Shop, zone: str, day: str) -> None:
    """In some zones, the days before 1980 did not begin at a quarter hour."""
    shop.api_server.tx(
        lambda tx: merchants.change(tx, shop.id, NOW, who="ann", reason="moved", time_zone=zone)
    )
    shop.create_paid_order()
    owner = create_person(shop.api_server, shop.id, "owner")
    for name, query in (("from", {"from": day}), ("to", {"from": "", "to": day})):
        html = read_page(owner, shop, "balance/statement", **query)
        (error,) = re.findall(rf'id="{name}-error">.*?</p>', html)
        assert text_of(error).endswith("Enter a day from 1980 on")
        assert "Enter other days to see their statement." in html
        assert "Opening balance" not in html  # of no other days
        assert "statement.csv" not in html
    assert "Opening balance" in read_page(
        owner, shop, "balance/statement", **{"from": "1980-01-01"}
    )


def test_the_export_of_a_statement_has_the_days_of_the_page_that_links_it(
    busy_shop: Shop,
) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")

    def export_by_link(**days: str) -> tuple[str, list[str]]:
        """Follow the page's link; return the file's name and the types of its movements."""
        html = read_page(owner, busy_shop, "balance/statement", **days)
        (link,) = re.findall(r'href="([^"]*/statement\.csv[^"]*)"', html)
        response = owner.get(link.replace("&amp;", "&"))
        name = response.headers["content-disposition"].partition("filename=")[2].strip('"')
        return name, [line["type"] for line in csv_rows(response) if line["row"] == "MOVEMENT"]

    december = export_by_link(**{"from": "2026-12-01", "to": "2026-12-31"})
    assert december == (
        "statement_2026-12-01_2026-12-31.csv", ["ADMIN_RECHARGE", "PAYOUT"]
    )  # fmt: skip
    name, todays_types = export_by_link()
    assert name == "statement_2027-01-01_2027-01-01.csv"
    all_days = {"from": "", "to": ""}  # the form is sent with empty days
    assert export_by_link(**all_days) == ("statement_all.csv", december[1] + todays_types)
    html = read_page(owner, busy_shop, "balance/statement", **all_days)
    assert "Payouts -$50.00" in text_of(html)


def test_a_merchant_without_money_sees_an_empty_balance(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    text = text_of(read_page(owner, shop))
    assert "Balance in USD" in text
    assert text.count("$0.00") == 2  # without amounts on hold or in reserve
    assert "In reserve" not in text
    assert "No money has moved yet" in text
    assert "There is no money to pay out now. Add a bank account" in text
    assert "Can be paid out to your bank" not in text
    statement = read_page(owner, shop, "balance/statement")
    assert "No money has moved yet" in statement
    for absent in ("statement.pdf", "statement.csv", "This month", "Last month"):
        assert absent not in statement
    wrong_day = read_page(owner, shop, "balance/statement", **{"from": "2026-02-31"})
    assert "Enter a day as 2026-01-31" in wrong_day
    for page in (read_page(owner, shop), statement):
        assert f'href="/dashboard/{shop.id}/links?sheet=add"' in page
    viewer = create_person(shop.api_server, shop.id, "viewer")
    for path in ("balance", "balance/statement"):
        page = read_page(viewer, shop, path)
        assert "links?sheet=add" not in page
        assert "Add a bank account" not in page
    assert export(owner, shop, "balance/statement.csv") == []


def test_available_money_waits_for_a_bank_account(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order["id"], NOW, "test"))
    server.run(jobs.count_all(server.app.db))
    text = text_of(read_page(owner, shop))
    assert "It can be paid out once there is a bank account. Add a bank account" in text
    form = {"version": "0", "holder": "Ann", "country": "DE", "account": "DE89370400440532013000"}
    assert owner.post(f"/dashboard/{shop.id}/payouts/account", form).status_code == 303
    text = text_of(read_page(owner, shop))
    assert "Can be paid out to your bank." in text
    assert "Add a bank account" not in text


@pytest.mark.parametrize("language", ["zh-Hans", "zh-Hant"])
def test_the_pages_of_the_balance_are_translated_into_chinese(
    busy_shop: Shop, language: str
) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    for path in ("balance", "balance/statement"):
        text = text_of(read_page(owner, busy_shop, path, lang=language))
        assert {"zh-Hans": "余额", "zh-Hant": "餘額"}[language] in text
        assert "Payment" not in text


def test_a_statement_is_a_pdf_with_the_balances_of_the_page(busy_shop: Shop) -> None:
    owner = create_person(busy_shop.api_server, busy_shop.id, "owner")
    path = f"/dashboard/{busy_shop.id}/balance/statement"
    assert f'href="{path}.pdf?from=2027-01-01&amp;to=2027-01-01"' in owner.get(path).text
    file = owner.get(f"{path}.pdf", params={"from": "2027-01-01", "to": "2027-01-01"})
    assert (file.status_code, file.headers["content-type"]) == (200, "application/pdf")
    assert "statement_2027-01-01_2027-01-01.pdf" in file.headers["content-disposition"]
    content = b"".join(streams_of(file.content))
    for text in (b"Statement", b"Opening balance", b"-$2.00", b"Refunds", b"By type of movement"):
        assert text in content, text
    wrong = owner.get(f"{path}.pdf?to=soon")
    assert wrong.headers["location"] == f"{path}?to=soon"
    stranger = create_person(busy_shop.api_server, busy_shop.api_server.create_shop().id, "owner")
    assert stranger.get(f"{path}.pdf").status_code == 404
