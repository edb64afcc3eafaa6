"""``opentill export``: a merchant's orders as CSV."""

import asyncio

import typer

from opentill.cli import inputs, session


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    merchant_id: str,
    *,
    since: inputs.From = None,
    until: inputs.To = None,
    to_file: inputs.Output = None,
) -> None:
    """Write a merchant's orders as CSV, oldest first, as the API exports them."""
    from opentill import merchants, orders

    start, end = inputs.period(since, until)

    async def work() -> None:
        settings = session.settings()
        async with session.database(settings) as db:
            async with db.connection() as tx:
                merchant = await merchants.find(tx, merchant_id)
            query = orders.ExportQuery(start_date=start, end_date=end)
            chosen = await orders.choose(db, merchant.id, query)
            readers = asyncio.Semaphore(2)
            chunks = orders.export_csv(db, merchant.id, chosen, readers, livemode=settings.livemode)
            with inputs.target(to_file) as target:
                async for chunk in chunks:
                    target.write(chunk)
                target.flush()

    session.run(work())
