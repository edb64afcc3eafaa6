"""Work in the database of ``opentill`` without a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from opentill.db.database import Db, Tx
from support import pooler
from support.commands import Commands

Result = TypeVar("Result")


def in_database(opentill: Commands, work: Callable[[Tx], Awaitable[Result]]) -> Result:
    """Run ``work`` in a transaction, and return its result."""

    async def run() -> Result:
        url = opentill.environ["OPENTILL_DATABASE_URL"]
        db = await Db.connect(url, 2, prepared=pooler.supports_prepared(url), acquire_timeout_s=20)
        try:
            return await db.run(work)
        finally:
            await db.close()

    return asyncio.run(run())
