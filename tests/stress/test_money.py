"""The long versions of tests: deep random histories, concurrent movements and many kills."""

import collections
import os

import pytest

from exploration.test_random_histories import EVENTS, explore
from opentill.db.database import Db
from support.concurrent_movements import run_movements
from support.crash_load import running_crash_load

pytestmark = pytest.mark.stress
MINUTES = float(os.environ.get("STRESS_MINUTES", "5"))


def test_deep_random_histories_agree_with_the_model(rollback_database_url: str) -> None:
    """Run forty histories for each minute, and more until each event has occurred."""
    events: collections.Counter[str] = collections.Counter()
    rounds = max(1, round(MINUTES))
    for number in range(rounds * 3):
        if number >= rounds and events.keys() >= EVENTS:
            break
        events.update(explore(rollback_database_url, 40, 80, fixed=False))
    print(dict(events))  # noqa: T201 - the figures
    assert events.keys() >= EVENTS, EVENTS - events.keys()


async def test_concurrent_movements_for_minutes_leave_the_books_consistent(
    db: Db, database_url: str
) -> None:
    run = await run_movements(db, database_url, seconds=MINUTES * 12)
    print(dict(run.done), dict(run.refused))  # noqa: T201 - the figures


async def test_killed_processes_lose_nothing() -> None:
    async with running_crash_load(servers=3) as load:
        for _ in range(max(1, round(MINUTES * 2))):
            await load.run(seconds=30, customers=12, pause_s=1.0)
            await load.assert_consistent(90)
        assert load.kills.total() >= 10
        figures = (len(load.opened_orders), len(load.accepted_refunds))
        print(dict(load.kills), dict(load.statuses), *figures)  # noqa: T201 - the figures
