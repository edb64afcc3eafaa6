"""``opentill payouts``: payouts that are paid, fail, or are sent back by the bank."""

import pytest

from cli.options import why
from cli.staff import create_staff
from support.commands import USER, Commands, opentill

__all__ = ["opentill"]

WHY = ("--reason", "weekly")


@pytest.fixture
def shop(opentill: Commands) -> str:
    """A merchant with 100.00 available; its id."""
    merchant_id: str = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("balance", "recharge", merchant_id, "100", *why())
    return merchant_id


def test_a_payout_is_created_and_paid(opentill: Commands, shop: str) -> None:
    create = ("payouts", "create", shop, "--amount", "25.00", "--fee", "1.5", "--reference", "W-1")
    payout = opentill.json(*create, *WHY)
    assert payout["id"].startswith("po_")
    expected = {
        "merchantId": shop, "status": "PENDING", "amount": "25.00", "fee": "1.50",
        "currency": "USD", "reference": "W-1", "reason": "weekly", "createdBy": USER,
        "approvedBy": None, "bankReference": None, "failureReason": None,
    }  # fmt: skip
    assert {name: payout[name] for name in expected} == expected
    assert opentill.json(*create, *WHY) == payout
    assert opentill.json("balance", "show", shop)["available"] == "73.50"
    paid = opentill.json("payouts", "paid", payout["id"], "--bank-reference", "TRN-7")
    assert (paid["status"], paid["bankReference"]) == ("PAID", "TRN-7")
    assert opentill.json("payouts", "show", payout["id"]) == paid
    assert opentill.json("payouts", "list", shop, "--status", "PAID") == [paid]
    assert opentill.json("payouts", "list", "--status", "PENDING") == []
    assert "TRN-7" in opentill.text("payouts", "list")
    assert opentill.json("ledger", "check")["violations"] == []


def test_a_failed_payout_of_everything_restores_the_balance(opentill: Commands, shop: str) -> None:
    payout = opentill.json("payouts", "create", shop, "--all", "--fee", "1", *why())
    assert payout["amount"] == "99.00"
    failed = opentill.json("payouts", "failed", payout["id"], "--reason", "closed")
    assert (failed["status"], failed["failureReason"]) == ("FAILED", "closed")
    assert opentill.json("balance", "show", shop)["available"] == "100.00"
    assert opentill.json("ledger", "check")["violations"] == []


def test_a_paid_payout_that_the_bank_returns_is_available_again(
    opentill: Commands, shop: str
) -> None:
    payout = opentill.json("payouts", "create", shop, "--all", "--fee", "1", *why())
    record = ("payouts", "failed", payout["id"], "--returned", "--reason", "AC04 account closed")
    assert "payout must be PAID: this one is PENDING" in opentill.refusal(*record)
    opentill.json("payouts", "paid", payout["id"], "--bank-reference", "TRN-7")
    payout = opentill.json(*record)
    assert (payout["status"], payout["bankReference"]) == ("FAILED", "TRN-7")
    assert payout["failureReason"] == "AC04 account closed"
    assert None not in (payout["paidAt"], payout["failedAt"])
    assert "payout must be PAID: this one is FAILED" in opentill.refusal(*record)
    assert opentill.json("balance", "show", shop)["available"] == "100.00"
    assert opentill.json("payouts", "create", shop, "--all", *why())["amount"] == "100.00"
    assert opentill.json("ledger", "check")["violations"] == []


def test_a_refused_payout_is_one_line_and_moves_nothing(opentill: Commands, shop: str) -> None:
    payout = opentill.json("payouts", "create", shop, "--amount", "10", *why())
    opentill.json("payouts", "paid", payout["id"], "--bank-reference", "TRN-7")
    before = opentill.json("balance", "show", shop)
    cases = (
        (("create", "mer_x", "--all", *why()), "there is no merchant mer_x"),
        (("create", shop, *why()), "--amount, or everything with --all"),
        (("create", shop, "--amount", "-5", *why()), "amount must be a decimal number"),
        (("create", shop, "--amount", "1.001", *why()), "amount must be a decimal number"),
        (("create", shop, "--amount", "90.01", *why()), "at most what is available: 90.00 USD"),
        (("create", shop, "--amount", "1", "--reference", "W-9"), "reason must be text"),
        (("create", shop, "--amount", "1", *WHY), "reference must be text of 1 to 64"),
        (("paid", "po_x", "--bank-reference", "T"), "there is no payout po_x"),
        (("paid", payout["id"], "--bank-reference", "T"), "this one is PAID"),
        (("failed", payout["id"], *WHY), "If the bank has returned it, add --returned"),
        (("list", "mer_x"), "there is no merchant mer_x"),
        (("list", "--status", "paid"), "status must be one of PENDING PAID FAILED"),
    )
    for words, text in cases:
        assert text in opentill.refusal("payouts", *words), words
    assert opentill.json("balance", "show", shop) == before


def test_a_payout_above_the_limit_needs_a_second_person(opentill: Commands, shop: str) -> None:
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "50"
    create = ("payouts", "create", shop, "--amount", "60", *why())
    ann, bob = create_staff(opentill, "ann", "finance"), create_staff(opentill, "bob")
    request = ann.json(*create)
    assert (request["status"], request["amount"]) == ("WAITING", "60.00")
    assert request["askedBy"] == ann.audit_name
    assert ann.json(*create) == request
    assert opentill.json("balance", "show", shop)["available"] == "100.00"
    approve = ("payouts", "approve", request["id"])
    assert f"another operator than {ann.audit_name}" in ann.refusal(*approve)
    payout = bob.json(*approve)
    assert (payout["status"], payout["createdBy"], payout["approvedBy"]) == (
        "PENDING",
        ann.audit_name,
        bob.audit_name,
    )
    assert "this one is APPROVED" in bob.refusal(*approve)
    assert ann.json(*create) == payout
    other = ann.json("payouts", "create", shop, "--amount", "51", *why())
    assert "at most what is available" in bob.refusal("payouts", "approve", other["id"])
    assert [row["id"] for row in opentill.json("payouts", "waiting")] == [other["id"]]
    rejected = ann.json("payouts", "reject", other["id"], "--reason", "too much")
    assert (rejected["status"], rejected["rejection"]) == ("REJECTED", "too much")
    assert opentill.json("payouts", "waiting") == []
    assert opentill.json("ledger", "check")["violations"] == []
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "-1"
    assert "OPENTILL_APPROVAL_ABOVE is '-1'; it must be a decimal" in opentill.refusal(*create)
