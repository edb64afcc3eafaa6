"""A PgBouncer in transaction mode in front of a test's PostgreSQL.

Tests are skipped if it is not installed (``apt-get install pgbouncer``).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import pytest

from opentill.db import connection
from opentill.server.embedded import sysuser

# `make test-pooled` sets this variable.
POOLED: Final = os.environ.get("OPENTILL_TEST_PGBOUNCER") == "1"
PROGRAM: Final = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
PORT: Final = 6432
requires_pgbouncer: Final = pytest.mark.skipif(
    PROGRAM is None, reason="PgBouncer is not installed: apt-get install pgbouncer"
)


def skip_if_pooled(reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test in runs through PgBouncer."""
    return pytest.mark.skipif(POOLED, reason=reason)


def supports_prepared(url: str) -> bool:
    """Whether a connection to this address supports prepared statements: not through PgBouncer."""
    return _FOLDER not in url


async def connect(url: str) -> asyncpg.Connection:
    """Open a connection, without prepared statements if the address is that of a pooler."""
    options = {} if supports_prepared(url) else connection.options(prepared=False)
    return await asyncpg.connect(url, **options)


def prepared_setting(url: str) -> str:
    """Return the value of OPENTILL_DB_PREPARED for an address."""
    return "yes" if supports_prepared(url) else "no"


_FOLDER: Final = "opentill-bouncer-"
_CONFIG: Final = """
[databases]
* = host={host} port={port}
[pgbouncer]
pool_mode = transaction
unix_socket_dir = {folder}
listen_port = {own_port}
auth_type = trust
auth_file = {folder}/users
max_client_conn = 2000
default_pool_size = {sessions}
min_pool_size = 0
server_idle_timeout = 5
server_lifetime = 60
logfile = {folder}/log
log_connections = 0
log_disconnections = 0
"""


@contextlib.contextmanager
def running_pooler(postgres_url: str, sessions: int = 8) -> Iterator[Callable[[str], str]]:
    """Run a pooler; yield a function that turns a database's address into the pooler's.

    ``sessions``: the number of PostgreSQL's sessions for each database.
    """
    postgres = {name: values[0] for name, values in parse_qs(urlsplit(postgres_url).query).items()}
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:
        folder = Path(name)
        config = folder / "pgbouncer.ini"
        config.write_text(
            _CONFIG.format(
                host=postgres["host"], port=postgres["port"], folder=folder, own_port=PORT,
                sessions=sessions,
            )
        )  # fmt: skip
        (folder / "users").write_text('"opentill" ""\n')
        user, group = sysuser.user_ids(Path(postgres["host"])) or (
            None,
            None,
        )  # PgBouncer refuses to run as root
        if user is not None and group is not None:
            for path in (folder, config, folder / "users"):
                os.chown(path, user, group)
        process = subprocess.Popen(
            [PROGRAM or "", "-q", str(config)], user=user, group=group,
            extra_groups=None if user is None else [], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait_for(folder / f".s.PGSQL.{PORT}", process, folder / "log")
            query = urlencode({"host": str(folder), "port": str(PORT)})
            yield lambda url: url.partition("?")[0] + "?" + query
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
            return
        text = log.read_text() if log.exists() else ""
        assert process.poll() is None, text
        assert time.monotonic() < end, text
        time.sleep(0.02)
