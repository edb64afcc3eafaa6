"""The long versions of tests: deep random histories, concurrent movements and many kills."""

import collections
import os

import pytest

from exploration.test_random_histories import EVENTS, explore
from opentill.db.database import Db
from support.concurrent_movements import hammered
from support.crash_load import standing

pytestmark = pytest.mark.stress
MINUTES = float(os.environ.get("STRESS_MINUTES", "5"))


def test_deep_random_histories(rollback_database_url: str) -> None:
    """Run forty histories for each minute, and more until each event has occurred."""
    events: collections.Counter[str] = collections.Counter()
    rounds = max(1, round(MINUTES))
    for number in range(rounds * 3):
        if number >= rounds and events.keys() >= EVENTS:
            break
        events.update(explore(rollback_database_url, 40, 80, fixed=False))
    print(dict(events))  # noqa: T201
    assert events.keys() >= EVENTS, EVENTS - events.keys()


async def test_concurrent_movements_for_minutes(db: Db, database_url: str) -> None:
    hammer = await hammered(db, database_url, seconds=MINUTES * 12)
    print(dict(hammer.done), dict(hammer.refused))  # noqa: T201


async def test_killed_processes_lose_nothing() -> None:
    async with standing(servers=3) as storm:
        for _ in range(max(1, round(MINUTES * 2))):
            await storm.rage(seconds=30, customers=12, pause_s=1.0)
            await storm.reckon(90)
        assert storm.kills.total() >= 10
        print(dict(storm.kills), dict(storm.answers), len(storm.opened), len(storm.refunded))  # noqa: T201 - the figures
