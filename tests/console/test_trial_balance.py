"""The trial balance, the general ledger and lists by merchant in the console."""

import re
from collections.abc import Iterator

import msgspec
import pytest

from opentill.db.database import Tx
from support.api_server import ApiServer, Shop
from support.payout_runs import SOURCE_ACCOUNT, create_payee
from support.people import Visitor, create_person
from support.spreadsheets import csv_rows


@pytest.fixture
def finance(api_server: ApiServer) -> Iterator[Visitor]:
    """A person with the role finance; the operator has a bank account in euros."""
    before = api_server.app.settings
    payout_accounts = f"EUR:{SOURCE_ACCOUNT.number}:{SOURCE_ACCOUNT.bic}"
    api_server.app.settings = msgspec.structs.replace(before, payout_accounts=payout_accounts)
    yield create_person(api_server, None, staff_role="finance")
    api_server.app.settings = before


def test_the_trial_balance_and_the_general_ledger_show_a_merchants_entries(
    shop: Shop, finance: Visitor
) -> None:
    async def create_payee_id(tx: Tx) -> str:
        return (await create_payee(tx, 12_345)).id

    merchant_id = shop.api_server.tx(create_payee_id)
    page = finance.get(f"/console/trial-balance?merchant={merchant_id}").text
    sums, _, by_merchant = page.partition('id="each"')
    rows = re.findall(
        r"<strong>([^<]+)</strong>.*?</td>" + '<td[^>]*class="number(?: blank)?">([^<]*)</td>' * 2,
        sums,
    )
    amounts = {account: (debit, credit) for account, debit, credit in rows}
    assert amounts["Bank clearing"] == ("€123.45", "–")
    assert amounts["Available"] == ("–", "€123.45")
    assert amounts["Fee revenue"] == ("–", "–")
    assert sums.partition(">Total<")[2].count("<strong>€123.45</strong>") == 2
    assert "-€123.45" in by_merchant.replace("\u2212", "-")
    earlier_balance = finance.get(
        f"/console/trial-balance?merchant={merchant_id}&to=2020-01-01"
    ).text
    assert "€123.45" not in earlier_balance
    invalid = finance.get("/console/trial-balance?merchant=no%20such%20shop&to=soon").text
    assert 'id="to-error"' in invalid
    assert 'id="merchant-error"' in invalid
    file = finance.get(f"/console/trial-balance/ledger.csv?merchant={merchant_id}")
    rows = csv_rows(file)
    assert [(row["account"], row["amount"]) for row in rows] == [
        ("bank", "-123.45"), ("available", "123.45"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["trial-balance", "books", "audit", "disputes/rate", "payments"])
def test_lists_take_the_name_of_a_merchant_and_show_no_rows_for_an_unknown_one(
    shop: Shop, path: str
) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    name = f"Quay {shop.id[-8:]} Tea"
    shop.api_server.sql("update merchants set name = $2 where id = $1", shop.id, name)
    shop.create_order()
    shop.create_payout(1100)

    def read(text: str) -> str:
        page = admin.get(f"/console/{path}", params={"merchant": text}).text
        return page.partition("<main")[2]

    for text in (name, name[5:-4], shop.id):
        page = read(text)
        assert 'id="merchant-error"' not in page
        assert f"<bdi>{name}</bdi>" in page
    for number in range(2):  # two newer merchants whose names begin with the whole name
        other = shop.api_server.create_shop()
        longer = f"{name} {number}"
        shop.api_server.sql("update merchants set name = $2 where id = $1", other.id, longer)
    for text in (name, name.lower()):
        page = read(text)
        assert 'id="merchant-error"' not in page
        assert f"<bdi>{name}</bdi>" in page
    unknown = read(f"{name} and sons")
    assert "No merchant has this ID or name" in unknown
    assert "<tbody" not in unknown
    assert "Nothing matches" not in unknown


def test_a_general_ledger_with_invalid_filters_is_refused_at_its_form(finance: Visitor) -> None:
    path = "/console/trial-balance"
    for query, field, sentence in (
        ("from=2026-02-01&to=2026-01-01&merchant=", "ledger-to", "must not be before"),
        ("from=2026-02-31&to=&merchant=", "ledger-from", "Enter a day"),
        ("from=&to=soon", "ledger-to", "Enter a day"),
        ("from=&to=&merchant=nobody", "merchant", "No merchant has this ID or name"),
    ):
        refusal = finance.get(f"{path}/ledger.csv?{query}")
        assert refusal.status_code == 303, query
        page, _, page_query = refusal.headers["location"].partition("?")
        assert (page, sorted(page_query.split("&"))) == (path, sorted(query.split("&")))
        page = finance.get(refusal.headers["location"]).text
        assert re.findall(r'id="([\w-]+)-error"', page) == [field], query
        assert sentence in page.partition(f'id="{field}-error"')[2].partition("</p>")[0]
    days = {"from": "2026-01-01", "to": "2026-01-31"}
    file = finance.get(f"{path}/ledger.csv", params=days)
    name = "general_ledger_2026-01-01_2026-01-31.csv"
    assert file.headers["content-disposition"] == f'attachment; filename="{name}"'
