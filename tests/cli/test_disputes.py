"""``opentill disputes unmatched|dismiss``: gateway events that match no order."""

import pytest

from cli.database import in_database
from opentill import disputes
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import GatewayDisputeEvent
from support import world
from support.commands import Commands, opentill

__all__ = ["opentill"]


def test_errors_are_one_line(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    assert opentill.json("disputes", "unmatched") == []
    assert "there is no merchant mer_x" in opentill.refusal(
        "disputes", "unmatched", "--merchant", "mer_x"
    )
    words = ("disputes", "dismiss", shop, "sandbox", "dp_1")
    assert "there is no unmatched dispute dp_1" in opentill.refusal(*words, "--reason", "seen")
    assert "reason must say why" in opentill.refusal(*words)
    assert opentill.json("ledger", "check")["unmatchedDisputes"] == 0


@pytest.mark.parametrize(
    ("amount", "text", "in_table"),
    [
        (Money(999, "USD"), "9.99", "9.99 USD"),
        (Money(9991, "KWD"), "9991 minor units of KWD", "9991 minor units of KWD"),
        (Money(999, "ANG"), "999 minor units of ANG", "999 minor units of ANG"),
    ],
)
def test_any_amount_is_listed_and_dismissed(
    opentill: Commands, amount: Money, text: str, in_table: str
) -> None:
    async def report_dispute(tx: Tx) -> str:
        order = await world.create_order_in(tx, "DISPUTED")
        event = GatewayDisputeEvent(
            attempt_id=order.paid_attempt_id or "", dispute_ref="b", status="LOST", amount=amount
        )
        await disputes.apply_outcome(tx, order.merchant_id, event, world.NOW, gateway="sandbox")
        return order.merchant_id

    opentill.json("merchants", "create", "Harbour Books")  # the first command creates the tables
    shop = in_database(opentill, report_dispute)
    (row,) = opentill.json("disputes", "unmatched", "--merchant", shop)
    assert (row["amount"], row["currency"]) == (text, amount.currency)
    assert in_table in opentill.text("disputes", "unmatched", "--merchant", shop)
    dismissed = opentill.json("disputes", "dismiss", shop, "sandbox", "b", "--reason", "seen")
    assert dismissed["amount"] == text
