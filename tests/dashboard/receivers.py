"""A merchant's receiver of webhooks, and a dispatcher that sends to it."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from opentill.webhooks.dispatch import Dispatcher
from support.api_server import ApiServer, Shop
from support.webhook_harness import wait_until
from support.webhook_receiver import Receiver, receiving


@contextmanager
def run_receiver(server: ApiServer) -> Iterator[Receiver]:
    """Run a merchant's webhook receiver until the block ends."""
    stack = AsyncExitStack()
    try:
        yield server.run(stack.enter_async_context(receiving()))
    finally:
        server.run(stack.aclose())


def dispatch(shop: Shop, attempts: int) -> None:
    """Run the dispatcher until the merchant has this many delivery attempts."""

    async def run() -> None:
        app = shop.api_server.app
        dispatcher = Dispatcher(app.db, app.outgoing, app.settings.secret_key, app.clock)
        stop = asyncio.Event()
        task = asyncio.create_task(dispatcher.run(stop))

        async def has_attempts() -> bool:
            count = "select count(*) from delivery_attempts where merchant_id = $1"
            async with app.db.connection() as tx:
                return bool(await tx.fetchval(count, shop.id) >= attempts)

        try:
            await wait_until(has_attempts, 20)
        finally:
            stop.set()
            await task

    shop.api_server.run(run())


def path_of(shop: Shop, *parts: str) -> str:
    return "/".join((f"/dashboard/{shop.id}/developers", *parts))
