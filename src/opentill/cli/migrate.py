"""``opentill migrate``: bring the database to the schema of this OpenTill."""

import typer

from opentill.cli import output, session
from opentill.cli.output import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(migrate)


def migrate(*, as_json: Json = False) -> None:
    """Bring the database to the schema of this version. Safe to repeat, and while serving."""
    import asyncpg

    from opentill.core import migrate as migrations
    from opentill.core.embedded import EmbeddedPostgres
    from opentill.core.operator import OperatorError

    found = session.settings(creates=True)
    try:
        if found.database_url is not None:
            applied = session.run(migrations.migrate(found.database_url))
        else:
            with EmbeddedPostgres.start(found.data_dir) as server:
                applied = session.run(migrations.migrate(server.url))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        message = f"the database cannot be migrated: {str(error) or type(error).__name__}"
        raise OperatorError(message) from None
    if as_json:
        output.show({"applied": applied}, as_json=True)
    else:
        typer.echo("\n".join(f"applied {name}" for name in applied) or "nothing to do")
