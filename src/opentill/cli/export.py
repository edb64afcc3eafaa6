"""``opentill export``: a merchant's orders as CSV."""

import asyncio
from typing import Any

import typer

from opentill.cli import inputs, order_search, registration, session


def register(app: typer.Typer) -> None:
    """Add the command."""
    registration.add_writing(app, "export", export)


@order_search.filtered
def export(
    merchant_id: str, *, to_file: inputs.Output = None, bom: inputs.Bom = False, **filters: Any
) -> None:
    """Write a merchant's orders as CSV, oldest first, as the API exports them."""
    from opentill import merchants, orders
    from opentill.http import csvfile

    query = order_search.query_of(filters)

    async def work() -> None:
        settings = session.settings()
        async with session.database(settings) as db:
            async with db.connection() as tx:
                merchant = await merchants.find(tx, merchant_id)
            chosen = await orders.resolve_query(db, merchant.id, query)
            readers = asyncio.Semaphore(2)
            chunks = orders.export_csv(db, merchant.id, chosen, readers, livemode=settings.livemode)
            with inputs.target(to_file) as target:
                async for chunk in csvfile.with_bom(chunks) if bom else chunks:
                    target.write(chunk)
                target.flush()

    session.run(work())
