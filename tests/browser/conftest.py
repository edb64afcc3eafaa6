"""One browser and one running deployment for all tests of a worker.

They live on the event loop of the session; so does every test here. A test has a context of the
browser and a merchant of its own.
"""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from support.page_server import open_session, page_server

# The shell has no window with tabs and bars to draw: half the processor time.
CHROMIUMS = ("chromium-headless-shell", "chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        pytest.skip("no Chromium here")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=found, args=list(SWITCHES))
        yield chromium
        await chromium.close()


__all__ = ["browser", "open_session", "page_server"]
