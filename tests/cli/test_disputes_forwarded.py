"""``opentill disputes forward`` records once that a response was forwarded to the bank."""

from cli.database import in_database
from opentill import disputes
from opentill.db.database import Tx
from support import world
from support.commands import Commands, opentill

__all__ = ["opentill"]


def test_a_response_is_forwarded_once(opentill: Commands) -> None:
    async def open_dispute(tx: Tx) -> disputes.Dispute:
        order = await world.create_order_in(tx, "PAID")
        dispute = await world.report_dispute(tx, order, "OPENED")
        assert dispute is not None
        return dispute

    async def contest(tx: Tx) -> disputes.Dispute:
        return await disputes.respond(
            tx, dispute.merchant_id, dispute.id, "CONTESTED", who="ann", now=world.NOW + 1
        )

    opentill.json("merchants", "create", "Harbour Books")  # the first command creates the tables
    dispute = in_database(opentill, open_dispute)
    words = ("disputes", "forward", dispute.order_id)
    refusal = "dispute must be open with a response that was not forwarded yet"
    assert refusal in opentill.refusal(*words, "--reason", "uploaded")
    in_database(opentill, contest)
    assert "reason must say why" in opentill.refusal(*words)
    assert opentill.json(*words, "--reason", "case 12")["response"] == "CONTESTED"
    assert refusal in opentill.refusal(*words, "--reason", "uploaded")
    history = opentill.json("orders", "history", dispute.order_id)
    causes = [row["cause"] for row in history if row["event"] == "dispute_forwarded"]
    assert causes == [f"{dispute.id}: case 12"]
    audited = opentill.json("audit", "list")
    (entry,) = [row for row in audited if row["action"] == "disputes forward"]
    assert (entry["subject"], entry["reason"]) == (dispute.id, "case 12")
