"""A place of the test's own, and the running server for tests of the API."""

from collections.abc import AsyncIterator

import pytest_asyncio

from api import clock, shop, till
from webhooks.place import Place, place

__all__ = ["clock", "here", "shop", "till"]


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[Place]:
    """A fresh database to dispatch from."""
    async with place(database_url) as made:
        yield made
