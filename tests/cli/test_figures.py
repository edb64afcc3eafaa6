"""``opentill figures count``: the figures of an old database are counted once."""

from cli.database import in_database
from support.commands import Commands, opentill
from support.world import create_order_in

__all__ = ["opentill"]


def test_entries_and_attempts_are_counted_once(opentill: Commands) -> None:
    for status in ("SETTLED", "FAILED"):
        in_database(opentill, lambda tx, status=status: create_order_in(tx, status))
    # Three entries and one attempt are counted.
    assert opentill.json("figures", "count") == {"counted": 4}
    assert opentill.json("figures", "count") == {"counted": 0}
    assert opentill.json("ledger", "check")["violations"] == []
