"""``opentill approvals``: a request above the limit needs the approval of another person."""

from typing import Any, Final

import pytest

from cli.database import in_database
from cli.staff import create_staff
from support.commands import Commands, opentill
from support.world import create_order_in

__all__ = ["opentill"]

WHY: Final = ("--reason", "seen at the bank")


@pytest.fixture
def limited(opentill: Commands) -> Commands:
    opentill.environ["OPENTILL_APPROVAL_ABOVE"] = "5"
    return opentill


def order_in(opentill: Commands, status: str) -> str:
    """Create an order of 9.99 USD with a new merchant; return the order's id."""
    return in_database(opentill, lambda tx: create_order_in(tx, status)).id


def status_of(opentill: Commands, order_id: str) -> Any:
    return opentill.json("orders", "show", order_id)["status"]


def test_a_confirmation_is_requested_by_one_person_and_approved_by_another(
    limited: Commands,
) -> None:
    order = order_in(limited, "PENDING")
    ann, bob = create_staff(limited, "ann"), create_staff(limited, "bob")
    request = ann.json("orders", "confirm", order, *WHY)
    assert (request["action"], request["status"], request["amount"]) == (
        "confirm",
        "WAITING",
        "9.99",
    )
    assert status_of(limited, order) == "PENDING"
    (listed,) = limited.json("approvals", "list")
    assert (listed["id"], listed["about"], listed["askedBy"]) == (
        request["id"],
        order,
        ann.audit_name,
    )
    approve = ("approvals", "approve", request["id"])
    assert "another operator than" in ann.refusal(*approve)
    assert "somebody who has logged in" in limited.refusal(*approve)
    assert bob.json(*approve)["approvedBy"] == bob.audit_name
    assert status_of(limited, order) == "PAID"
    assert limited.json("approvals", "list") == []
    assert "there is no movement" not in bob.refusal(*approve)


def test_a_refund_by_staff_waits_and_is_rejected(limited: Commands) -> None:
    order = order_in(limited, "PAID")
    ann, bob = create_staff(limited, "ann", "support"), create_staff(limited, "bob")
    small = ann.json("orders", "refund", order, "--amount", "1.00", "--yes", *WHY)
    assert small["status"] == "PROCESSING"
    request = ann.json("orders", "refund", order, "--amount", "4.01", "--yes", *WHY)
    assert request["status"] == "WAITING"  # both refunds together (5.01) exceed the limit
    rejected = bob.json("approvals", "reject", request["id"], "--reason", "not torn")
    assert rejected["status"] == "REJECTED"
    assert limited.json("approvals", "list") == []


def test_the_owner_of_the_machine_cannot_request_above_the_limit(limited: Commands) -> None:
    order = order_in(limited, "PENDING")
    for option in (("--as-root",), ()):
        refusal = limited.run("orders", "confirm", order, *WHY, *option)
        assert refusal.returncode == 2
        assert "somebody who has logged in must" in refusal.stderr.decode()
    assert limited.json("approvals", "list") == []
    assert status_of(limited, order) == "PENDING"


def test_requests_of_every_kind_are_approved_by_one_command(limited: Commands) -> None:
    shop = limited.json("merchants", "create", "Harbour Books")["id"]
    ann, bob = create_staff(limited, "ann"), create_staff(limited, "bob")
    recharge = ("balance", "recharge", shop, "50", "--reference", "R", *WHY)
    recharged = ann.json(*recharge)["id"]
    bob.json("approvals", "approve", recharged)
    payout = ann.json("payouts", "create", shop, "--amount", "40", "--reference", "P", *WHY)["id"]
    assert [request["kind"] for request in limited.json("approvals", "list")] == ["payout"]
    bob.json("approvals", "approve", payout)
    (paid,) = limited.json("payouts", "list", shop)
    assert paid["amount"] == "40.00"
    failed = ann.json("payouts", "failed", paid["id"], "--reason", "account closed")
    assert failed["action"] == "payout-failed"
    assert limited.json("payouts", "list", shop)[0]["status"] == "PENDING"
    bob.json("approvals", "approve", failed["id"])
    assert limited.json("payouts", "list", shop)[0]["status"] == "FAILED"


def test_a_recorded_refund_waits_and_is_recorded_once(limited: Commands) -> None:
    order = order_in(limited, "PENDING")
    ann, bob = create_staff(limited, "ann"), create_staff(limited, "bob")
    request = ann.json("orders", "confirm", order, *WHY)
    bob.json("approvals", "approve", request["id"])
    record = ("refunds", "record", order, "9.99", "--reference", "B-1", *WHY)
    request = ann.json(*record)
    assert (request["action"], request["status"], request["amount"]) == (
        "refund-recorded",
        "WAITING",
        "9.99",
    )
    assert ann.json(*record)["id"] == request["id"]
    assert "must not wait already" in ann.refusal(*record[:5], "B-2", *WHY)
    assert status_of(limited, order) == "PAID"
    assert "somebody who has logged in" in limited.refusal(*record)
    bob.json("approvals", "approve", request["id"])
    assert status_of(limited, order) == "REFUNDED"
    # Repeated, the command returns the same refund.
    assert ann.json(*record)["status"] == "SUCCEEDED"
