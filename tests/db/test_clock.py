"""Business time: processes follow its advances, but only without gateways of real money."""

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


async def _advance(db: Db, by_ms: int) -> bool:
    async with db.transaction() as tx:
        return await clock.advance(tx, by_ms)


def _is_ahead(time_ms: int, by_ms: int) -> bool:
    return abs(time_ms - now_ms() - by_ms) < 5000


async def test_a_running_process_follows_an_advance_within_a_second(db: Db) -> None:
    first, second = Clock(db, ("sandbox",)), Clock(db, ("sandbox",))
    async with first.polling(), second.polling():
        assert _is_ahead(first.now(), 0)
        await _advance(db, 8 * DAY)
        begin = time.monotonic()
        while not (_is_ahead(first.now(), 8 * DAY) and _is_ahead(second.now(), 8 * DAY)):
            # A hundred times as long, because the machine may be busy.
            assert time.monotonic() - begin < 100 * clock.POLL_S
            await asyncio.sleep(0.05)


async def test_a_new_clock_starts_with_business_time(db: Db) -> None:
    await _advance(db, DAY)
    business_clock = Clock(db, ("sandbox",))
    async with business_clock.polling():
        assert _is_ahead(business_clock.now(), DAY)


async def test_the_worker_inside_a_server_begins_with_business_time(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _advance(db, DAY)
    started_ahead: list[bool] = []

    async def work(app: App, _stop: asyncio.Event) -> None:
        started_ahead.append(_is_ahead(app.clock(), DAY))

    monkeypatch.setattr(worker, "work", work)
    settings = Settings(
        database_url=database_url,
        db_prepared=pooler.supports_prepared(database_url),
        secret_key="k" * 32,
        sandbox_secret="k" * 32,
        sandbox=True,
    )
    server = create_app(settings, run_worker=True)
    async with server.router.lifespan_context(server):
        pass
    assert started_ahead == [True]


@pytest.mark.parametrize("gateways", [("stripe",), ("sandbox", "stripe"), ("manual",), ()])
async def test_any_other_gateway_means_real_time(db: Db, gateways: tuple[str, ...]) -> None:
    await _advance(db, DAY)
    business_clock = Clock(db, gateways)
    async with business_clock.polling(), db.connection() as tx:
        assert _is_ahead(business_clock.now(), 0)
        assert _is_ahead(await clock.business_now(tx, gateways), 0)
        assert _is_ahead(await clock.business_now(tx, ("sandbox",)), DAY)


async def test_business_time_continues_while_the_database_is_unavailable(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "POLL_S", 0.05)
    await _advance(db, DAY)
    own_db = await Db.connect(database_url, 2, acquire_timeout_s=2)
    business_clock = Clock(own_db, ("sandbox",))
    try:
        async with business_clock.polling():
            own_db._pool.terminate()
            before = business_clock.now()
            await asyncio.sleep(0.3)
            assert business_clock.now() > before
            assert _is_ahead(business_clock.now(), DAY)
    finally:
        await own_db.close()


async def test_business_time_cannot_pass_its_limit(db: Db) -> None:
    assert await _advance(db, clock.FURTHEST_MS)
    assert not await _advance(db, 1)
