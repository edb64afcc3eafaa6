"""``opentill gateways``: accounts are checked, saved, listed, paused, retired and rotated."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.commands import USER, Commands, opentill
from support.sandbox_accounts import Bank, running_bank

__all__ = ["opentill"]

WHY: Final = ("--reason", "agreed on the phone")


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A sandbox bank."""
    with running_bank(tmp_path_factory.mktemp("bank"), "a-secret-of-the-bank-9876") as bank:
        yield bank


@pytest.fixture
def credentials(bank: Bank, tmp_path: Path) -> str:
    """A file with the credentials of an account at the bank."""
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(bank.credentials))
    return str(path)


def test_an_account_is_added_paused_resumed_rotated_and_retired(
    opentill: Commands, bank: Bank, credentials: str
) -> None:
    options = ("--credentials", credentials, *WHY)
    limits = ("--limit", "EUR:1.00-500.00", "--limit", "JPY:-90000")
    account = opentill.json(
        "gateways", "add", "sandbox", "EU cards", "--methods", "CREDIT_CARD", "--priority", "5",
        *limits, *options,
    )  # fmt: skip
    assert account["credentials"] == {"secret": "…9876", "url": bank.url}
    assert account["limits"] == ["EUR:1.00-500.00", "JPY:-90000.00"]
    assert account["callbackUrl"].endswith(f"/gateways/sandbox/{account['id']}/callback")
    assert (account["status"], account["livemode"], account["priority"]) == ("ACTIVE", False, 5)
    assert opentill.json("gateways", "test", "eu cards")["accepted"] is True
    assert opentill.json("gateways", "pause", "EU cards", *WHY)["status"] == "PAUSED"
    assert opentill.json("gateways", "resume", account["id"], *WHY)["status"] == "ACTIVE"
    rotated = opentill.json("gateways", "rotate", "EU cards", "--overlap", "1", *options)
    assert rotated["previousUntil"] - rotated["updatedAt"] == 3_600_000
    assert opentill.json("gateways", "retire", "EU cards", *WHY)["status"] == "RETIRED"
    assert "is retired" in opentill.refusal("gateways", "resume", "EU cards", *WHY)
    (listed,) = opentill.json("gateways", "list")
    assert listed["id"] == account["id"]

    rows = [row for row in opentill.json("audit", "list") if row["action"].startswith("gateways")]
    assert [row["action"] for row in reversed(rows)] == [
        "gateways add", "gateways pause", "gateways resume", "gateways rotate", "gateways retire",
    ]  # fmt: skip
    assert {(row["who"], row["reason"]) for row in rows} == {(USER, "agreed on the phone")}
    assert bank.secret not in f"{rows} {account} {rotated} {listed}"
    assert opentill.json("audit", "verify")["breaks"] == []


def test_an_account_is_changed_with_a_reason_and_what_is_not_given_stays(
    opentill: Commands, credentials: str
) -> None:
    account = opentill.json(
        "gateways", "add", "sandbox", "Old", "--credentials", credentials, "--limit", "EUR:1.00-",
        "--day-limit", "EUR:10000/200", "--cost", "EUR:1.4%", *WHY,
    )  # fmt: skip
    assert account["dayLimits"] == ["EUR:10000.00/200"]
    assert account["costs"] == ["EUR:1.40%+0.00"]
    del account["callbackUrl"]
    changed = opentill.json(
        "gateways", "set", "Old", "--label", "New", "--methods", "CREDIT_CARD", "--priority", "7",
        "--weight", "3", "--limit", "JPY:-90000", "--day-limit", "EUR:/5", "--day-limit", "USD:50",
        "--cost", "EUR:none", "--cost", "USD:2.9%+0.30", *WHY,
    )  # fmt: skip
    assert changed == account | {
        "label": "New", "methods": "CREDIT_CARD", "priority": 7, "weight": 3,
        "limits": ["EUR:1.00-", "JPY:-90000.00"], "dayLimits": ["EUR:/5", "USD:50.00"],
        "costs": ["USD:2.90%+0.30"], "revision": account["revision"] + 1,
        "updatedAt": changed["updatedAt"],
    }  # fmt: skip
    emptied = opentill.json(
        "gateways", "set", "new", "--methods", "", "--limit", "EUR:none", "--day-limit", "EUR:none",
        *WHY,
    )  # fmt: skip
    assert (emptied["methods"], emptied["limits"]) == ("", ["JPY:-90000.00"])
    assert emptied["dayLimits"] == ["USD:50.00"]
    (listed,) = opentill.json("gateways", "list")
    assert listed == emptied | {"dayTotals": []}
    row = opentill.json("audit", "list")[1]
    assert (row["action"], row["reason"]) == ("gateways set", "agreed on the phone")
    for text in ("label Old → New", "priority 100 → 7", "day limits EUR:10000.00/200 → EUR:/5"):
        assert text in row["subject"]


def test_the_account_of_the_environment_is_paused_and_resumed(opentill: Commands) -> None:
    paused = opentill.json("gateways", "pause", "sandbox", *WHY)
    assert (paused["id"], paused["status"]) == ("sandbox", "PAUSED")
    listing = opentill.run("gateways", "list")
    assert b"Paused of OPENTILL_GATEWAYS: sandbox." in listing.stdout + listing.stderr
    assert opentill.json("gateways", "resume", "sandbox", *WHY)["status"] == "ACTIVE"
    options = ("--break-below", "40", "--break-text", "suspended", "--break-minutes", "5")
    changed = opentill.json("gateways", "set", "sandbox", *options, *WHY)
    assert changed["pausesItself"].endswith(": for 5 minutes")
    rows = [row for row in opentill.json("audit", "list") if row["action"].startswith("gateways")]
    assert [row["action"] for row in reversed(rows)] == [
        "gateways pause", "gateways resume", "gateways set",
    ]  # fmt: skip
    refused = opentill.refusal("gateways", "set", "sandbox", "--priority", "1", *WHY)
    assert "account must be one in the database" in refused
    assert "must be the id or the label" in opentill.refusal("gateways", "retire", "sandbox", *WHY)


def test_credentials_that_the_provider_refuses_are_not_saved(
    opentill: Commands, bank: Bank, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(bank.credentials | {"secret": "not the secret of the bank"}))
    options = ("--credentials", str(path))
    refusal = opentill.refusal("gateways", "add", "sandbox", "Wrong", *options)
    assert "secret differs from that of the bank" in refusal
    assert "not the secret" not in refusal
    assert opentill.json("gateways", "list") == []
    account = opentill.json("gateways", "add", "sandbox", "Wrong", "--unchecked", *options)
    assert "secret differs from that of the bank" in opentill.refusal(
        "gateways", "test", account["id"]
    )


def test_credentials_come_from_environment_variables(opentill: Commands, bank: Bank) -> None:
    names = ("--env", "url=BANK_URL", "--env", "secret=BANK_SECRET")
    account = opentill.json(
        "gateways", "add", "sandbox", "From variables", *names,
        BANK_URL=bank.url, BANK_SECRET=bank.secret,
    )  # fmt: skip
    assert account["credentials"]["url"] == bank.url
    refusal = opentill.refusal(
        "gateways", "add", "sandbox", "Other", "--env", f"secret={bank.secret}"
    )
    assert "env must name a variable that is set, for secret" in refusal
    assert bank.secret not in refusal


def test_the_choice_of_an_account_is_explained(opentill: Commands, bank: Bank) -> None:
    environ = {"BANK_URL": bank.url, "BANK_SECRET": bank.secret}
    common = ("--env", "url=BANK_URL", "--env", "secret=BANK_SECRET", *WHY)
    for label, *options in (
        ("Cards", "--methods", "CREDIT_CARD"),
        ("Large", "--limit", "CNY:100.00-", "--priority", "1"),
        ("First", "--priority", "2", "--weight", "30"),
        ("Second", "--priority", "2"),
        ("Little", "--priority", "1", "--day-limit", "CNY:9.99"),
        ("Resting",),
    ):
        opentill.json("gateways", "add", "sandbox", label, *options, *common, **environ)
    opentill.json("gateways", "pause", "Resting", *WHY)
    payment = ("--amount", "10", "--currency", "cny", "--method", "alipay")
    rows = opentill.json("gateways", "explain", *payment, "--device", "phone")
    assert [row["place"] for row in rows] == [1, 2, 3, None, None, None, None]
    assert [row["result"] for row in rows] == ["chosen", "fits", "fits"] + ["does not fit"] * 4
    assert (rows[0]["account"], rows[0]["why"]) == (
        "sandbox", "order of OPENTILL_ROUTES and OPENTILL_GATEWAYS",
    )  # fmt: skip
    assert {rows[1]["account"], rows[2]["account"]} == {"First (sandbox)", "Second (sandbox)"}
    assert rows[1]["why"].startswith("priority 2, at random with weight ")
    assert {row["account"]: row["why"] for row in rows[3:]} == {
        "Cards (sandbox)": "it does not take ALIPAY in CNY",
        "Large (sandbox)": "the amount is outside its limits: CNY:100.00-",
        "Little (sandbox)": "it has reached its limit of the day: CNY:9.99",
        "Resting (sandbox)": "it is paused",
    }
    for words, text in (
        (("--amount", "x"), "--amount must be a decimal number"),
        (("--currency", "XXY"), "--currency must be an ISO 4217 code"),
        (("--method", "CARD"), "--method must be one of"),
        (("--device", "tablet"), "--device must be desktop or phone"),
    ):
        assert text in opentill.refusal("gateways", "explain", *payment, *words)


def test_rules_are_listed_added_moved_and_removed(opentill: Commands, credentials: str) -> None:
    account = opentill.json("gateways", "add", "sandbox", "A", "--credentials", credentials, *WHY)
    rules = ("gateways", "rules")
    assert opentill.json(*rules, "list") == []
    merchant = opentill.json("merchants", "create", "Tea", "--currency", "CNY")["id"]
    named = opentill.json(
        *rules, "add", "--method", "alipay", "--amount", "CNY:10-500", "--merchant", "Tea",
        "--device", "phone", "--account", "a", "--account", "sandbox", "--only", *WHY,
    )  # fmt: skip
    assert named["accounts"] == [account["id"], "sandbox"]
    assert named["payments"] == f"ALIPAY CNY 10.00-500.00 {merchant} on a phone"
    assert (named["action"], named["only"]) == ("A (sandbox), sandbox", True)
    ordered = opentill.json(*rules, "add", "--order-by", "success-rate", "--position", "1", *WHY)
    assert (ordered["payments"], ordered["position"]) == ("every payment", 1)
    assert ordered["action"] == "by success rate, explores 2 %"
    explained = opentill.json(
        "gateways", "explain", "--amount", "9", "--currency", "CNY", "--method", "ALIPAY"
    )
    assert explained[0]["why"] in {  # 2 % of the payments explore
        f"rule {ordered['id']} (at position 1): best success rate: 100 %",
        f"rule {ordered['id']} (at position 1): test of the success rate: 100 %",
    }
    changed = opentill.json(
        *rules, "set", named["id"], "--amount", "CNY:-300", "--device", "", "--others", *WHY
    )
    assert changed["payments"] == f"ALIPAY CNY -300.00 {merchant}"
    assert (changed["action"], changed["only"]) == ("A (sandbox), sandbox", False)
    assert (changed["id"], changed["position"]) == (named["id"], 2)
    by_cost = opentill.json(*rules, "set", "2", "--order-by", "cost", "--amount", "", *WHY)
    assert (by_cost["payments"], by_cost["action"]) == (f"ALIPAY CNY {merchant}", "by cost")
    assert opentill.json(*rules, "move", "2", "1", *WHY)["id"] == named["id"]
    assert opentill.json(*rules, "remove", named["id"], *WHY)["id"] == named["id"]
    (listed,) = opentill.json(*rules, "list")
    assert listed == ordered
    for words, text in (
        (("set", "9"), "must be the id or the position of one"),
        (("set", "1", "--only"), "--only must be used with accounts"),
        (("set", "1", "--account", "A", "--order-by", "cost"), "--order-by must not be used"),
        (("add",), "--account must be given, or else an order"),
        (("add", "--account", "nobody"), "--account must be the id or the label of one"),
        (("add", "--account", "A", "--order-by", "cost"), "--order-by must not be used together"),
        (("add", "--order-by", "size"), "--order-by must be one of priority, weight, cost"),
        (("add", "--account", "A", "--amount", "CNY"), "--amount must be like"),
        (("move", "1", "2"), "must be a whole number from 1 to 1"),
        (("remove", "9"), "must be the id or the position of one"),
    ):
        assert text in opentill.refusal(*rules, *words)


REFUSALS: Final[list[tuple[tuple[str, ...], str]]] = [
    (("add", "manual", "A"), "gateway must be one of"),
    (("add", "sandbox", "A", "--env", "url=PATH"), "must be given"),
    (("add", "sandbox", " "), "label must be"),
    (("add", "sandbox", "A", "--limit", "EUR"), "limit must be like EUR:1.00-500.00"),
    (("add", "sandbox", "A", "--limit", "EUR:x-1"), "limit"),
    (("add", "sandbox", "A", "--weight", "0"), "weight must be a whole number"),
    (("add", "sandbox", "A", "--day-limit", "EUR:"), "day-limit must be like EUR:10000.00/200"),
    (("add", "sandbox", "A", "--day-limit", "EUR:1/x"), "must have a whole number after the /"),
    (("add", "sandbox", "A", "--cost", "EUR:2.999%"), "cost must be like EUR:2.9%+0.30"),
    (("set", "nobody", "--priority", "5"), "account must be the id or the label of one"),
    (("pause", "nobody"), "account must be the id or the label of one"),
]


@pytest.mark.parametrize(("words", "text"), REFUSALS)
def test_bad_input_is_refused_with_its_name(
    opentill: Commands, words: tuple[str, ...], text: str
) -> None:
    assert text in opentill.refusal("gateways", *words)


def test_a_file_of_credentials_must_be_json_and_is_not_quoted(
    opentill: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "bad.json"
    path.write_text("sk_live_a_secret")
    refusal = opentill.refusal("gateways", "add", "stripe", "A", "--credentials", str(path))
    assert "credentials must be a JSON object of texts" in refusal
    assert "a_secret" not in refusal


def test_doctor_reports_each_account(
    opentill: Commands, bank: Bank, credentials: str, tmp_path: Path
) -> None:
    opentill.json("gateways", "add", "sandbox", "Good", "--credentials", credentials)
    path = tmp_path / "away.json"
    path.write_text(json.dumps({"url": "http://127.0.0.1:9", "secret": "s" * 20}))
    opentill.json("gateways", "add", "sandbox", "Away", "--unchecked", "--credentials", str(path))
    findings: list[dict[str, Any]] = json.loads(opentill.run("doctor", "--json").stdout)
    levels = {row["text"].split(" ")[0]: row["level"] for row in findings
              if row["subject"] == "account"}  # fmt: skip
    assert levels == {"Good": "ok", "Away": "fail"}
