"""A running deployment with its sandbox bank, and a browser."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, async_playwright

from opentill import app, sandbox
from opentill.core.settings import Settings

CHROMIUM = Path("/usr/bin/chromium")
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    """A headless Chromium."""
    if not CHROMIUM.exists():  # noqa: ASYNC240 - before anything runs
        pytest.skip("no Chromium here")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=list(SWITCHES)
        )
        yield chromium
        await chromium.close()


@asynccontextmanager
async def serving(application: Any, listener: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a bound socket while the block runs."""
    config = uvicorn.Config(
        application, log_level="error", lifespan="on", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined] # pytest's own stay
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.02)
    try:
        yield
    finally:
        server.should_exit = True
        await task


def bound() -> tuple[socket.socket, str]:
    """Bind a free port; the socket and its address."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest_asyncio.fixture
async def till(settings: Settings, tmp_path: Path) -> AsyncIterator[app.Server]:
    """A server with worker and sandbox bank on free ports."""
    (shop, shop_url), (bank, bank_url) = bound(), bound()
    changed = msgspec.structs.replace(settings, public_url=shop_url, sandbox_url=bank_url)
    vault = sandbox.create_app(
        data_dir=tmp_path / "bank", secret=changed.sandbox_secret, public_url=bank_url
    )
    server = app.create_app(changed, run_worker=True)
    async with serving(vault, bank), serving(server, shop):
        yield server
