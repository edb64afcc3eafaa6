"""``opentill backup``, ``restore`` and ``skip-messages``: backups of the database.

They work with the embedded PostgreSQL and with the operator's own (docs/recipes/back-up.md).
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import atomic_write, backup_file, inputs, output, registration, session
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings

if TYPE_CHECKING:
    from opentill.cli import dumps
    from opentill.db.database import Tx
    from opentill.db.row_counts import RowCounts

_KEYS: Final = (
    "What is stored encrypted needs the key, which is not in the file: keep {} as well, elsewhere."
)
_NEXT_COMMANDS: Final = (
    "Before a worker starts: `opentill ledger check`, then `opentill skip-messages` if what waited"
    " to be sent may have been sent since the backup. docs/recipes/restore-a-backup.md goes on."
)
_POOLER: Final = (
    "the database is reached through a pooler, with which pg_dump and pg_restore do not work; set"
    " OPENTILL_DATABASE_URL to the server's own address for this command"
)
_NOT_EMPTY: Final = (
    "the database of OPENTILL_DATABASE_URL is not empty; create another one and set"
    " OPENTILL_DATABASE_URL to it"
)
_NOT_OURS: Final = "the file is a dump, but not of an OpenTill database, or an empty one"
_FILE_EXISTS: Final = "{} is there already; name another file, or say --overwrite"
_HELD: Final = (
    "None of these is sent by itself any more. `opentill webhooks resend --failed-only`,"
    " `opentill epay resend` and `opentill mail resend` send what did not arrive."
)
File = Annotated[Path, typer.Argument(help="The file of the backup.", dir_okay=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    registration.add(app, "backup", backup)
    registration.add(app, "restore", restore)
    registration.add(app, "skip-messages", skip_messages)


def backup(
    file: File,
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Only check an existing backup, by reading it to its end."),
    ] = False,
) -> output.Result:
    """Write the current database to a new file, while servers keep running.

    The file gets its name only after it was read back to its end, and has at least the entries of
    the ledger that the database had when the backup began.
    """
    from opentill.server.embedded.datadir import sync_directory

    signal.signal(signal.SIGTERM, session.end)
    if check:
        return _check_file(file)
    settings = session.settings()
    with _convert_errors(file, "written"):
        if file.exists() and not overwrite:
            raise ConfigurationError(_FILE_EXISTS.format(file))
    with (
        session.running_database(settings) as ready,
        _convert_errors(file, "written"),
        atomic_write.open_part(file) as (part, target),
    ):
        tools, row_counts = _tools(settings, ready)
        tools.dump(target)
        with part.open("rb") as dump:
            rows = tools.count_rows(dump)
        _check_row_counts(rows, row_counts)
        backup_file.finish(part, target)
        if overwrite:
            part.replace(file)
        else:
            _rename_to_new(part, file)
        sync_directory(file.absolute().parent)
        summary = _describe(file, rows)
    return output.Result(summary, note=_KEYS.format(settings.secret_key_from))


def _check_file(file: Path) -> output.Result:
    """Read a complete backup. Raises ConfigurationError if it is damaged."""
    from opentill.cli import dumps

    with _convert_errors(file, "read"):
        backup_file.check(file)
        with file.open("rb") as dump:
            rows = dumps.Tools.any().count_rows(dump)
        if not rows.get("schema_migrations"):
            raise ConfigurationError(_NOT_OURS)
        return output.Result(_describe(file, rows))


def _describe(file: Path, rows: Mapping[str, int]) -> dict[str, object]:
    return {
        "file": str(file),
        "bytes": file.stat().st_size,
        "merchants": rows["merchants"],
        "orders": rows["orders"],
        "ledgerEntries": rows["entries"],
    }


def _tools(settings: Settings, ready: Settings) -> "tuple[dumps.Tools, RowCounts]":
    """Return PostgreSQL's programs for a running database, and the database's row counts."""
    from opentill.cli import dumps

    version, row_counts = session.run(_look_at_server(ready, counts=True))
    if settings.database_url is None:
        return dumps.Tools.embedded(settings.data_dir, ready.database_url or ""), row_counts
    return dumps.Tools.for_server(settings, version), row_counts


async def _look_at_server(ready: Settings, *, counts: bool) -> "tuple[int, RowCounts]":
    """Return the server's major version and, with ``counts``, the database's row counts.

    Without ``counts``, a database that is not empty is an error. Raises ConfigurationError.
    """
    import asyncpg

    from opentill.db import connection as connections
    from opentill.db import row_counts
    from opentill.db.database import AWAY

    url = ready.database_url or ""
    try:
        connection = await connections.connect(url, prepared=False)
        try:
            if not await connections.is_direct(connection):
                raise ConfigurationError(_POOLER)
            if counts:
                rows = await row_counts.count(connection)
            elif not await row_counts.is_empty(connection):
                raise ConfigurationError(_NOT_EMPTY)
            else:
                rows = row_counts.RowCounts(0, 0, 0, 0)
            return connection.get_server_version().major, rows
        finally:
            connection.terminate()
    except (*AWAY, *connections.UNREADABLE, asyncpg.PostgresError) as error:
        message = f"the database cannot be read: {connections.why(error)}"
        raise ConfigurationError(message) from None


def _check_row_counts(rows: Mapping[str, int], row_counts: "RowCounts") -> None:
    """Raise ConfigurationError if a dump has fewer rows than were counted before the dump."""
    tables = {
        "schema_migrations": row_counts.migrations,
        "merchants": row_counts.merchants,
        "orders": row_counts.orders,
        "entries": row_counts.entries,
    }
    missing = [
        f"{rows.get(table, 0)} of {count} rows of {table}"
        for table, count in tables.items()
        if table not in rows or rows[table] < count
    ]
    if missing:
        message = f"the dump is not complete, it has only {', '.join(missing)}; nothing is kept"
        raise ConfigurationError(message)


@contextmanager
def _convert_errors(file: Path, participle: str) -> Iterator[None]:
    """Convert an OSError of the block to ConfigurationError.

    Its message is "``file`` cannot be ``participle``"; a participle is such as "read".
    """
    try:
        yield
    except OSError as error:
        message = f"{file} cannot be {participle}: {error.strerror or error}"
        raise ConfigurationError(message) from None


def _rename_to_new(part: Path, file: Path) -> None:
    """Rename ``part`` to ``file`` without replacing a file. Raises ConfigurationError."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise ConfigurationError(_FILE_EXISTS.format(file)) from None
    except OSError:  # the file system has no hard links
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise ConfigurationError(_FILE_EXISTS.format(file)) from None
        part.replace(file)


def restore(
    file: File,
    *,
    unchecked: Annotated[
        bool,
        typer.Option("--unchecked", help="Restore a dump that pg_dump wrote, which has no digest."),
    ] = False,
) -> output.Result:
    """Restore a backup into a data directory without a database, or into an empty database.

    A file that was truncated or changed is refused before anything is created, and a restore that
    fails leaves nothing behind.
    """
    signal.signal(signal.SIGTERM, session.end)
    with _convert_errors(file, "read"):
        if not file.is_file():
            message = f"there is no file {file}"
            raise ConfigurationError(message)
        if not unchecked:
            backup_file.check(file)
    settings = session.settings(creates=True, keys=False)
    with inputs.source(file) as source:
        if settings.database_url is None:
            row_counts = _restore_embedded(settings, source)
            destination = str(settings.data_dir.absolute())
        else:
            row_counts = _restore_to_operators_database(settings, source)
            destination = "the database of OPENTILL_DATABASE_URL"
    summary = {
        "restored": destination,
        "merchants": row_counts.merchants,
        "orders": row_counts.orders,
        "ledgerEntries": row_counts.entries,
    }
    return output.Result(summary, note=_NEXT_COMMANDS)


def _restore_embedded(settings: Settings, source: IO[bytes]) -> "RowCounts":
    import msgspec

    from opentill.cli import dumps
    from opentill.server.embedded.datadir import RestoreDirectory
    from opentill.server.embedded.postgres import EmbeddedPostgres

    restoring = RestoreDirectory(settings.data_dir)
    try:
        EmbeddedPostgres.discard(restoring.path)  # remove the files that a killed restore left
        with EmbeddedPostgres.start(restoring.path) as server:
            tools = dumps.Tools.embedded(restoring.path, server.url)
            ready = msgspec.structs.replace(settings, database_url=server.url)
            row_counts = _restore(tools, ready, source)
        restoring.finish()
    finally:
        restoring.release()
    return row_counts


def _restore_to_operators_database(settings: Settings, source: IO[bytes]) -> "RowCounts":
    from opentill.cli import dumps

    version, _ = session.run(_look_at_server(settings, counts=False))
    return _restore(dumps.Tools.for_server(settings, version), settings, source)


def _restore(tools: "dumps.Tools", ready: Settings, source: IO[bytes]) -> "RowCounts":
    """Restore a deployment's dump and migrate the schema."""
    from opentill.db import migrations

    if not tools.count_rows(source).get("schema_migrations"):
        raise ConfigurationError(_NOT_OURS)
    tools.restore(source)
    session.run(migrations.migrate(ready.database_url or ""))
    _, row_counts = session.run(_look_at_server(ready, counts=True))
    return row_counts


@registration.acting()
def skip_messages(*, actor: Any) -> output.Result:
    """Do not send waiting messages, which may have been sent since the backup.

    Waiting webhook deliveries and Epay notifications become failed, waiting mails unknown; each can
    be sent again. Run this command after a restore, before a worker starts.
    """
    from opentill import epay, mail, merchants, webhooks

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        skipped = {
            "webhooks": await webhooks.skip_waiting(tx, now),
            "epayNotifications": await epay.skip_waiting(tx, now),
            "mails": await mail.skip_waiting(tx, now),
        }
        counts = ", ".join(f"{name}: {count}" for name, count in skipped.items())
        await merchants.record_audit(tx, actor, "skip-messages", "", counts, now)
        return skipped

    return output.Result(session.transact(work), note=_HELD)
