"""Shops of an old Epay server after its import, with the keys that they had there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentill import epay_import
from opentill.epay_import.model import Row
from opentill.epay_import.tables import Tables
from opentill.merchants import Actor
from support import old_epay
from support.api_server import ApiServer
from support.epay_shop import EpayShop
from support.epay_v2_shop import EpayV2Shop, private_key


class ImportedShop(EpayV2Shop):
    """A merchant that came over, and the calls of its unchanged software."""

    def __init__(self, api_server: ApiServer, pid: int) -> None:  # the merchant exists already
        self.api_server = api_server
        (row,) = api_server.sql("select merchant_id from epay_imports where pid = $1", pid)
        self.id = row["merchant_id"]
        self.pid, self.key = str(pid), old_epay.user(pid)["key"]
        self.private_key = private_key()

    __repr__ = EpayShop.__repr__


def rows_of(path: Path) -> Any:
    """Return a function that reads a dump from its beginning."""

    def rows(tables: Tables) -> Iterator[Row]:
        with path.open("rb") as file:
            yield from epay_import.DumpReader(file, tables.choose)

    return rows


def write_dump(path: Path, **changes: list[dict[str, Any]]) -> Path:
    """Write a dump of the small server with some tables replaced."""
    path.write_text("".join(old_epay.dump(old_epay.small_tables() | changes)), encoding="utf-8")
    return path


def import_dump(api_server: ApiServer, path: Path, **options: Any) -> epay_import.Done:
    """Import a dump into the server's deployment."""
    requested = epay_import.Import(
        rows=rows_of(path),
        prefix=None,
        gateways=options.pop("gateways", {}),
        accept_left_out=options.pop("accept_left_out", False),
        actor=Actor("tests", "moving in"),
    )
    app = api_server.app

    async def work() -> epay_import.Done:
        old_server = await asyncio.to_thread(
            epay_import.survey, requested, app.settings.epay_time_zone
        )
        return await epay_import.run(app.db, app.settings, requested, old_server, app.clock())

    return api_server.run(work())
