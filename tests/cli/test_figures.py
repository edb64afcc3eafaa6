"""``opentill figures count``: the figures of an old database are counted once."""

import asyncio

from opentill.db.database import Db
from support.commands import Commands, opentill
from support.world import create_order_in

__all__ = ["opentill"]


def test_everything_is_counted_once(opentill: Commands) -> None:
    async def make() -> None:
        db = await Db.connect(opentill.environ["OPENTILL_DATABASE_URL"], acquire_timeout_s=20)
        try:
            await db.run(lambda tx: create_order_in(tx, "SETTLED"))
            await db.run(lambda tx: create_order_in(tx, "FAILED"))
        finally:
            await db.close()

    asyncio.run(make())
    assert opentill.json("figures", "count") == {"counted": 4}  # three entries and one attempt
    assert opentill.json("figures", "count") == {"counted": 0}
    assert opentill.json("ledger", "check")["violations"] == []
