"""``opentill disputes unmatched|dismiss``: messages of gateways that match no order."""

import asyncio

import pytest

from opentill import disputes
from opentill.core.money import Money
from opentill.db import connection as connections
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
    ("amount", "shown", "in_table"),
    [
        (Money(999, "USD"), "9.99", "9.99 USD"),
        (Money(9991, "KWD"), "9991 minor units of KWD", "9991 minor units of KWD"),
        (Money(999, "ANG"), "999 minor units of ANG", "999 minor units of ANG"),
    ],
)
def test_any_amount_is_listed_and_dismissed(
    opentill: Commands, amount: Money, shown: str, in_table: str
) -> None:
    async def make() -> str:
        tx = await connections.connect(opentill.environ["OPENTILL_DATABASE_URL"])
        try:
            order = await world.create_order_in(tx, "DISPUTED")
            event = GatewayDisputeEvent(
                attempt_id=order.paid_attempt_id or "",
                dispute_ref="b",
                status="LOST",
                amount=amount,
            )
            await disputes.apply_outcome(tx, order.merchant_id, event, world.NOW, gateway="sandbox")
            return order.merchant_id
        finally:
            await tx.close()

    opentill.json("merchants", "create", "Harbour Books")  # creates the schema
    shop = asyncio.run(make())
    (row,) = opentill.json("disputes", "unmatched", "--merchant", shop)
    assert (row["amount"], row["currency"]) == (shown, amount.currency)
    assert in_table in opentill.text("disputes", "unmatched", "--merchant", shop)
    closed = opentill.json("disputes", "dismiss", shop, "sandbox", "b", "--reason", "seen")
    assert closed["amount"] == shown
