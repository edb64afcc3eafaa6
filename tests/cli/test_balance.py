"""``opentill balance``: adjustments by operators."""

import pytest

from cli.database import in_database
from cli.options import WHY, why
from cli.staff import create_staff
from support.commands import USER, Commands, opentill
from support.world import create_order_in

__all__ = ["opentill"]


@pytest.fixture
def merchant_and_order(opentill: Commands) -> tuple[str, str]:
    """The ids of a merchant with 100.00 available, and of its paid order."""
    order = in_database(opentill, lambda tx: create_order_in(tx, "PAID"))
    opentill.json("balance", "recharge", order.merchant_id, "100", *why())
    return order.merchant_id, order.id


def _accounts(opentill: Commands, shop: str) -> tuple[str, ...]:
    balance = opentill.json("balance", "show", shop)
    return tuple(balance[name] for name in ("pending", "available", "frozen", "frozenByHand"))


def test_every_kind_of_adjustment_changes_the_balance(
    opentill: Commands, merchant_and_order: tuple[str, str]
) -> None:
    shop, order = merchant_and_order
    assert _accounts(opentill, shop) == ("9.59", "100.00", "0.00", "0.00")
    frozen = opentill.json("balance", "freeze", shop, "40", "--reference", "F-1", *WHY)
    assert frozen["id"].startswith("mov_")
    expected = {
        "merchantId": shop, "kind": "freeze", "status": "DONE", "amount": "40.00",
        "currency": "USD", "account": "available", "orderId": None, "reference": "F-1",
        "reason": "agreed", "askedBy": USER, "decidedBy": None, "rejection": None,
    }  # fmt: skip
    assert {name: frozen[name] for name in expected} == expected
    assert opentill.json("balance", "freeze", shop, "40", "--reference", "F-1", *WHY) == frozen
    opentill.json("balance", "unfreeze", shop, "15", *why())
    opentill.json("balance", "fee", shop, "2.50", *why())
    opentill.json("balance", "correct", shop, "-9.99", "--order", order, *why())
    opentill.json("balance", "correct", shop, "1", "--order", order, "--account", "pending", *why())
    assert _accounts(opentill, shop) == ("10.59", "62.51", "25.00", "25.00")
    assert opentill.json("ledger", "check")["violations"] == []
    assert "frozen by hand" in opentill.text("balance", "show", shop)


def test_a_new_merchant_has_a_balance_of_zero(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Quay", "--currency", "JPY")["id"]
    balance = opentill.json("balance", "show", shop)
    assert (balance["available"], balance["currency"], balance["updatedAt"]) == (
        "0.00",
        "JPY",
        None,
    )
    assert "without a fraction, since JPY has none" in opentill.refusal(
        "balance", "recharge", shop, "1.50", *why()
    )


def test_a_refused_adjustment_is_one_line_and_moves_nothing(
    opentill: Commands, merchant_and_order: tuple[str, str]
) -> None:
    shop, order = merchant_and_order
    before = _accounts(opentill, shop)
    cases = (
        (("freeze", "mer_x", "1", *why()), "there is no merchant mer_x"),
        (("freeze", shop, "-5", *why()), "amount must be a decimal number"),
        (("recharge", shop, "1.001", *why()), "amount must be a decimal number"),
        (("freeze", shop, "100.01", *why()), "at or above 0.00 USD"),
        (("correct", shop, "--5", "--order", order, *why()), "amount must be a decimal number"),
        (("correct", shop, "-5", "--order", "order_x", *why()), "order must be an order of"),
        (
            ("correct", shop, "5", "--order", order, "--account", "frozen", *why()),
            "account must be",
        ),
        (("fee", shop, "1", *WHY), "reference must be"),
        (("fee", shop, "1", "--reference", "F-9"), "reason must be text"),
        (("approve", "mov_x"), "somebody who has logged in must do this"),
    )
    for words, text in cases:
        assert text in opentill.refusal("balance", *words), words
    assert _accounts(opentill, shop) == before


def test_an_adjustment_above_the_limit_needs_a_second_person(
    opentill: Commands, merchant_and_order: tuple[str, str]
) -> None:
    shop, _ = merchant_and_order
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "50.00"
    ann, bob = create_staff(opentill, "ann", "finance"), create_staff(opentill, "bob")
    output = ann.run("balance", "recharge", shop, "60", "--json", *why())
    assert output.returncode == 0
    assert b"waits for a second person: opentill balance approve mov_" in output.stderr
    (waiting,) = opentill.json("balance", "waiting", shop)
    assert (waiting["status"], waiting["amount"]) == ("WAITING", "60.00")
    assert waiting["askedBy"] == ann.audit_name
    assert _accounts(opentill, shop)[1] == "100.00"
    approve = ("balance", "approve", waiting["id"])
    assert f"another operator than {ann.audit_name}" in ann.refusal(*approve)
    approved = bob.json(*approve)
    assert (approved["status"], approved["decidedBy"]) == ("DONE", bob.audit_name)
    assert _accounts(opentill, shop)[1] == "160.00"
    assert "this one is DONE" in bob.refusal(*approve)
    other = ann.json("balance", "freeze", shop, "51", *why())
    rejected = opentill.json("balance", "reject", other["id"], "--reason", "too much")
    assert (rejected["status"], rejected["rejection"]) == ("REJECTED", "too much")
    assert opentill.json("balance", "waiting") == []
    assert opentill.json("ledger", "check")["violations"] == []
