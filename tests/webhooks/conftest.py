"""A fresh database to dispatch events from."""

from collections.abc import AsyncIterator

import pytest_asyncio

from support.webhook_harness import WebhookHarness, running_harness


@pytest_asyncio.fixture
async def harness(database_url: str) -> AsyncIterator[WebhookHarness]:
    """A fresh database to dispatch from."""
    async with running_harness(database_url) as harness:
        yield harness
