"""The list of payouts of all merchants in the console: filters, pages, runs and the CSV file."""

import re
from typing import Final

import pytest

from console.console_pages import visible_text
from opentill import merchants, payouts
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.payouts import PayoutFilter, PayoutRequest
from support import world
from support.api_server import Shop
from support.payout_runs import ANN, complete_run, create_payee
from support.people import create_person
from support.spreadsheets import csv_rows

PATH: Final = "/console/payouts"
_ROW: Final = re.compile(rf'class="row-link" href="{PATH}/(po_\w+)"')


def test_payouts_of_all_merchants_are_listed_filtered_and_exported(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    other_shop = server.create_shop()
    now = server.app.clock()
    paid, pending = shop.create_payout(4_123), shop.create_payout(777)
    others = other_shop.create_payout(4_123)
    own = {paid.id, pending.id, others.id}
    server.tx(lambda tx: payouts.pay(tx, paid.id, "B-77 <b>", "weekly", "op", now))

    def list_payouts(query: str = "") -> list[str]:
        return [id_ for id_ in _ROW.findall(auditor.get(PATH + query).text) if id_ in own]

    assert list_payouts() == [others.id, pending.id, paid.id]
    assert list_payouts("?status=PAID") == [paid.id]
    assert list_payouts(f"?merchant={shop.id}") == [pending.id, paid.id]
    assert list_payouts(f"?merchant={shop.id}&status=PENDING") == [pending.id]
    assert list_payouts("?amount=41.23") == [others.id, paid.id]
    assert list_payouts("?amount=$41.23&status=PENDING") == [others.id]
    assert list_payouts(f"?amount=41.23&merchant={shop.id}") == [paid.id]
    assert list_payouts("?amount=€41.23") == []
    assert list_payouts(f"?before={others.id}") == [pending.id, paid.id]
    assert list_payouts(f"?amount=41.23&before={others.id}") == [paid.id]
    assert list_payouts("?to=2001-01-01") == []
    page = auditor.get(PATH).text
    assert "B-77 &lt;b&gt;" in page
    assert f'href="{PATH}" aria-current="page"' in page
    for query, field in (("amount=much", "amount"), ("merchant=mer_0", "merchant"), ("to=x", "to")):
        response = auditor.get(f"{PATH}?{query}")
        assert f'id="{field}-error"' in response.text, query
        assert not _ROW.findall(response.text), query
        file = auditor.get(f"{PATH}.csv?{query}")
        assert file.headers["location"] == f"{PATH}?{query}"
    rows = [row for row in csv_rows(auditor.get(f"{PATH}.csv?amount=41.23")) if row["id"] in own]
    assert [(row["id"], row["merchantId"], row["status"], row["amount"]) for row in rows] == [
        (others.id, other_shop.id, "PENDING", "41.23"),
        (paid.id, shop.id, "PAID", "41.23"),
    ]
    assert rows[1]["bankReference"] == "B-77 <b>"
    assert rows[1]["paidAt"] == str(now)


def test_withheld_payouts_are_listed_with_the_reason(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    now = server.app.clock()
    switched_off = server.tx(lambda tx: create_payee(tx, 9_876))
    server.tx(
        lambda tx: merchants.set_capability(
            tx, switched_off.id, "payout", on=False, actor=ANN, now=now
        )
    )
    too_little = server.tx(lambda tx: create_payee(tx, 543, payout_minimum_minor=10_000))
    page = auditor.get("/console/payout-runs").text
    rows = {
        merchant_id: visible_text(f"<main>{row}")
        for row in re.findall(r"<tr role=.row.>.*?</tr>", page, re.DOTALL)
        for merchant_id in re.findall(r"/console/merchants/(mer_\w+)", row)
    }
    assert "98.76" in rows[switched_off.id]
    assert f"Payouts are off {ANN.reason}" in rows[switched_off.id]
    assert "Less than the minimum €100.00" in rows[too_little.id]
    assert "Due" not in rows[switched_off.id]


def test_a_payout_links_to_its_page_and_its_run(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    payee = server.tx(lambda tx: create_payee(tx, 5_432))
    view = server.run(complete_run(server.app.db, f"W <{payee.id}>"))
    page = auditor.get(f"{PATH}?merchant={payee.id}").text
    (payout_id,) = _ROW.findall(page)
    link = f'href="/console/payout-runs/{view.run.id}"><bdi>W &lt;{payee.id}&gt;</bdi>'
    assert link in page
    assert link in auditor.get(f"{PATH}/{payout_id}").text
    (row,) = csv_rows(auditor.get(f"{PATH}.csv?merchant={payee.id}"))
    assert (row["runId"], row["runReference"]) == (view.run.id, view.run.reference)
    # In the list of runs, its row leads to the question before the bank file.
    finance = create_person(server, None, staff_role="finance")
    href = f"/console/payout-runs/{view.run.id}?sheet=download"
    assert f'<a href="{href}">Download the bank file<' in finance.get("/console/payout-runs").text
    assert "Download the bank file?" in finance.get(href).text
    assert href not in auditor.get("/console/payout-runs").text


async def test_pages_of_payouts_neither_repeat_nor_skip_payouts_of_the_same_time(db: Db) -> None:
    async def create(tx: Tx) -> None:
        for _ in range(3):
            payee = await create_payee(tx, 900)
            for number in range(3):
                request = PayoutRequest(
                    amount_minor=100, fee_minor=0, reference=str(number), reason="weekly", by="op"
                )
                await payouts.create(tx, payee.id, request, None, world.NOW)

    await db.run(create)
    async with db.connection() as tx:
        expected = [payout.id for payout in await payouts.search(tx, limit=100)]
        for criteria in (PayoutFilter(), PayoutFilter(amounts=(Money(100, "EUR"),))):
            read, after = list[str](), ""
            while page := await payouts.search_all(tx, _after(criteria, after), 2):
                read += [payout.id for payout in page]
                after = page[-1].id
            assert read == expected
            assert len(expected) == 9


def _after(criteria: PayoutFilter, after: str) -> PayoutFilter:
    return PayoutFilter(amounts=criteria.amounts, after=after)


@pytest.mark.parametrize("role", ["admin", "finance", "support", "auditor"])
def test_every_role_of_staff_sees_the_list_in_its_menu(shop: Shop, role: str) -> None:
    visitor = create_person(shop.api_server, None, staff_role=role)  # type: ignore[arg-type]
    assert f'href="{PATH}"' in visitor.get("/console/").text
