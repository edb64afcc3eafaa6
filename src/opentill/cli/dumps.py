"""pg_dump and pg_restore, for the embedded PostgreSQL or the operator's own.

A dump is valid only if pg_restore can read all of it and it has at least the rows that were counted
before the dump.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import msgspec

from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.server.embedded import sysuser
from opentill.server.embedded.programs import Programs, find_programs

OLDEST: Final = 10  # the oldest PostgreSQL whose major version is a single number
_FOLDERS: Final = (
    "/usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "/usr/pgsql-*/bin",  # the PostgreSQL project's packages for Red Hat
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)
_VERSION: Final = re.compile(rb"\(PostgreSQL\) (\d+)")
_COPY: Final = re.compile(rb'COPY (?:"?public"?\.)?"?(\w+)"? \(.*\) FROM stdin;\n')
_END_OF_DATA: Final = b"\\.\n"
_MASK: Final = "********"
# URL parameters of libpq; asyncpg passes all others to the server as settings.
_LIBPQ_PARAMETERS: Final = """
    application_name channel_binding client_encoding connect_timeout dbname
    fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives
    keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts options
    passfile port require_auth require_peer requiressl service ssl_max_protocol_version
    ssl_min_protocol_version sslcert sslcompression sslcrl sslcrldir sslkey sslmode sslnegotiation
    sslpassword sslrootcert sslsni target_session_attrs tcp_user_timeout user
"""
_LIBPQ_NAMES: Final = frozenset(_LIBPQ_PARAMETERS.split())


class Target(msgspec.Struct, frozen=True):
    """A database for PostgreSQL's programs, which get the password in their environment."""

    address: str
    password: str
    options: str  # the value of PGOPTIONS

    @classmethod
    def from_url(cls, url: str) -> "Target":
        """Convert a URL in asyncpg's form."""
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        user, _, password = user.partition(":")
        query, settings = list[tuple[str, str]](), list[str]()
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name == "password":
                password = quote(value, safe="")
            elif name == "database":
                query.append(("dbname", value))
            elif name in _LIBPQ_NAMES:
                query.append((name, value))
            else:
                settings.append(f"-c {name}={_escape_option(value)}")
        # libpq decodes %20 but does not decode + as a space.
        text = "&".join(f"{name}={quote(value, safe='/')}" for name, value in query)
        address = urlunsplit((parts.scheme, f"{user}{at}{hosts}", parts.path, text, ""))
        return cls(address, unquote(password), " ".join(settings))

    def environment(self) -> dict[str, str]:
        """Return the environment variables for the programs."""
        names = ("HOME", "KRB5CCNAME", "KRB5_CONFIG", "TMPDIR")
        variables = {
            name: value
            for name, value in os.environ.items()
            if name in names or name.startswith("PG")
        }
        if self.password:
            variables["PGPASSWORD"] = self.password
        if self.options:
            variables["PGOPTIONS"] = f"{variables.get('PGOPTIONS', '')} {self.options}".strip()
        return variables

    def mask(self, text: str) -> str:
        """Mask the password in a text, plain and percent-encoded."""
        for secret in {self.password, quote(self.password, safe=""), quote(self.password)} - {""}:
            text = text.replace(secret, _MASK)
        return text


def _escape_option(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)


class Tools:
    """PostgreSQL's client programs for a database."""

    def __init__(self, programs: Programs, target: Target) -> None:
        """Use ``embedded``, ``for_server`` or ``any`` instead."""
        self._programs = programs
        self._target = target

    @classmethod
    def embedded(cls, data_dir: Path, url: str) -> "Tools":
        """Return the bundled programs, run as the embedded PostgreSQL's user."""
        return cls(Programs(sysuser.user_ids(data_dir / "postgres")), Target.from_url(url))

    @classmethod
    def for_server(cls, settings: Settings, server: int) -> "Tools":
        """Return the machine's programs for a server's version. Raises ConfigurationError."""
        programs = choose(server, candidates(os.environ.get("PATH", "")))
        return cls(Programs(None, programs), Target.from_url(settings.database_url or ""))

    @classmethod
    def any(cls) -> "Tools":
        """Return the newest programs on this machine, to read dumps. Raises ConfigurationError."""
        versions = candidates(os.environ.get("PATH", ""))
        programs = choose(max(versions, default=OLDEST), versions)
        return cls(Programs(None, programs), Target("", "", ""))

    def dump(self, target: IO[bytes]) -> None:
        """Write a dump of the database. Raises ConfigurationError."""
        words = ["--format=custom", "--no-owner"]
        self._run("pg_dump", [*words, self._database()], subprocess.DEVNULL, target)

    def restore(self, source: IO[bytes]) -> None:
        """Restore a dump in one transaction. Raises ConfigurationError."""
        words = ["--exit-on-error", "--no-owner", "--no-privileges", "--single-transaction"]
        source.seek(0)
        self._run("pg_restore", [*words, self._database()], source.fileno(), subprocess.DEVNULL)

    def count_rows(self, file: IO[bytes]) -> dict[str, int]:
        """Read all of a dump and return its number of rows by table.

        Raises ConfigurationError if it cannot be read completely.
        """
        rows: dict[str, int] = {}
        words = ["--data-only", "--file=-"]
        file.seek(0)
        self._run("pg_restore", words, file.fileno(), subprocess.PIPE, into=rows)
        return rows

    def _database(self) -> str:
        return f"--dbname={self._target.address}"

    def _run(
        self,
        program: str,
        words: list[str],
        source: int,
        target: int | IO[bytes],
        into: dict[str, int] | None = None,
    ) -> None:
        try:
            ran = self._programs.pipe(
                program,
                words,
                source,
                target,
                environment=self._target.environment(),
                read=None if into is None else partial(_count, into),
            )
        except OSError as error:
            message = f"{program} cannot be run: {error.strerror or error}"
            raise ConfigurationError(message) from None
        if ran.returncode != 0:
            text = ran.stderr.decode(errors="replace").strip()
            ending = f"it ended with {ran.returncode} and no message"
            message = f"{program} failed: {self._target.mask(text) or ending}"
            raise ConfigurationError(message)


def _count(rows: dict[str, int], output: IO[bytes]) -> None:
    """Count the lines of each COPY in a dump's text, and store them in ``rows`` by table."""
    table, count = "", 0
    for line in output:
        if not table:
            begin = _COPY.fullmatch(line)
            if begin is not None:
                table, count = begin[1].decode(), 0
        elif line == _END_OF_DATA:
            rows[table], table = count, ""
        else:
            count += 1


def candidates(path: str) -> dict[int, Path]:
    """Return the directories with pg_dump on this machine, by major version.

    PATH takes precedence over the system's packages, and these over the bundled programs.
    """
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    for pattern in _FOLDERS:
        folders += sorted(Path("/").glob(pattern[1:]))
    versions: dict[int, Path] = {}
    for folder in folders:
        version = _version(folder)
        if version is not None:
            versions.setdefault(version, folder)
    try:
        version, folder = find_programs()
    except ConfigurationError:  # this platform has no bundled programs
        return versions
    versions.setdefault(version, folder)
    return versions


def _version(folder: Path) -> int | None:
    """Return the major version of pg_dump in a folder that also has pg_restore."""
    if shutil.which("pg_restore", path=str(folder)) is None:
        return None
    program = shutil.which("pg_dump", path=str(folder))
    # Skip Debian's wrapper, because the version that it runs depends on the machine's clusters.
    if program is None or Path(program).resolve().name == "pg_wrapper":
        return None
    try:
        process = subprocess.run(  # noqa: S603 - the operator's program
            [program, "--version"], check=False, capture_output=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(process.stdout)
    return int(version[1]) if version is not None else None


def choose(server: int, versions: Mapping[int, Path]) -> tuple[int, Path]:
    """Choose programs of the server's major version or, if there are none, of the next newer one.

    pg_dump supports no server newer than itself, and an older server may not accept the output of a
    newer pg_restore. Raises ConfigurationError.
    """
    fitting = sorted(version for version in versions if version >= server)
    if fitting:
        return fitting[0], versions[fitting[0]]
    message = (
        f"the server is PostgreSQL {server}, and pg_dump must not be older than the server; here"
        f" {_describe(versions.items())}. Install PostgreSQL's client programs {server}, on Debian"
        f" postgresql-client-{server}, or put them into PATH"
    )
    raise ConfigurationError(message)


def _describe(versions: Iterable[tuple[int, Path]]) -> str:
    texts = [f"{version} in {folder}" for version, folder in sorted(versions)]
    return f"are {', '.join(texts)}" if texts else "is no pg_dump"
