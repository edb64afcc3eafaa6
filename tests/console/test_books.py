"""Payout runs, reconciliation, bank accounts and the trial balance in the console."""

import re
from collections.abc import Iterator
from decimal import Decimal

import httpx2
import msgspec
import pytest

from console.console_pages import visible_text
from opentill import approvals, payouts
from support.api_server import ApiServer, Shop
from support.payout_runs import ANN, IBAN, NATIONAL, SOURCE_ACCOUNT, create_payee
from support.people import Visitor, create_person
from support.world import NOW

REASON = {"reason": "weekly"}
RUNS = "/console/payout-runs"


@pytest.fixture
def finance(api_server: ApiServer) -> Iterator[Visitor]:
    """A person with the role finance; the operator has a bank account in euros."""
    before = api_server.app.settings
    payout_accounts = f"EUR:{SOURCE_ACCOUNT.number}:{SOURCE_ACCOUNT.bic}"
    api_server.app.settings = msgspec.structs.replace(before, payout_accounts=payout_accounts)
    yield create_person(api_server, None, staff_role="finance")
    api_server.app.settings = before


def _upload(visitor: Visitor, path: str, name: str, content: str, **form: str) -> httpx2.Response:
    return visitor.http.post(path, data=form, files={name: ("report.csv", content.encode())})


def _download_file(visitor: Visitor, path: str, form: str) -> httpx2.Response:
    """Send the form of a run's file, and load what its page then has the browser download."""
    response = visitor.post(f"{path}/file", {"form": form})
    page = visitor.get(response.headers["location"])
    delay, _, file_path = page.headers["refresh"].partition("; url=")
    assert delay == "0"
    return visitor.get(file_path)


UNKNOWN_PAYOUT = "po_01m7y0m0jzefzv5n8efcf1hqw5"


def test_a_payout_run_goes_from_due_merchants_to_the_bank_report_and_its_differences(
    shop: Shop, finance: Visitor
) -> None:
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    merchant = shop.api_server.tx(lambda tx: create_payee(tx, rule=rule))
    merchant_with_new_account = shop.api_server.tx(
        lambda tx: create_payee(tx, minor=777, rule=rule)
    )
    page = finance.get(RUNS)
    assert "•••• 3000" in page.text
    form = {"currency": "EUR", "reference": "W-48 <b>", "on": "", **REASON}
    # A double click submits the form twice.
    responses = [finance.post(f"{RUNS}/run", form) for _ in range(2)]
    # The first location's query may name accounts of other tests, which cannot be decrypted here.
    (path,) = {response.headers["location"].partition("?")[0] for response in responses}
    page = finance.get(path)
    assert "W-48 &lt;b&gt;" in page.text
    assert "Ready" in page.text
    assert 'class="row-link" href="' + path in finance.get(RUNS).text
    (payout,) = shop.api_server.tx(lambda tx: payouts.search(tx, merchant.id))
    assert payout.id in page.text
    assert "Not in the file" not in page.text
    assert "On its way" not in page.text
    new_account = (merchant_with_new_account.id, NATIONAL, ANN, rule, NOW)
    shop.api_server.tx(lambda tx: payouts.change_account(tx, *new_account))
    files = [_download_file(finance, path, "xml") for _ in range(2)]
    assert files[0].content == files[1].content
    assert f"<EndToEndId>{payout.id.replace('_', '-')}</EndToEndId>" in files[0].text
    page = finance.get(path)
    assert page.text.count("Not in the file") == 1
    assert "On its way" in page.text
    facts = dict(re.findall(r"<dt>([^<]*)</dt>\s*<dd>([^<]*)</dd>", page.text))
    assert int(facts["Payouts in the file"]) == int(facts["Payouts"]) - 1
    assert facts["Sum of the file"] != facts["Sum"]
    assert files[0].headers["content-disposition"].startswith("attachment")
    refusal = finance.post(f"{path}/file", {"form": "csv"})
    assert (refusal.status_code, "in another form" in refusal.text) == (400, True)
    assert IBAN.number not in finance.get(path).text
    lines = (
        "end_to_end_id,status,amount,currency,bank_reference,reason\n"
        f"{payout.id},paid,100.00,EUR,B-1,\n{UNKNOWN_PAYOUT},paid,7.00,EUR,B-2,\n"
        "rent,paid,1250.00,EUR,B-3,\n"
    )
    response = _upload(finance, f"{RUNS}/report", "report", lines)
    assert "sent=1&returned=0&known=0&found=1" in response.headers["location"]
    read = finance.get(response.headers["location"]).text
    (result,) = re.findall(r'<div class="(box[^"]*)" role="status">', read)
    assert result == "box"  # not green: something remains to be resolved
    assert "Read: 1 paid, 0 came back, 1 to resolve." in read
    assert "Payout of €7.00 is missing in the books" in read
    repeated = _upload(finance, f"{RUNS}/report", "report", lines)
    assert "was read before" in finance.get(repeated.headers["location"]).text
    assert "B-1" in finance.get(path).text
    _check_marking_a_run_as_paid(shop, finance)
    invalid = _upload(finance, f"{RUNS}/report", "report", "a,b\n1,2\n")
    assert (invalid.status_code, "Nothing was changed" in invalid.text) == (400, True)
    assert (
        '<pre dir="ltr">end_to_end_id,status,amount,currency,bank_reference,reason\n'
        in invalid.text
    )
    _check_resolving_a_difference(shop, finance, merchant.id)


def _check_marking_a_run_as_paid(shop: Shop, finance: Visitor) -> None:
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    merchant = shop.api_server.tx(lambda tx: create_payee(tx, rule=rule))
    form = {"currency": "EUR", "reference": f"next {merchant.id}", "on": "", **REASON}
    path = finance.post(f"{RUNS}/run", form).headers["location"].partition("?")[0]
    assert _state_of_run(finance, path) == "Ready"
    paid_form = {"reference": "B-9", **REASON}
    assert "Mark all as paid" not in finance.get(path).text
    assert (
        "bank file of this run has not been downloaded"
        in finance.post(f"{path}/paid", paid_form).text
    )
    assert finance.get(f"{path}/file").headers["location"] == path  # nothing is SENT yet
    sent = finance.post(f"{path}/file", {"form": "xml"})
    page = finance.get(sent.headers["location"]).text
    assert ("Mark all as paid" in page, "is being downloaded" in page) == (True, True)
    assert "Download the bank file next" not in page
    assert "refresh" not in finance.get(path).headers
    support = create_person(shop.api_server, None, staff_role="support")
    assert support.get(f"{path}/file").status_code == 403
    assert "refresh" not in support.get(f"{path}?download=1").headers
    for name in paid_form:
        refusal = finance.post(f"{path}/paid", paid_form | {name: " "})
        assert (refusal.status_code, f'id="{name}-error"' in refusal.text) == (400, True)
    assert _state_of_run(finance, path) == "Sent"
    response = finance.post(f"{path}/paid", paid_form)
    assert _state_of_run(finance, path) == "Paid"
    assert "Payouts that are paid now: " in finance.get(response.headers["location"]).text
    assert finance.post(f"{path}/paid", paid_form).headers["location"].endswith("?paid=0")
    (payout,) = shop.api_server.tx(lambda tx: payouts.search(tx, merchant.id))
    assert (payout.status, payout.bank_reference) == ("PAID", "B-9")
    assert "Mark all as paid" not in finance.get(path).text


def _state_of_run(finance: Visitor, path: str) -> str:
    """Return the state of a run with payouts of 107.77 euros, as its page and the list show it."""
    row = finance.get(RUNS).text.partition(f'href="{path}"')[2].partition("</tr>")[0]
    cells = re.findall(r'data-label="(?:Sum|Payouts|Paid|Currency)"[^>]*>([^<]*)<', row)
    state = re.findall(r'class="status[^"]*">(\w+)<', row)[0]
    assert cells == ["€107.77", "EUR", "2", "2" if state == "Paid" else "0"]
    assert (
        re.findall(r'class="status[^"]*">(\w+)<', finance.get(path).text.partition("<main")[2])[0]
        == state
    )
    return state


def _check_resolving_a_difference(shop: Shop, finance: Visitor, merchant_id: str) -> None:
    assert "Differences between reports and books" in finance.get("/console").text
    inbox = finance.get("/console/reconciliation?source=bank").text
    bookings = inbox.partition('<details class="card more" id="bookings">')[2]
    bookings = bookings.partition("</details>")[0]
    assert "Bookings that concern no payout" in bookings
    assert "1250.00 EUR debit, B-3" in bookings
    assert "1250.00" not in inbox.replace(bookings, "")
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
        refusal = finance.post(f"{path}/resolve", form)
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True), form
    foreign = {**REASON, "adjust": "recharge", "amount": "$7", "merchant": merchant_id}
    assert "is of another currency" in finance.post(f"{path}/resolve", foreign).text
    form = {**REASON, "adjust": "recharge", "amount": "7,00", "merchant": merchant_id}
    assert finance.post(f"{path}/resolve", form).status_code == 303
    repeated = finance.post(f"{path}/resolve", form)
    assert "has resolved this difference already" in repeated.text
    page = finance.get(path).text
    assert finance.audit_name.partition(" (")[0] in page
    assert "<form" not in page.partition("<main")[2]
    assert shop.api_server.sql(
        "select available from balances where merchant_id = $1", merchant_id
    ) == [{"available": 700}]


def test_staff_record_the_result_of_a_transfer_and_see_returned_payouts(
    shop: Shop, finance: Visitor
) -> None:
    payout, failing_payout = shop.create_payout(1100), shop.create_payout(2200)
    path = f"/console/payouts/{payout.id}"
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert "<form" not in auditor.get(path).text.partition("<main")[2]
    assert auditor.post(path, {"event": "paid", **REASON}).status_code == 403
    for form, field in (
        ({"event": "paid", "reference": "B-1"}, "reason"),
        ({"event": "paid", **REASON}, "reference"),
        ({"event": "returned", **REASON}, "payout"),
        ({"event": "sent", **REASON}, ""),
    ):
        refusal = finance.post(path, form)
        assert refusal.status_code == 400
        assert (f'id="{form["event"]}-reason-error"' in refusal.text) == (field == "reason")
        assert ("Nothing was done" in refusal.text) == (field == "payout")
    response = finance.post(path, {"event": "paid", "reference": "B-1", **REASON})
    page = finance.get(response.headers["location"]).text
    assert "The payout is paid." in page
    assert "Mark as returned" in page
    assert "Mark as failed" not in page
    needs_path = "/console/needs/returned"
    assert payout.id not in finance.get(needs_path).text
    form = {"event": "returned", "reason": "AC04 <closed>"}
    assert finance.post(path, form).status_code == 303
    # The same form is sent again.
    assert "has changed meanwhile" in finance.post(path, form).text
    assert _payout_status(shop, payout.id) == "FAILED"
    page = finance.get(path).text
    assert "The bank returned it after it was paid." in page
    assert "AC04 &lt;closed&gt;" in page
    assert "Mark as" not in page
    assert "Payouts that banks returned" in finance.get("/console").text
    assert f'href="/console/payouts/{payout.id}"' in finance.get(needs_path).text
    # A new bank account of the merchant resolves the returned payout.
    rule = payouts.HoldRule(shop.api_server.app.settings.secret_key, 3)
    now = shop.api_server.app.clock() + 1
    shop.api_server.tx(lambda tx: payouts.change_account(tx, shop.id, IBAN, ANN, rule, now))
    assert payout.id not in finance.get(needs_path).text
    failed = finance.post(f"/console/payouts/{failing_payout.id}", {"event": "failed", **REASON})
    assert failed.headers["location"].endswith("?done=failed")
    assert _payout_status(shop, failing_payout.id) == "FAILED"


def _payout_status(shop: Shop, payout_id: str) -> object:
    (row,) = shop.api_server.sql("select status from payouts where id = $1", payout_id)
    return row["status"]


def test_a_returned_payout_above_the_limit_in_a_bank_report_waits_for_a_second_person(
    shop: Shop, finance: Visitor
) -> None:
    server = shop.api_server
    payout = shop.create_payout(3300)
    now = server.app.clock()
    server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", now))
    server.app.settings = msgspec.structs.replace(server.app.settings, approval_above=Decimal(5))
    lines = "end_to_end_id,status,amount,currency,bank_reference,reason\n"
    lines += f"{payout.id},returned,33.00,USD,B-7,AC04 <closed>\n"
    response = _upload(finance, f"{RUNS}/report", "report", lines)
    assert "returned=0&known=0&found=0&waiting=1" in response.headers["location"]
    page = finance.get(response.headers["location"]).text
    assert "1 wait for a second person." in page
    assert payout.id in page.partition('id="lines"')[2]
    assert "AC04 &lt;closed&gt; (bank reference B-7)" in page
    assert _payout_status(shop, payout.id) == "PAID"
    repeated = _upload(finance, f"{RUNS}/report", "report", lines)
    assert "read=before" in repeated.headers["location"]
    assert repeated.headers["location"].endswith("waiting=1")
    (request,) = [
        row for row in server.tx(approvals.waiting_of_reports) if row.subject == payout.id
    ]
    approve = f"/console/approvals/{request.id}/approve"
    assert finance.post(approve).status_code == 400
    admin = create_person(server, None, staff_role="admin")
    assert admin.post(approve).status_code == 303
    assert _payout_status(shop, payout.id) == "FAILED"
    assert payout.id not in finance.get(RUNS).text.partition('id="lines"')[2]


def test_staff_confirm_a_bank_account_after_a_returned_payout(shop: Shop, finance: Visitor) -> None:
    server = shop.api_server
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    now = server.app.clock()
    merchant = server.tx(lambda tx: create_payee(tx, rule=rule))
    request = payouts.PayoutRequest(amount_minor=100, reference="W", reason="weekly", by="ann")
    payout = server.tx(lambda tx: payouts.create(tx, merchant.id, request, None, now))
    server.tx(lambda tx: payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", now))
    server.tx(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "ann", now))
    assert "Returned by the bank" in finance.get(RUNS).text
    path = f"/console/merchants/{merchant.id}/bank-account"
    page = finance.get(path).text
    assert "Confirm this account" in page
    ((version, held),) = re.findall(
        r'name="version" value="(\d+)">\s*<input type="hidden" name="held" value="(\d+)"', page
    )
    fields = {"version": version, "held": held}
    refusal = finance.post(f"{path}/confirm", fields)
    assert (refusal.status_code, 'id="confirmation-error"' in refusal.text) == (400, True)
    conflict = finance.post(f"{path}/confirm", {**fields, "held": "1", "confirmation": "asked"})
    assert (conflict.status_code, "Nothing was confirmed" in conflict.text) == (409, True)
    fields["confirmation"] = "asked their bank"
    support = create_person(server, None, staff_role="support")
    assert support.post(f"{path}/confirm", fields).status_code == 403
    response = finance.post(f"{path}/confirm", fields)
    assert response.headers["location"] == f"{path}?confirmed=1"
    assert "Confirm this account" not in finance.get(path).text
    repeated = finance.post(f"{path}/confirm", fields)
    assert (repeated.status_code, "Nothing was confirmed" in repeated.text) == (400, True)
    rows = server.sql(
        "select reason from audit_log where merchant_id = $1 and action = $2",
        merchant.id,
        "payouts confirm-account",
    )
    assert rows == [{"reason": "asked their bank"}]


def test_staff_enter_a_bank_account_with_a_reason(shop: Shop, finance: Visitor) -> None:
    path = f"/console/merchants/{shop.id}/bank-account"
    form = {"holder": "Harbour Books", "account": IBAN.number, "version": "0"}
    refusal = finance.post(path, form)
    assert (refusal.status_code, 'id="reason-error"' in refusal.text) == (400, True)
    response = finance.post(path, form | {"reason": "by letter"})
    assert response.headers["location"] == f"{path}?saved=1"
    assert "DE •••• 3000" in finance.get(path).text
    assert path in finance.get(f"/console/merchants/{shop.id}").text
    rows = shop.api_server.sql(
        "select reason from audit_log where merchant_id = $1 and action = 'payouts account'",
        shop.id,
    )
    assert rows == [{"reason": "by letter"}]
    support = create_person(shop.api_server, None, staff_role="support")
    assert "<form" not in support.get(path).text.partition("<main")[2]
    assert support.post(path, form).status_code == 403


def test_a_run_begins_in_a_currency_in_which_payouts_are_due(shop: Shop, finance: Visitor) -> None:
    server = shop.api_server
    accounts = f"CHF:{SOURCE_ACCOUNT.number}:NWBKGB2L,SEK:{SOURCE_ACCOUNT.number}:NWBKGB2L"
    server.app.settings = msgspec.structs.replace(server.app.settings, payout_accounts=accounts)
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    server.tx(lambda tx: create_payee(tx, rule=rule, settlement_currency="SEK"))
    (select,) = re.findall(r'<select id="currency".*?</select>', finance.get(RUNS).text)
    options = re.findall(r'<option value="(\w{3})">([^<]*)', select)
    assert [currency for currency, _ in options] == ["SEK", "CHF"]
    assert "100.00" in options[0][1]
    form = {"currency": "CHF", "reference": "W-50", "on": "", **REASON}
    refusal = finance.post(f"{RUNS}/run", form)
    assert (refusal.status_code, 'id="currency-error"' in refusal.text) == (400, True)
    assert "No payout is due in this currency" in refusal.text
    assert "W-50" not in refusal.text.partition('id="runs"')[2]
    response = finance.post(f"{RUNS}/run", form | {"currency": "SEK"})
    assert response.status_code == 303
    lines = "end_to_end_id,status,amount,currency,bank_reference,reason\nrent,paid,9.00,SEK,B,\n"
    response = _upload(finance, f"{RUNS}/report", "report", lines)
    page = finance.get(response.headers["location"]).text
    assert ('role="status"' in page, "Change or clear the filters" in page) == (True, False)


def test_the_file_of_a_run_above_the_limit_is_offered_to_a_second_person_only(
    shop: Shop, finance: Visitor
) -> None:
    server = shop.api_server
    server.app.settings = msgspec.structs.replace(server.app.settings, approval_above=Decimal(5))
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    merchant = server.tx(lambda tx: create_payee(tx, rule=rule))
    form = {"currency": "EUR", "reference": f"above {merchant.id}", "on": "", **REASON}
    path = finance.post(f"{RUNS}/run", form).headers["location"].partition("?")[0]
    page = finance.get(path).text
    assert ('value="csv"' in page, "Somebody else must download this file" in page) == (
        False,
        True,
    )
    other_person = create_person(server, None, staff_role="finance")
    waiting = visible_text(finance.get("/console/approvals").text)
    assert f"Payout run above {merchant.id}: " in waiting
    assert "You started this run, so somebody else must download its bank file." in waiting
    assert "Approvals to give" in other_person.get("/console").text
    approvals_page = other_person.get("/console/approvals").text
    assert f'<a class="button" href="{path}">View the run</a>' in approvals_page
    page = other_person.get(path).text
    assert ('value="csv"' in page, "Somebody else must download" in page) == (True, False)
    assert _download_file(other_person, path, "csv").status_code == 200
    assert "Download it again" in finance.get(path).text  # anybody may download the same file again
    assert path not in other_person.get("/console/approvals").text


def test_an_invalid_payout_run_is_refused_at_its_field(shop: Shop, finance: Visitor) -> None:
    form = {"currency": "EUR", "reference": "W-49", "on": "", **REASON}
    for change, field in (
        ({"currency": "USD"}, "currency"), ({"reference": " "}, "reference"),
        ({"on": "2020-01-01"}, "on"), ({"reason": ""}, "reason"),
    ):  # fmt: skip
        refusal = finance.post(f"{RUNS}/run", form | change)
        assert refusal.status_code == 400, change
        assert f'id="{field}-error"' in refusal.text
    support = create_person(shop.api_server, None, staff_role="support")
    assert support.post(f"{RUNS}/run", form).status_code == 403
    assert "Start a payout run" not in support.get(RUNS).text
    assert finance.get("/console/payout-runs/run_00000000000000000000000000").status_code == 404


def test_a_settlement_report_is_compared_with_the_books(shop: Shop, finance: Visitor) -> None:
    rows = f"kind,reference,amount,currency,settled_at\npayment,att_zz,5.00,USD,{NOW}\n"
    path = "/console/reconciliation/compare"
    gateway = shop.api_server.app.settings.gateways[0]
    response = _upload(finance, path, "file", rows, gateway=gateway)
    assert response.status_code == 303, response.text
    page = finance.get(response.headers["location"]).text
    # Payments of other tests at the same gateway are missing in the report.
    assert re.search(r"1 row compared, [1-9][0-9]* difference", page)
    assert '<div class="box good"' not in page
    assert "$5.00" in page
    assert "att_zz" in page
    (example,) = re.findall(r'<pre dir="ltr">([^<]+)</pre>', page)
    response = _upload(finance, path, "file", example, gateway=gateway)
    page = finance.get(response.headers["location"]).text
    assert re.search(r"2 rows compared, [1-9][0-9]* differences", page)
    invalid = _upload(finance, path, "file", "x\n", gateway=gateway)
    assert (invalid.status_code, 'id="file-error"' in invalid.text) == (400, True)
    assert _upload(finance, path, "file", rows, gateway="nobody").status_code == 400
