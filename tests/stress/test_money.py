"""The long versions: deep random lives, and hours' worth of kills in minutes."""

import os

import pytest

from money.storm import standing
from money.test_lives import live

pytestmark = pytest.mark.stress
MINUTES = float(os.environ.get("STRESS_MINUTES", "5"))


def test_deep_random_lives(book: str) -> None:
    live(book, examples=1500, steps=80)


async def test_a_storm_of_kills_loses_nothing() -> None:
    async with standing(servers=3) as storm:
        for _ in range(max(1, round(MINUTES * 2))):
            await storm.rage(seconds=30, customers=12, pause_s=1.0)
            await storm.reckon(90)
        assert storm.kills.total() >= 10
        print(dict(storm.kills), dict(storm.answers), len(storm.opened), len(storm.refunded))  # noqa: T201 - the figures
