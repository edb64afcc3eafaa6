"""Payout runs, reconciliation, bank accounts and the trial balance in the console."""

import re
from collections.abc import Iterator
from decimal import Decimal

import httpx2
import msgspec
import pytest

from opentill import approvals, payouts
from opentill.db.database import Tx
from support.api_server import ApiServer, Shop
from support.payout_runs import ANN, IBAN, NATIONAL, SOURCE_ACCOUNT, create_payee
from support.people import Visitor, create_person
from support.spreadsheets import csv_rows
from support.world import NOW

REASON = {"reason": "weekly"}


@pytest.fixture
def finance(api_server: ApiServer) -> Iterator[Visitor]:
    """A member of the finance staff, where the operator has a bank account in euros."""
    before = api_server.app.settings
    own = f"EUR:{SOURCE_ACCOUNT.number}:{SOURCE_ACCOUNT.bic}"
    api_server.app.settings = msgspec.structs.replace(before, payout_accounts=own)
    yield create_person(api_server, None, staff_role="finance")
    api_server.app.settings = before


def _upload(visitor: Visitor, path: str, name: str, content: str, **form: str) -> httpx2.Response:
    return visitor.http.post(path, data=form, files={name: ("report.csv", content.encode())})


UNKNOWN_PAYOUT = "po_01m7y0m0jzefzv5n8efcf1hqw5"


def test_a_run_from_the_list_of_due_merchants_to_the_bank_report(
    shop: Shop, finance: Visitor
) -> None:
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    merchant = shop.api_server.tx(lambda tx: create_payee(tx, rule=rule))
    other = shop.api_server.tx(lambda tx: create_payee(tx, minor=777, rule=rule))
    page = finance.get("/console/payouts")
    assert "···· 3000" in page.text
    form = {"currency": "EUR", "reference": "W-48 <b>", "on": "", **REASON}
    responses = [finance.post("/console/payouts/run", form) for _ in range(2)]  # a double click
    # The first may report that accounts of other tests could not be read.
    (place,) = {response.headers["location"].partition("?")[0] for response in responses}
    page = finance.get(place)
    assert "W-48 &lt;b&gt;" in page.text
    assert "Ready" in page.text
    (payout,) = shop.api_server.tx(lambda tx: payouts.search(tx, merchant.id))
    assert payout.id in page.text
    assert "Not in the file" not in page.text
    change = (other.id, NATIONAL, ANN, rule, NOW)
    shop.api_server.tx(lambda tx: payouts.change_account(tx, *change))
    files = [finance.post(f"{place}/file", {"form": "xml"}) for _ in range(2)]
    assert files[0].content == files[1].content
    assert f"<EndToEndId>{payout.id.replace('_', '-')}</EndToEndId>" in files[0].text
    page = finance.get(place)
    assert page.text.count("Not in the file") == 1
    facts = dict(re.findall(r"<dt>([^<]*)</dt>\s*<dd>([^<]*)</dd>", page.text))
    assert int(facts["Payouts in the file"]) == int(facts["Payouts"]) - 1
    assert facts["Sum of the file"] != facts["Sum"]
    assert files[0].headers["content-disposition"].startswith("attachment")
    refused = finance.post(f"{place}/file", {"form": "csv"})
    assert (refused.status_code, "in another form" in refused.text) == (400, True)
    assert IBAN.number not in finance.get(place).text
    lines = (
        "end_to_end_id,status,amount,currency,bank_reference,reason\n"
        f"{payout.id},paid,100.00,EUR,B-1,\n{UNKNOWN_PAYOUT},paid,7.00,EUR,B-2,\n"
        "rent,paid,1250.00,EUR,B-3,\n"
    )
    done = _upload(finance, "/console/payouts/report", "report", lines)
    assert "sent=1&returned=0&known=0&found=1" in done.headers["location"]
    again = _upload(finance, "/console/payouts/report", "report", lines)
    assert "was read before" in finance.get(again.headers["location"]).text
    assert "B-1" in finance.get(place).text
    _mark_a_run_as_paid(shop, finance)
    wrong = _upload(finance, "/console/payouts/report", "report", "a,b\n1,2\n")
    assert (wrong.status_code, "Nothing was changed" in wrong.text) == (400, True)
    _resolve_the_difference(shop, finance, merchant.id)


def _mark_a_run_as_paid(shop: Shop, finance: Visitor) -> None:
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    merchant = shop.api_server.tx(lambda tx: create_payee(tx, rule=rule))
    form = {"currency": "EUR", "reference": f"next {merchant.id}", "on": "", **REASON}
    place = finance.post("/console/payouts/run", form).headers["location"].partition("?")[0]
    paid = {"reference": "B-9", **REASON}
    assert "Mark all as paid" not in finance.get(place).text
    assert "nobody has taken the file" in finance.post(f"{place}/paid", paid).text
    finance.post(f"{place}/file", {"form": "xml"})
    assert "Mark all as paid" in finance.get(place).text
    for name in paid:
        refused = finance.post(f"{place}/paid", paid | {name: " "})
        assert (refused.status_code, f'id="{name}-error"' in refused.text) == (400, True)
    done = finance.post(f"{place}/paid", paid)
    assert "Payouts that are paid now: " in finance.get(done.headers["location"]).text
    assert finance.post(f"{place}/paid", paid).headers["location"].endswith("?paid=0")
    (payout,) = shop.api_server.tx(lambda tx: payouts.search(tx, merchant.id))
    assert (payout.status, payout.bank_reference) == ("PAID", "B-9")
    assert "Mark all as paid" not in finance.get(place).text


def _resolve_the_difference(shop: Shop, finance: Visitor, merchant_id: str) -> None:
    assert "Differences between reports and books" in finance.get("/console").text
    inbox = finance.get("/console/reconciliation?source=bank").text
    folded = inbox.partition('<details class="card more" id="bookings">')[2].partition("</details>")
    assert "Bookings that concern no payout" in folded[0]
    assert "1250.00 EUR debit, B-3" in folded[0]
    assert "1250.00" not in inbox.replace(folded[0], "")
    paths = re.findall(r"/console/reconciliation/dif_\w+", inbox)
    (path,) = [path for path in paths if UNKNOWN_PAYOUT in finance.get(path).text]
    for form, field in (
        ({}, "reason"),
        ({**REASON, "adjust": "recharge", "amount": "7"}, "merchant"),
        ({**REASON, "adjust": "recharge", "amount": "x", "merchant": merchant_id}, "amount"),
        ({**REASON, "adjust": "correct", "amount": "7", "merchant": merchant_id}, "order"),
        ({**REASON, "amount": "7.00", "merchant": merchant_id}, "adjust"),
        ({**REASON, "order": "ord_1"}, "adjust"),
        ({**REASON, "adjust": "unknown", "amount": "7.00"}, "adjust"),
    ):
        refused = finance.post(f"{path}/resolve", form)
        assert (refused.status_code, f'id="{field}-error"' in refused.text) == (400, True), form
    form = {**REASON, "adjust": "recharge", "amount": "7.00", "merchant": merchant_id}
    assert finance.post(f"{path}/resolve", form).status_code == 303
    late = finance.post(f"{path}/resolve", form)
    assert "has resolved this difference already" in late.text
    page = finance.get(path).text
    assert finance.audit_name in page
    assert "<form" not in page.partition("<main")[2]
    assert shop.api_server.sql(
        "select available from balances where merchant_id = $1", merchant_id
    ) == [{"available": 700}]


def test_staff_record_the_result_of_a_transfer_and_see_returned_payouts(
    shop: Shop, finance: Visitor
) -> None:
    payout, other = shop.create_payout(1100), shop.create_payout(2200)
    path = f"/console/payout/{payout.id}"
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert "<form" not in auditor.get(path).text.partition("<main")[2]
    assert auditor.post(path, {"event": "paid", **REASON}).status_code == 403
    for form, field in (
        ({"event": "paid", "reference": "B-1"}, "reason"),
        ({"event": "paid", **REASON}, "reference"),
        ({"event": "returned", **REASON}, "payout"),
        ({"event": "sent", **REASON}, ""),
    ):
        refused = finance.post(path, form)
        assert refused.status_code == 400
        assert (f'id="{form["event"]}-reason-error"' in refused.text) == (field == "reason")
        assert ("Nothing was done" in refused.text) == (field == "payout")
    paid = finance.post(path, {"event": "paid", "reference": "B-1", **REASON})
    page = finance.get(paid.headers["location"]).text
    assert "The payout is paid." in page
    assert "Mark as returned" in page
    assert "Mark as failed" not in page
    needs = "/console/needs/returned"
    assert payout.id not in finance.get(needs).text
    form = {"event": "returned", "reason": "AC04 <closed>"}
    assert finance.post(path, form).status_code == 303
    assert "has another status meanwhile" in finance.post(path, form).text  # sent twice
    assert [row["status"] for row in _payouts(shop, payout.id)] == ["FAILED"]
    page = finance.get(path).text
    assert "The bank returned it after it was paid." in page
    assert "AC04 &lt;closed&gt;" in page
    assert "Mark as" not in page
    assert "Payouts that banks returned" in finance.get("/console").text
    assert f'href="/console/payout/{payout.id}"' in finance.get(needs).text
    # Another account of the merchant resolves it.
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    now = shop.api_server.app.clock() + 1
    shop.api_server.tx(lambda tx: payouts.change_account(tx, shop.id, IBAN, ANN, rule, now))
    assert payout.id not in finance.get(needs).text
    failed = finance.post(f"/console/payout/{other.id}", {"event": "failed", **REASON})
    assert failed.headers["location"].endswith("?done=failed")
    assert [row["status"] for row in _payouts(shop, other.id)] == ["FAILED"]


def _payouts(shop: Shop, payout_id: str) -> list[dict[str, object]]:
    return shop.api_server.sql("select status from payouts where id = $1", payout_id)


def test_a_line_of_a_report_above_the_limit_waits_for_a_second_person(
    shop: Shop, finance: Visitor
) -> None:
    server = shop.api_server
    payout = shop.create_payout(3300)
    now = server.app.clock()
    server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", now))
    server.app.settings = msgspec.structs.replace(server.app.settings, approval_above=Decimal(5))
    lines = "end_to_end_id,status,amount,currency,bank_reference,reason\n"
    lines += f"{payout.id},returned,33.00,USD,B-7,AC04 <closed>\n"
    done = _upload(finance, "/console/payouts/report", "report", lines)
    assert "returned=0&known=0&found=0&waiting=1" in done.headers["location"]
    page = finance.get(done.headers["location"]).text
    assert "1 wait for a second person." in page
    assert payout.id in page.partition('id="lines"')[2]
    assert "AC04 &lt;closed&gt; (bank reference B-7)" in page
    assert [row["status"] for row in _payouts(shop, payout.id)] == ["PAID"]
    again = _upload(finance, "/console/payouts/report", "report", lines)
    assert "read=before" in again.headers["location"]
    assert again.headers["location"].endswith("waiting=1")
    (request,) = [
        one for one in server.tx(approvals.waiting_of_reports) if one.subject == payout.id
    ]
    approve = f"/console/approvals/{request.id}/approve"
    assert finance.post(approve).status_code == 400
    admin = create_person(server, None, staff_role="admin")
    assert admin.post(approve).status_code == 303
    assert [row["status"] for row in _payouts(shop, payout.id)] == ["FAILED"]
    assert payout.id not in finance.get("/console/payouts").text.partition('id="lines"')[2]


def test_staff_confirm_a_bank_account_after_a_returned_payout(shop: Shop, finance: Visitor) -> None:
    server = shop.api_server
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    now = server.app.clock()
    merchant = server.tx(lambda tx: create_payee(tx, rule=rule))
    request = payouts.PayoutRequest(amount_minor=100, reference="W", reason="weekly", by="ann")
    payout = server.tx(lambda tx: payouts.create(tx, merchant.id, request, None, now))
    server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", now))
    server.tx(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "ann", now))
    assert "Bank returned a payout" in finance.get("/console/payouts").text
    path = f"/console/merchants/{merchant.id}/bank-account"
    page = finance.get(path).text
    assert "Confirm this account" in page
    (form,) = re.findall(
        r'name="version" value="(\d+)">\s*<input type="hidden" name="held" value="(\d+)"', page
    )
    fields = {"version": form[0], "held": form[1]}
    refused = finance.post(f"{path}/confirm", fields)
    assert (refused.status_code, 'id="confirmation-error"' in refused.text) == (400, True)
    stale = finance.post(f"{path}/confirm", {**fields, "held": "1", "confirmation": "asked"})
    assert (stale.status_code, "Nothing was confirmed" in stale.text) == (409, True)
    fields["confirmation"] = "asked their bank"
    support = create_person(server, None, staff_role="support")
    assert support.post(f"{path}/confirm", fields).status_code == 403
    done = finance.post(f"{path}/confirm", fields)
    assert done.headers["location"] == f"{path}?confirmed=1"
    assert "Confirm this account" not in finance.get(path).text
    again = finance.post(f"{path}/confirm", fields)
    assert (again.status_code, "Nothing was confirmed" in again.text) == (400, True)
    rows = server.sql(
        "select reason from audit_log where merchant_id = $1 and action = $2",
        merchant.id,
        "payouts confirm-account",
    )
    assert rows == [{"reason": "asked their bank"}]


def test_staff_enter_a_bank_account_with_a_reason(shop: Shop, finance: Visitor) -> None:
    path = f"/console/merchants/{shop.id}/bank-account"
    form = {"holder": "Harbour Books", "account": IBAN.number, "version": "0"}
    refused = finance.post(path, form)
    assert (refused.status_code, 'id="reason-error"' in refused.text) == (400, True)
    done = finance.post(path, form | {"reason": "by letter"})
    assert done.headers["location"] == f"{path}?saved=1"
    assert "DE ···· 3000" in finance.get(path).text
    assert path in finance.get(f"/console/merchants/{shop.id}").text
    rows = shop.api_server.sql(
        "select reason from audit_log where merchant_id = $1 and action = 'payouts account'",
        shop.id,
    )
    assert rows == [{"reason": "by letter"}]
    support = create_person(shop.api_server, None, staff_role="support")
    assert "<form" not in support.get(path).text.partition("<main")[2]
    assert support.post(path, form).status_code == 403


def test_a_wrong_run_is_refused_at_its_field(shop: Shop, finance: Visitor) -> None:
    good = {"currency": "EUR", "reference": "W-49", "on": "", **REASON}
    for change, field in (
        ({"currency": "USD"}, "currency"), ({"reference": " "}, "reference"),
        ({"on": "2020-01-01"}, "on"), ({"reason": ""}, "reason"),
    ):  # fmt: skip
        refused = finance.post("/console/payouts/run", good | change)
        assert refused.status_code == 400, change
        assert f'href="#{field}"' in refused.text
    support = create_person(shop.api_server, None, staff_role="support")
    assert support.post("/console/payouts/run", good).status_code == 403
    assert "Begin a run" not in support.get("/console/payouts").text
    assert finance.get("/console/payouts/run_00000000000000000000000000").status_code == 404


def test_a_settlement_report_is_compared(shop: Shop, finance: Visitor) -> None:
    rows = f"kind,reference,amount,currency,settled_at\npayment,att_zz,5.00,USD,{NOW}\n"
    path = "/console/reconciliation/compare"
    gateway = shop.api_server.app.settings.gateways[0]
    done = _upload(finance, path, "file", rows, gateway=gateway)
    assert done.status_code == 303, done.text
    page = finance.get(done.headers["location"]).text
    assert "Compared: 1 rows" in page
    assert "att_zz" in page
    wrong = _upload(finance, path, "file", "x\n", gateway=gateway)
    assert (wrong.status_code, 'id="file-error"' in wrong.text) == (400, True)
    assert _upload(finance, path, "file", rows, gateway="nobody").status_code == 400


def test_the_trial_balance_and_the_general_ledger(shop: Shop, finance: Visitor) -> None:
    async def create_payee_id(tx: Tx) -> str:
        return (await create_payee(tx, 12_345)).id

    merchant_id = shop.api_server.tx(create_payee_id)
    page = finance.get(f"/console/trial-balance?merchant={merchant_id}").text
    assert "€123.45" in page
    assert "-€123.45" in page.replace("\u2212", "-")
    before = finance.get(f"/console/trial-balance?merchant={merchant_id}&to=2020-01-01").text
    assert "€123.45" not in before
    wrong = finance.get("/console/trial-balance?merchant=x&to=soon").text
    assert 'id="to-error"' in wrong
    assert 'id="merchant-error"' in wrong
    backwards = {"from": "2026-03-02", "to": "2026-03-01"}
    refused = finance.get("/console/trial-balance/ledger.csv", params=backwards)
    assert refused.headers["location"].startswith("/console/trial-balance?")
    assert 'id="ledger-to-error"' in finance.get(refused.headers["location"]).text
    file = finance.get(f"/console/trial-balance/ledger.csv?merchant={merchant_id}")
    rows = csv_rows(file)
    assert [(row["account"], row["amount"]) for row in rows] == [
        ("bank", "-123.45"), ("available", "123.45"),
    ]  # fmt: skip


def test_the_general_ledger_of_wrong_days_is_refused_at_its_form(finance: Visitor) -> None:
    place = "/console/trial-balance"
    for query, field, sentence in (
        ("from=2026-02-01&to=2026-01-01&merchant=", "ledger-to", "must not be before"),
        ("from=2026-02-31&to=&merchant=", "ledger-from", "Enter a day"),
        ("from=&to=soon", "ledger-to", "Enter a day"),
        ("from=&to=&merchant=nobody", "merchant", "Enter the id of a merchant"),
    ):
        refused = finance.get(f"{place}/ledger.csv?{query}")
        assert refused.status_code == 303, query
        page, _, page_query = refused.headers["location"].partition("?")
        assert (page, sorted(page_query.split("&"))) == (place, sorted(query.split("&")))
        page = finance.get(refused.headers["location"]).text
        assert re.findall(r'id="([\w-]+)-error"', page) == [field], query
        assert f'href="#{field}"' in page
        assert sentence in page.partition(f'id="{field}-error"')[2].partition("</p>")[0]
    days = {"from": "2026-01-01", "to": "2026-01-31"}
    file = finance.get(f"{place}/ledger.csv", params=days)
    name = "general_ledger_2026-01-01_2026-01-31.csv"
    assert file.headers["content-disposition"] == f'attachment; filename="{name}"'
