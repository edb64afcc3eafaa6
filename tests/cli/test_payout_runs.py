"""``opentill payouts run`` with the bank's reports, ``reconcile inbox``, and the ledger."""

import itertools
from decimal import Decimal
from pathlib import Path

from support.commands import USER, Commands, opentill

__all__ = ["opentill"]

WHY = ("--reason", "weekly")
ACCOUNT = ("--holder", "Harbour Books", "--account", "DE89 3704 0044 0532 0130 00")
_numbers = itertools.count(1)


def _shop(opentill: Commands) -> str:
    merchant_id: str = opentill.json("merchants", "create", "A", "--currency", "EUR")["id"]
    reference = ("--reference", f"S-{next(_numbers)}")
    opentill.json("balance", "recharge", merchant_id, "100", *WHY, *reference)
    opentill.json("payouts", "set-account", merchant_id, *ACCOUNT, *WHY)
    return merchant_id


def test_a_run_counts_the_accounts_without_an_address(opentill: Commands, tmp_path: Path) -> None:
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:GB29NWBK60161331926819:NWBKGB2L"
    with_address, without = _shop(opentill), _shop(opentill)
    address = ("--street", "Hauptstr.", "--building", "1", "--post-code", "10117")
    change = ("payouts", "set-account", with_address, *ACCOUNT, *WHY, *address)
    assert "town must be given" in opentill.refusal(*change)
    town = ("--town", "Berlin", "--address-country", "DE")
    account = opentill.json(*change, *town)
    assert (account["hasAddress"], "Berlin" in str(account)) == (True, False)
    start = ("payouts", "run", "EUR", "--reference", "W-8", *WHY)
    output = opentill.run(*start).stderr.decode()
    assert "accounts without an address: 1" in output
    assert "OPENTILL_PAYOUT_ADDRESS is not set" in output
    run = opentill.json(*start)
    assert run["withoutAddress"] == 1
    listed = opentill.json("payouts", "runs", run["id"])
    assert {row["merchantId"]: row["hasAddress"] for row in listed} == {
        with_address: True, without: False,
    }  # fmt: skip
    opentill.environ["OPENTILL_PAYOUT_ADDRESS"] = "town=London;country=GB;street=1 High Street"
    opentill.json("balance", "recharge", without, "100", *WHY, "--reference", "S-again")
    other = opentill.json("payouts", "run", "EUR", "--reference", "W-9", *WHY)
    content = tmp_path / "file.xml"
    opentill.text("payouts", "file", other["id"], "--output", str(content))
    assert "<StrtNm>1 High Street</StrtNm><TwnNm>London</TwnNm>" in content.read_text()


def test_all_payouts_of_a_run_are_paid_by_one_command(opentill: Commands, tmp_path: Path) -> None:
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:GB29NWBK60161331926819:NWBKGB2L"
    shops = [_shop(opentill) for _ in range(2)]
    run = opentill.json("payouts", "run", "EUR", "--reference", "W-7", *WHY)
    record_paid = ("payouts", "paid", run["id"], "--bank-reference", "B-1")
    assert "run must be SENT" in opentill.refusal(*record_paid)
    opentill.text("payouts", "file", run["id"], "--output", str(tmp_path / "file.xml"))
    paid = opentill.json(*record_paid)
    assert (paid["paidNow"], paid["paid"], paid["pending"]) == (2, 2, 0)
    assert opentill.json(*record_paid)["paidNow"] == 0
    for shop in shops:
        (payout,) = opentill.json("payouts", "list", shop)
        assert (payout["status"], payout["bankReference"]) == ("PAID", "B-1")
    assert opentill.json("ledger", "check")["violations"] == []


def test_a_week_of_payouts_is_paid_reported_and_in_the_ledger(
    opentill: Commands, tmp_path: Path
) -> None:
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:GB29NWBK60161331926819:NWBKGB2L"
    shops = [_shop(opentill) for _ in range(2)]
    assert opentill.json("payouts", "account", shops[0])["account"] == "DE •••• 3000"
    assert {row["waitsFor"] for row in opentill.json("payouts", "due")} == {None}
    start = ("payouts", "run", "EUR", "--reference", "W-1", *WHY)
    run = opentill.json(*start)
    assert (run["status"], run["payouts"], run["amount"]) == ("READY", 2, "200.00")
    assert opentill.json(*start)["id"] == run["id"]
    payouts = opentill.json("payouts", "runs", run["id"])
    assert sorted(payout["merchantId"] for payout in payouts) == sorted(shops)
    files = [tmp_path / "one.xml", tmp_path / "two.xml"]
    for file in files:
        opentill.text("payouts", "file", run["id"], "--output", str(file))
    content = files[0].read_bytes()
    assert content == files[1].read_bytes()
    ids = [payout["id"].replace("_", "-") for payout in payouts]
    assert all(payout_id.encode() in content for payout_id in ids)
    report = tmp_path / "bank.csv"
    report.write_text(
        "end_to_end_id,status,amount,currency,bank_reference,reason\n"
        f"{ids[0]},paid,100.00,EUR,B-1,\n"
        f"{payouts[1]['id']},failed,100.00,EUR,B-2,closed\n"
        "po_01m7y0m0jzefzv5n8efcf1hqw5,paid,7.00,EUR,B-3,\n"
        "rent,paid,7.00,EUR,B-4,\n"
    )
    result = opentill.json("payouts", "report", str(report))
    assert (result["sent"], result["returned"], result["found"], result["other"]) == (1, 1, 1, 1)
    (booking,) = opentill.json("reconcile", "inbox", "--bookings")
    assert (booking["reference"], booking["theirs"]) == ("rent", "7.00 EUR debit, B-4")
    assert not opentill.json("payouts", "report", str(report))["isNew"]
    (difference,) = opentill.json("reconcile", "inbox")
    assert (difference["what"], difference["reference"]) == (
        "missing in ledger",
        "po_01m7y0m0jzefzv5n8efcf1hqw5",
    )
    resolve = ("reconcile", "resolve", difference["id"], "--reason", "the office")
    assert opentill.json(*resolve)["resolvedBy"] == USER
    assert "must be open" in opentill.refusal(*resolve)
    assert opentill.json("reconcile", "inbox") == []
    assert len(opentill.json("reconcile", "files")) == 1
    (row,) = opentill.json("ledger", "accounts", "--at", "today")
    assert sum(Decimal(row[name]) for name in row if name not in ("currency", "merchants")) == 0
    by_merchant = opentill.json("ledger", "accounts", "--by-merchant")
    assert sorted(row["merchantId"] for row in by_merchant) == sorted(shops)
    lines = opentill.text("ledger", "export").splitlines()
    # The header, and two lines for each of two recharges, two payouts and a payout that came back.
    assert len(lines) == 1 + 2 * 5
    assert opentill.json("ledger", "check")["violations"] == []


def test_the_payouts_sent_are_those_in_the_file(opentill: Commands, tmp_path: Path) -> None:
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:GB29NWBK60161331926819:NWBKGB2L"
    changed, paid = (_shop(opentill) for _ in range(2))
    run = opentill.json("payouts", "run", "EUR", "--reference", "W-2", *WHY)
    assert (run["inFile"], run["fileAmount"]) == (None, None)
    other = (*ACCOUNT[:2], "--account", "DE75512108001245126199")
    opentill.json("payouts", "set-account", changed, *other, *WHY)
    file = ("payouts", "file", run["id"], "--output", str(tmp_path / "one.xml"))
    run = opentill.json(*file)
    assert (run["payouts"], run["amount"], run["failed"]) == (2, "200.00", 1)
    assert (run["inFile"], run["fileAmount"]) == (1, "100.00")
    line = "SENT: 1 payouts, 100.00 EUR in the file; 2 payouts, 200.00 EUR in the run"
    assert f"{run['id']} {line}" in opentill.run(*file).stderr.decode()
    payouts = opentill.json("payouts", "runs", run["id"])
    in_file = {payout["merchantId"]: payout["inFile"] for payout in payouts}
    assert in_file == {changed: False, paid: True}


def test_errors_name_accepted_values(opentill: Commands, tmp_path: Path) -> None:
    shop = _shop(opentill)
    cases = (
        (("payouts", "run", "EUR", "--reference", "W", *WHY), "OPENTILL_PAYOUT_ACCOUNTS"),
        (("payouts", "file", "run_x"), "there is no run run_x"),
        (("payouts", "runs", "run_x"), "there is no run run_x"),
        (("payouts", "report", str(tmp_path / "none")), "must be one that can be read"),
        (("payouts", "account", "mer_x"), "there is no merchant mer_x"),
        (
            ("payouts", "set-account", shop, "--holder", "A", "--account", "DE00", *WHY),
            "account must be an IBAN whose check digits are right",
        ),
        (("reconcile", "resolve", "dif_x", *WHY), "there is no difference dif_x"),
        (("ledger", "export", "mer_x"), "there is no merchant mer_x"),
    )
    for words, text in cases:
        assert text in opentill.refusal(*words), words
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:nonsense"
    assert "OPENTILL_PAYOUT_ACCOUNTS" in opentill.refusal("payouts", "due")


def test_an_account_is_confirmed_after_a_return(opentill: Commands, tmp_path: Path) -> None:
    opentill.environ["OPENTILL_PAYOUT_ACCOUNTS"] = "EUR:GB29NWBK60161331926819:NWBKGB2L"
    shop = _shop(opentill)
    run = opentill.json("payouts", "run", "EUR", "--reference", "W-R", *WHY)
    opentill.text("payouts", "file", run["id"], "--output", str(tmp_path / "file.xml"))
    opentill.json("payouts", "paid", run["id"], "--bank-reference", "B-1")
    (payout,) = opentill.json("payouts", "list", shop)
    opentill.json("payouts", "failed", payout["id"], "--returned", "--reason", "AC04")
    (due,) = [row for row in opentill.json("payouts", "due") if row["merchantId"] == shop]
    assert due["waitsFor"] == "payout returned"
    confirm = ("payouts", "confirm-account", shop, "--reason", "asked their bank")
    assert opentill.json(*confirm)["account"] == "DE •••• 3000"
    assert "account must be one to which the bank returned" in opentill.refusal(*confirm)
    (due,) = [row for row in opentill.json("payouts", "due") if row["merchantId"] == shop]
    assert (due["waitsFor"], due["heldSince"]) == (None, None)
