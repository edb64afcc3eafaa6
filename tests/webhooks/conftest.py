"""A place of the test's own."""

from collections.abc import AsyncIterator

import pytest_asyncio

from webhooks.place import Place, place


@pytest_asyncio.fixture
async def here(database_url: str) -> AsyncIterator[Place]:
    """A fresh database to dispatch from."""
    async with place(database_url) as made:
        yield made
