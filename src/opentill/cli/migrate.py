"""``opentill migrate``: bring the database to the schema of this OpenTill."""

import signal

import typer

from opentill.cli import output, session
from opentill.cli.output import Json
from opentill.cli.progress import progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(migrate)


def migrate(*, as_json: Json = False) -> None:
    """Bring the database to the schema of this version. Can be repeated, also while servers run.

    With a database of your own, waits for its response and does not use the data directory.
    """
    import asyncpg

    from opentill import config
    from opentill.core.errors import ConfigurationError
    from opentill.db import migrations
    from opentill.server.embedded.postgres import EmbeddedPostgres

    settings = session.settings(creates=True, keys=False)
    # The first process of a container ignores SIGTERM unless it has a handler for it.
    signal.signal(signal.SIGTERM, session.leave)
    try:
        if settings.database_url is not None:
            session.wait_for(settings.database_url, prepared=False, patient=True, migrated=False)
            with progress("migrating"):
                applied = session.run(migrations.migrate(settings.database_url))
        else:
            config.with_keys(settings)  # the keys must exist before the database
            with progress("migrating"), EmbeddedPostgres.start(settings.data_dir) as server:
                applied = session.run(migrations.migrate(server.url))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        message = f"the database cannot be migrated: {str(error) or type(error).__name__}"
        raise ConfigurationError(message) from None
    if as_json:
        output.show({"applied": applied}, as_json=True)
    else:
        typer.echo("\n".join(f"applied {name}" for name in applied) or "nothing to do")
