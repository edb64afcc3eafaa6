"""``opentill disputes unmatched|dismiss``: what gateways said and no order could take."""

from support.commands import Commands, opentill

__all__ = ["opentill"]


def test_the_commands_refuse_in_one_line(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    assert opentill.json("disputes", "unmatched") == []
    assert "there is no merchant mer_x" in opentill.refusal(
        "disputes", "unmatched", "--merchant", "mer_x"
    )
    words = ("disputes", "dismiss", shop, "sandbox", "dp_1")
    assert "there is no unmatched dispute dp_1" in opentill.refusal(*words, "--reason", "seen")
    assert "reason must say why" in opentill.refusal(*words)
    assert opentill.json("ledger", "check")["unmatchedDisputes"] == 0
