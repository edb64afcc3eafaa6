"""``opentill backup``, ``restore`` and ``skip-messages``: what survives the machine.

A database of the operator's own is backed up with its own PostgreSQL's programs
(docs/recipes/back-up.md); these commands do the same for the embedded one.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import backup_file, commands, inputs, output, parts, session
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings

if TYPE_CHECKING:
    from opentill.db.database import Tx

_OWN_DATABASE: Final = (
    "OPENTILL_DATABASE_URL is set: back up and restore that PostgreSQL with its own pg_dump and"
    " pg_restore, as docs/recipes/back-up.md says"
)
_KEYS: Final = (
    "What is stored encrypted needs the key, which is not in the file: keep {} as well, elsewhere."
)
_THEN: Final = (
    "Before a worker starts: `opentill ledger check`, then `opentill skip-messages` if what waited"
    " to be sent may have been sent since the backup. docs/recipes/restore-a-backup.md goes on."
)
_THERE: Final = "{} is there already; name another file, or say --overwrite"
_HELD: Final = (
    "None of these is sent by itself any more. `opentill webhooks resend --failed-only`,"
    " `opentill epay resend` and `opentill mail resend` send what did not arrive."
)
File = Annotated[Path, typer.Argument(help="The file of the backup.", dir_okay=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    commands.add(app, "backup", backup)
    commands.add(app, "restore", restore)
    commands.add(app, "skip-messages", skip_messages)


def backup(
    file: File,
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it is there already.")
    ] = False,
) -> output.Result:
    """Write the embedded database to a new file, as it is at this moment; servers go on."""
    from opentill.server.embedded.datadir import sync_directory

    signal.signal(signal.SIGTERM, session.end)
    settings = _embedded(session.settings())
    with _file(file, "written"):
        if file.exists() and not overwrite:
            raise ConfigurationError(_THERE.format(file))
    with (
        session.running_database(settings) as ready,
        _file(file, "written"),
        parts.part(file) as (part, target),
    ):
        words = ["--format=custom", "--no-owner", f"--dbname={ready.database_url}"]
        _run(settings, "pg_dump", words, subprocess.DEVNULL, target)
        backup_file.finish(part, target)
        if overwrite:
            part.replace(file)
        else:
            _name(part, file)
        sync_directory(file.absolute().parent)
        done = {"file": str(file), "bytes": file.stat().st_size}
    return output.Result(done, note=_KEYS.format(settings.secret_key_from))


@contextmanager
def _file(file: Path, done: str) -> Iterator[None]:
    """Raise ConfigurationError where a file cannot be ``done``: written or read."""
    try:
        yield
    except OSError as error:
        message = f"{file} cannot be {done}: {error.strerror or error}"
        raise ConfigurationError(message) from None


def _name(part: Path, file: Path) -> None:
    """Give a file its name, unless another has it meanwhile. Raises ConfigurationError."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise ConfigurationError(_THERE.format(file)) from None
    except OSError:  # a file system where a file has one name
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise ConfigurationError(_THERE.format(file)) from None
        part.replace(file)


def restore(
    file: File,
    *,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="A dump of pg_dump's own, which has no digest.")
    ] = False,
) -> output.Result:
    """Make the embedded database of a backup, in a data directory that has none.

    A file that was cut or changed since it was written is refused before anything is made.

    Until all of it is there, nothing else uses that database. Where a restore was cut off, run it
    again.
    """
    from opentill.db import connection as connections
    from opentill.db import migrations
    from opentill.server.embedded.cluster import DATABASE
    from opentill.server.embedded.datadir import Restoring
    from opentill.server.embedded.postgres import EmbeddedPostgres

    signal.signal(signal.SIGTERM, session.end)
    with _file(file, "read"):
        if not file.is_file():
            message = f"there is no file {file}"
            raise ConfigurationError(message)
        if not unchecked:
            backup_file.check(file)
    settings = _embedded(session.settings(creates=True, keys=False))
    mark = Restoring(settings.data_dir)
    try:
        start = EmbeddedPostgres.start(settings.data_dir, restoring=True)
        with start as server, inputs.source(file) as source:
            # One that was killed may have left something, or be at it still.
            session.run(connections.make_anew(server.url, DATABASE))
            words = ["--exit-on-error", "--no-owner", "--single-transaction"]
            _run(settings, "pg_restore", [*words, f"--dbname={server.url}"], source.fileno(), None)
            session.run(migrations.migrate(server.url))
        mark.finish()
    finally:
        mark.release()
    return output.Result({"restored": str(settings.data_dir.absolute())}, note=_THEN)


@commands.acting()
def skip_messages(*, actor: Any) -> output.Result:
    """Send none of the waiting messages: those of a restored backup were sent already.

    Webhook deliveries and Epay notifications that are waiting count as failed, mails as unknown;
    each can be sent again. For the time between a restore and the first start of a worker.
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


def _embedded(settings: Settings) -> Settings:
    if settings.database_url is not None:
        raise ConfigurationError(_OWN_DATABASE)
    return settings


def _run(
    settings: Settings, program: str, words: list[str], source: int, target: IO[bytes] | None
) -> None:
    """Run one of PostgreSQL's programs on the embedded database. Raises ConfigurationError."""
    from opentill.server.embedded import sysuser
    from opentill.server.embedded.programs import Programs

    programs = Programs(sysuser.ids(settings.data_dir / "postgres"))
    try:
        ran = programs.pipe(program, words, source, target)
    except OSError as error:
        message = f"{program} cannot be run: {error.strerror or error}"
        raise ConfigurationError(message) from None
    if ran.returncode != 0:
        lines = ran.stderr.decode(errors="replace").strip().splitlines() or [""]
        message = f"{program} failed: {lines[-1]}"
        raise ConfigurationError(message)
