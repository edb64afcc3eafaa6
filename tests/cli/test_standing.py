"""``opentill merchants suspend`` and the other commands that change a merchant's status."""

import pytest

from cli.database import in_database
from opentill.db.database import Tx
from support import world
from support.commands import USER, Commands, opentill

__all__ = ["opentill"]
WHY = ("--reason", "too many disputes")


@pytest.fixture
def merchant_and_order(opentill: Commands) -> tuple[str, str]:
    """The ids of a merchant and of its paid order."""

    async def pay_order(tx: Tx) -> tuple[str, str]:
        order = await world.pay_order(tx, await world.create_order(tx))
        return order.merchant_id, order.id

    return in_database(opentill, pay_order)


def test_a_merchant_is_suspended_resumed_and_closed_with_reasons(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    assert opentill.json("merchants", "show", shop)["status"] == "ACTIVE"
    suspended = opentill.json("merchants", "suspend", shop, *WHY, "--notes", "the bank has called")
    assert suspended == {
        "id": shop, "name": "Harbour Books", "status": "SUSPENDED", "chargeOff": WHY[1],
        "refundOff": None, "payoutOff": WHY[1],
    }  # fmt: skip
    assert "merchant must be ACTIVE to be suspended: this one is SUSPENDED" in opentill.refusal(
        "merchants", "suspend", shop, *WHY
    )
    assert "reason must be text" in opentill.refusal("merchants", "resume", shop)
    opentill.json("merchants", "resume", shop, *WHY)
    off = opentill.json("merchants", "capability", shop, "payout", "off", *WHY)
    assert off["payoutOff"] == WHY[1]
    assert "capability must be one of" in opentill.refusal(
        "merchants", "capability", shop, "fly", "off", *WHY
    )
    opentill.json("merchants", "note", shop, "asked for invoices")
    opentill.json("merchants", "suspend", shop, *WHY)
    assert opentill.json("merchants", "close", shop, *WHY)["openSessions"] == 0
    lines = opentill.json("merchants", "changes", shop)
    assert [line["event"] for line in reversed(lines)] == [
        "created", "suspended", "resumed", "capability_off", "noted", "suspended", "closed",
    ]  # fmt: skip
    assert lines[-2]["notes"] == "the bank has called"
    actions = [row["action"] for row in opentill.json("audit", "list", shop)]
    assert actions[:3] == ["merchants close", "merchants suspend", "merchants note"]
    rows = opentill.json("merchants", "list", "--status", "CLOSED")
    assert [row["id"] for row in rows] == [shop]


def test_approving_an_application_invites_its_owner(opentill: Commands) -> None:
    about = ("--owner-name", "Ada", "--business", "tea", "--owner")
    application = opentill.json("merchants", "apply", "Quay", *about, "ada@example.com", *WHY)
    other = opentill.json("merchants", "apply", "Jetty", *about, "ben@example.com", *WHY)
    assert application["status"] == "APPLIED"
    waiting = opentill.json("merchants", "applications")
    assert {row["merchantId"] for row in waiting} == {application["id"], other["id"]}
    approved = opentill.json("merchants", "approve", application["id"], *WHY)
    assert (approved["status"], approved["email"]) == ("ACTIVE", "ada@example.com")
    assert "/invite/" in approved["url"]
    assert opentill.json("merchants", "decline", other["id"], *WHY)["status"] == "CLOSED"
    assert opentill.json("merchants", "applications") == []


def test_a_forced_refund_is_marked_in_the_audit_log(
    opentill: Commands, merchant_and_order: tuple[str, str]
) -> None:
    shop, order = merchant_and_order
    opentill.json("merchants", "capability", shop, "refund", "off", *WHY)
    refund = ("orders", "refund", order, "--yes", "--reason", "broken")
    refused = opentill.refusal(*refund)
    assert "--force refunds all the same" in refused
    assert "refund must be on for this merchant" in refused
    assert opentill.json(*refund, "--force")["status"] == "PROCESSING"
    row = opentill.json("audit", "list", shop)[0]
    assert row["who"] == USER
    assert row["subject"] == f"{order}, forced: refund is off (too many disputes)"
    opentill.json("merchants", "capability", shop, "payout", "off", *WHY)
    payout = ("payouts", "create", shop, "--amount", "1", "--reference", "W-1", *WHY)
    assert "payout must be on for this merchant" in opentill.refusal(*payout)
