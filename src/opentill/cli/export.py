"""``opentill export``: a merchant's orders as CSV."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from opentill.cli import inputs, session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    merchant_id: str,
    *,
    since: Annotated[
        str | None, typer.Option("--from", help="First day (UTC), or Unix ms.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last day (UTC), or Unix ms.")] = None,
    to_file: Annotated[
        Path | None, typer.Option("--output", help="A file; without it, standard output.")
    ] = None,
) -> None:
    """Write a merchant's orders as CSV, oldest first, as the API exports them."""
    from opentill import merchants, orders
    from opentill.core.errors import Invalid

    start = inputs.moment("from", since)
    end = inputs.moment("to", until, end=True)
    if start is not None and end is not None and start > end:
        raise Invalid("to", "to must not be before from")

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db:
            async with db.connection() as tx:
                merchant = await merchants.find(tx, merchant_id)
            last = 2**62 if end is None else end
            readers = asyncio.Semaphore(2)
            chunks = orders.export_csv(
                db, merchant.id, start or 0, last, readers, livemode=found.livemode
            )
            with inputs.target(to_file) as target:
                async for chunk in chunks:
                    target.write(chunk)
                target.flush()

    session.run(work())
