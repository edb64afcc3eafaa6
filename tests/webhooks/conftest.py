"""Each test gets a harness that creates endpoints and dispatches events."""

from collections.abc import AsyncIterator

import pytest_asyncio

from support.webhook_harness import WebhookHarness, running_harness


@pytest_asyncio.fixture
async def harness(database_url: str) -> AsyncIterator[WebhookHarness]:
    """Create endpoints and events in an empty database, and dispatch them."""
    async with running_harness(database_url) as harness:
        yield harness
