"""What a running server hands to everything that serves a request or does a job."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.db.export_limits import Exports
from opentill.outgoing.client import Outgoing


async def _nowhere(_merchant_id: str, _order_id: str) -> str | None:
    return None


class App(msgspec.Struct, kw_only=True):
    """What a running server hands to its operations."""

    settings: Settings
    db: Db
    gateways: Mapping[str, Any]
    outgoing: Outgoing  # to addresses that merchants gave
    clock: Callable[[], int]  # business time, Unix ms (db/clock.py)
    # Where the customer of a paid order goes that was not placed by the API: merchant id, order id.
    return_address: Callable[[str, str], Awaitable[str | None]] = _nowhere
    read_from: Db | None = None
    exports: Exports = msgspec.field(default_factory=Exports)

    @property
    def replica(self) -> Db:
        """Where lists and exports are read: the primary if there is no replica."""
        return self.read_from or self.db
