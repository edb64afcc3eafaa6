"""Runs a dispatcher: ``dispatcher_process.py DATABASE_URL TIMEOUT_S LEASE_S``."""

import asyncio
import sys

import uvloop

from opentill.db.clock import Clock
from opentill.db.database import Db
from opentill.outgoing.client import Outgoing
from opentill.webhooks.dispatch import Dispatcher, Options
from support import pooler


async def main(url: str, timeout_s: float, lease_s: float) -> None:
    from support.webhook_harness import LOOPBACK, SECRET_KEY

    db = await Db.connect(url, 4, prepared=pooler.supports_prepared(url), acquire_timeout_s=20)
    clock = Clock(db, ("sandbox",))
    async with clock.polling():
        options = Options(timeout_s=timeout_s, lease_s=lease_s)
        dispatcher = Dispatcher(db, Outgoing(LOOPBACK), SECRET_KEY, clock.now, options)
        await dispatcher.run(asyncio.Event())


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
