"""A running deployment: the server, its worker and the sandbox bank, on free ports."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import uvicorn
from starlette.applications import Starlette

from opentill import app, checkouts, merchants, sandbox
from opentill.checkouts.model import SessionBody
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.products import service as products
from opentill.products.model import ProductBody
from support.api_server import SECRETS
from support.databases import cloned_database
from support.ports import free_socket, url_of

OpenSession = Callable[..., Awaitable[checkouts.Session]]


@asynccontextmanager
async def serving(application: Any, listener: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a bound socket while the block runs."""
    config = uvicorn.Config(
        application, log_level="error", lifespan="on", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    # Replaces the signal handlers of uvicorn, so that pytest keeps its own.
    server.capture_signals = contextlib.nullcontext
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


@asynccontextmanager
async def running(settings: Settings, bank_dir: Path) -> AsyncIterator[Starlette]:
    """Run a server with worker and sandbox bank on free ports."""
    shop, bank = free_socket(), free_socket()
    shop_url, bank_url = url_of(shop), url_of(bank)
    changed = msgspec.structs.replace(settings, public_url=shop_url, sandbox_url=bank_url)
    vault = sandbox.create_app(
        data_dir=bank_dir, secret=changed.sandbox_secret, public_url=bank_url
    )
    server = app.create_app(changed, run_worker=True)
    async with serving(vault, bank), serving(server, shop):
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page_server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> AsyncIterator[Starlette]:
    """A server with worker and sandbox bank for all tests of a pytest worker; no rate limits."""
    directory = tmp_path_factory.mktemp("till")
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url),
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
async def open_session(page_server: Starlette) -> OpenSession:
    """A function that opens checkout sessions of a new merchant."""
    return await session_opener(page_server)


async def session_opener(page_server: Starlette) -> OpenSession:
    """Create a merchant and return a function that opens checkout sessions."""
    db, url = page_server.state.app.db, page_server.state.settings.public_url
    merchant = await db.run(lambda tx: merchants.create(tx, name="Harbour Books", now=now_ms()))

    async def make(
        price: str = "9.99", currency: str = "USD", name: str = "Tea & <b>cake</b>"
    ) -> checkouts.Session:
        body = ProductBody(name=name, price=price, currency=currency, description="Two of each")
        product = await db.run(lambda tx: products.create(tx, merchant.id, body, now_ms()))
        session_body = SessionBody(
            product_id=product.id,
            success_url=f"{url}/?paid={{CHECKOUT_SESSION_ID}}",
            cancel_url=f"{url}/?cancelled",
        )
        session: checkouts.Session = await db.run(
            lambda tx: checkouts.open_session(tx, merchant.id, session_body, now_ms())
        )
        return session

    return make
