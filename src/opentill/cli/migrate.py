"""``opentill migrate``: bring the database to the schema of this OpenTill."""

import signal
from typing import Annotated

import typer

from opentill.cli import output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress

Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="Also place the tables on the Citus cluster that OPENTILL_DATABASE_URL is the"
        " coordinator of.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(migrate)


def migrate(*, distributed: Distributed = False, as_json: Json = False) -> None:
    """Bring the database to the schema of this version. Safe to repeat, and while serving.

    Waits for a database of your own to respond; the data directory is not used. A database whose
    tables are placed on a cluster needs no option any more.
    """
    import asyncpg

    from opentill import config
    from opentill.core.errors import ConfigurationError
    from opentill.db import migrations
    from opentill.server.embedded.postgres import EmbeddedPostgres

    settings = session.settings(creates=True, keys=False)
    placed: list[str] = []
    if distributed and settings.database_url is None:
        message = "--distributed needs OPENTILL_DATABASE_URL: the embedded database is one machine"
        raise ConfigurationError(message)
    signal.signal(
        signal.SIGTERM, session.leave
    )  # the first process of a container has no default handler
    try:
        if settings.database_url is not None:
            session.wait_for(settings.database_url, prepared=False, patient=True, migrated=False)
            with progress("migrating"):
                if distributed:
                    applied, placed = session.run(migrations.distribute(settings.database_url))
                else:
                    applied = session.run(migrations.migrate(settings.database_url))
        else:
            config.with_keys(settings)  # the keys must exist before the database
            with progress("migrating"), EmbeddedPostgres.start(settings.data_dir) as server:
                applied = session.run(migrations.migrate(server.url))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        message = f"the database cannot be migrated: {str(error) or type(error).__name__}"
        raise ConfigurationError(message) from None
    if as_json:
        output.show(
            {"applied": applied} | ({"placed": placed} if distributed else {}), as_json=True
        )
    else:
        lines = [*(f"applied {name}" for name in applied), *(f"placed {name}" for name in placed)]
        typer.echo("\n".join(lines) or "nothing to do")
