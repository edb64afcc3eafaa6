"""One browser and one running deployment for all tests of a worker.

They live on the event loop of the session; so does every test here. A test has a context of the
browser and a merchant of its own.
"""

import shutil
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright
from starlette.applications import Starlette

from opentill.core.settings import Settings
from support.api_server import SECRETS, database
from support.page_server import Open, opening, running

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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page_server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    through: Callable[[str], str],
) -> AsyncIterator[Starlette]:
    """A server with worker and sandbox bank on free ports."""
    directory = tmp_path_factory.mktemp("till")
    with database(postgres_url, template) as url:
        settings = Settings(
            database_url=through(url),
            data_dir=directory,
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            outgoing_http=True,
            outgoing_allow=(ip_network("127.0.0.0/8"),),
            **SECRETS,
        )
        async with running(settings, directory / "bank") as server:
            yield server


@pytest_asyncio.fixture(loop_scope="session")
async def open_session(page_server: Starlette) -> Open:
    """Open checkout sessions of a merchant of the test's own."""
    return await opening(page_server)
