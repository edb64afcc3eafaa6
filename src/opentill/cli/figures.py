"""``opentill figures``: counts what merchants' figures are made of."""

import typer

from opentill.cli import output, session
from opentill.cli.commands import add_group


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "figures", "The figures of merchants' dashboards.", count=count)


def count() -> dict[str, int]:
    """Count everything that is not counted yet, such as an old database after an update.

    The worker does the same, all the time. Both may run at once, and this may be stopped anywhere.
    """
    from opentill.figures import jobs

    async def work() -> dict[str, int]:
        async with session.database() as db:
            with output.progress("entries", await jobs.waiting(db)) as advance:
                return {"counted": await jobs.count_all(db, advance=advance)}

    return session.run(work())
