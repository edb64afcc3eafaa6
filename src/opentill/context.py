"""The application context: settings, database, gateways, clock."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from starlette.types import Scope

from opentill.core.settings import Settings
from opentill.db.clock import Clock
from opentill.db.database import Db
from opentill.outgoing.client import Outgoing, merchant_client
from opentill.server.export_limits import Exports
from opentill.server.upload_limits import Uploads


class ReturnAddress(Protocol):
    """Returns the URL to which the customer of a paid Epay order is sent, None if it has none.

    ``at_once``: the browser is sent there now, so that a signature of the URL may expire.
    """

    async def __call__(
        self, app: "App", merchant_id: str, order_id: str, /, *, at_once: bool = False
    ) -> str | None:
        """Return the URL."""


async def _no_address(
    _app: "App", _merchant_id: str, _order_id: str, /, *, at_once: bool = False
) -> str | None:
    _ = at_once
    return None


class App(msgspec.Struct, kw_only=True):
    """The application context that requests and jobs use."""

    settings: Settings
    db: Db
    gateways: Mapping[str, Any]
    outgoing: Outgoing  # the HTTP client for merchants' URLs
    clock: Callable[[], int]  # returns business time, Unix ms (db/clock.py)
    return_address: ReturnAddress = _no_address
    read_from: Db | None = None
    exports: Exports = msgspec.field(default_factory=Exports)
    uploads: Uploads = msgspec.field(default_factory=Uploads)

    @property
    def replica(self) -> Db:
        """The database for lists and exports: the primary if there is no replica."""
        return self.read_from or self.db


@asynccontextmanager
async def running(settings: Settings, db: Db, gateways: Mapping[str, Any]) -> AsyncIterator[App]:
    """Create the context of a process; its clock follows business time during the block.

    Closes everything afterwards, including ``db`` and the gateways. Raises Unavailable.
    """
    clock, outgoing = Clock(db, settings.gateways), merchant_client(settings)
    try:
        async with clock.polling():
            yield App(
                settings=settings, db=db, gateways=gateways, outgoing=outgoing, clock=clock.now
            )
    finally:
        for gateway in gateways.values():
            await gateway.close()
        await outgoing.close()
        await db.close()


def app_of(scope: Scope) -> App:
    """Return the context of the application that serves a request."""
    app: App = scope["app"].state.app
    return app
