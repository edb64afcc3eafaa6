"""Business time: everybody follows it, and only where no real money can be."""

import asyncio
import time

import pytest

from opentill import worker
from opentill.app import create_app
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db import clock
from opentill.db.clock import Clock, now_ms
from opentill.db.database import Db
from support import pooler

DAY = 86_400_000


async def _ahead(db: Db, by_ms: int) -> bool:
    async with db.transaction() as tx:
        return await clock.advance(tx, by_ms)


def _near(moment: int, ahead_ms: int) -> bool:
    return abs(moment - now_ms() - ahead_ms) < 5000


async def test_a_running_process_follows_within_a_second(db: Db) -> None:
    first, second = Clock(db, ("sandbox",)), Clock(db, ("sandbox",))
    async with first.polling(), second.polling():
        assert _near(first.now(), 0)
        await _ahead(db, 8 * DAY)
        begin = time.monotonic()
        while not (_near(first.now(), 8 * DAY) and _near(second.now(), 8 * DAY)):
            assert time.monotonic() - begin < 100 * clock.POLL_S  # the machine may be busy
            await asyncio.sleep(0.05)


async def test_the_first_time_is_right_at_once(db: Db) -> None:
    await _ahead(db, DAY)
    followed = Clock(db, ("sandbox",))
    async with followed.polling():
        assert _near(followed.now(), DAY)


async def test_the_worker_inside_a_server_begins_with_business_time(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _ahead(db, DAY)
    seen: list[bool] = []

    async def work(app: App, _stop: asyncio.Event) -> None:
        seen.append(_near(app.clock(), DAY))

    monkeypatch.setattr(worker, "work", work)
    settings = Settings(
        database_url=database_url,
        db_prepared=pooler.prepared(database_url),
        secret_key="k" * 32,
        sandbox_secret="k" * 32,
        sandbox=True,
    )
    server = create_app(settings, run_worker=True)
    async with server.router.lifespan_context(server):
        pass
    assert seen == [True]


@pytest.mark.parametrize("gateways", [("stripe",), ("sandbox", "stripe"), ("manual",), ()])
async def test_another_gateway_means_real_time(db: Db, gateways: tuple[str, ...]) -> None:
    await _ahead(db, DAY)
    followed = Clock(db, gateways)
    async with followed.polling(), db.connection() as tx:
        assert _near(followed.now(), 0)
        assert _near(await clock.business_now(tx, gateways), 0)
        assert _near(await clock.business_now(tx, ("sandbox",)), DAY)


async def test_time_goes_on_while_the_database_is_away(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "POLL_S", 0.05)
    await _ahead(db, DAY)
    own = await Db.connect(database_url, 2, acquire_timeout_s=2)
    followed = Clock(own, ("sandbox",))
    try:
        async with followed.polling():
            own._pool.terminate()
            before = followed.now()
            await asyncio.sleep(0.3)
            assert followed.now() > before
            assert _near(followed.now(), DAY)
    finally:
        await own.close()


async def test_it_cannot_run_away(db: Db) -> None:
    assert await _ahead(db, clock.FURTHEST_MS)
    assert not await _ahead(db, 1)
