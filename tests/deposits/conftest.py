"""Fixtures: a chain, and an account on it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from deposits.chain_world import ChainWorld
from opentill.db.database import Db
from support.ganache import Ganache, ganache

__all__ = ["ganache", "world"]


@pytest_asyncio.fixture(loop_scope="session")
async def world(db: Db, ganache: Ganache) -> AsyncIterator[ChainWorld]:
    """An account on a chain, in an empty database."""
    world = ChainWorld(db, ganache)
    await world.open()
    yield world
    await world.close()
