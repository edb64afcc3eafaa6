"""Commands wait for the database, and their errors do not contain its password."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path

import pytest

from opentill.cli import session
from opentill.core.errors import ConfigurationError, Unavailable
from opentill.db.database import Db
from support import pooler
from support.databases import database_name

# URLs that asyncpg cannot parse; its error quotes a part that may contain the password.
UNREADABLE = [
    "postgresql://u:hunter2/word@127.0.0.1:5432/x",
    "postgresql://u:hunter2?word@127.0.0.1:5432/x",
    "postgresql://u:pa@ss:hunter2@127.0.0.1:5432/x",
    "postgresql:///x?host=127.0.0.1&port=hunter2",
    f"postgresql://u:hunter2@{'a' * 64}/x",
    "postgresql://u@h1,/hunter2",
]

# Each row: an invalid parameter of a URL, and asyncpg's error about it.
PARAMETERS = [
    ("sslmode=hunter2", "`sslmode` parameter must be one of: disable, allow, prefer,"),
    ("ssl_min_protocol_version=hunter2", "No such TLS version"),
    ("ssl_min_protocol_version=SSLhunter2", "Unsupported TLS version"),
    ("sslnegotiation=direct", "direct TLS requires sslmode=require, verify-ca, or verify-full"),
    ("gsslib=hunter2", "gsslib parameter must be either 'gssapi' or 'sspi'"),
    ("target_session_attrs=hunter2", "target_session_attrs is expected to be one of"),
    ("host=[hunter2", "reached: invalid IPv6 address"),
    ("port=1,2,3", "could not match 3 port numbers to 1 hosts"),
]


@pytest.mark.parametrize(("parameter", "text"), PARAMETERS)
def test_an_invalid_parameter_of_the_url_is_named(parameter: str, text: str) -> None:
    host = "" if parameter.startswith(("host", "port")) else "127.0.0.1"
    also = "&host=127.0.0.1" if parameter.startswith("port") else ""
    with pytest.raises(ConfigurationError) as caught:
        url = f"postgresql://u:hunter2@{host}/x?{parameter}{also}"
        session.wait_for(url, prepared=True, patient=False)
    assert text in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_certificate_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    url = "postgresql://u:hunter2@127.0.0.1/x?sslmode=verify-full"
    with pytest.raises(ConfigurationError) as caught:
        session.wait_for(url, prepared=True, patient=False)
    text = f'root certificate file "{tmp_path}/.postgresql/root.crt" does not exist'
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", UNREADABLE)
def test_an_invalid_url_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be reached") as caught:
        session.wait_for(url, prepared=True, patient=False)
    # Commands wait after other errors, but not after this one.
    assert type(caught.value) is ConfigurationError
    assert "hunter2" not in str(caught.value)
    assert "OPENTILL_DATABASE_PASSWORD" in str(caught.value)


# Each row: the code and text of a refused connection, and whether the refusal is temporary.
# PgBouncer uses the code 08P01 for all its refusals.
REFUSALS = [
    ("53300", "sorry, too many clients already", True),
    ("53200", "out of memory", True),
    ("57P01", "terminating connection due to administrator command", True),
    ("57P02", "terminating connection because of crash of another server process", True),
    ("57P03", "the database system is starting up", True),
    ("08006", "connection failure", True),
    ("08P01", "query_wait_timeout", True),
    ("08P01", "server login has been failing, try again later (server_login_retry)", True),
    ("08P01", "no such database: nope", False),
    ("08P01", "no such user: who", False),
    ("08P01", "password authentication failed", False),
    ("28P01", 'password authentication failed for user "who"', False),
    ("3D000", 'database "nope" does not exist', False),
]


@pytest.mark.parametrize(("code", "text", "is_temporary"), REFUSALS)
async def test_a_command_waits_for_the_end_of_a_temporary_refusal(
    code: str, text: str, is_temporary: bool
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        fields = f"SFATAL\0C{code}\0M{text}\0\0".encode()
        writer.write(b"E" + (4 + len(fields)).to_bytes(4, "big") + fields)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://who@127.0.0.1:{port}/nope?sslmode=disable"
        with pytest.raises(ConfigurationError) as caught:
            await asyncio.to_thread(session.wait_for, url, prepared=True, patient=False)
    assert isinstance(caught.value, session.DatabaseAway) == is_temporary
    assert text in str(caught.value)


@contextmanager
def _unread_stderr() -> Iterator[None]:
    """Replace standard error by a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    stderr = os.fdopen(write, "w", 1)
    try:
        with redirect_stderr(stderr):
            yield
    finally:
        with suppress(BrokenPipeError):
            stderr.close()


async def test_a_command_waits_even_if_nobody_reads_its_output() -> None:
    refusals = [b"C57P03\0Mstarting up", b"C28P01\0Mno such password"]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        fields = b"SFATAL\0" + refusals.pop(0) + b"\0\0"
        writer.write(b"E" + (4 + len(fields)).to_bytes(4, "big") + fields)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://who@127.0.0.1:{port}/x?sslmode=disable"
        with _unread_stderr(), pytest.raises(ConfigurationError, match="no such password"):
            await asyncio.to_thread(session.wait_for, url, prepared=True, patient=True)


async def test_a_broken_pipe_is_not_reported_as_a_database_error(db: Db, database_url: str) -> None:
    later = "schema_migrations (version, name, sha256, applied_at) values (9999, '9999_x', '', 0)"
    async with db.connection() as tx:
        await tx.execute(f"insert into {later}")
        try:
            with _unread_stderr():
                await asyncio.to_thread(
                    session.wait_for, database_url, prepared=False, patient=False
                )
        finally:
            await tx.execute("delete from schema_migrations where version = 9999")


@pooler.skip_if_pooled("the pooler would open the connection that exceeds the limit")
async def test_a_command_waits_for_a_free_database_connection(db: Db, database_url: str) -> None:
    role = f"crowded_{database_name(database_url)}"
    url = database_url.replace("//opentill@", f"//{role}@")
    assert role in url
    async with db.connection() as tx:
        await tx.execute(f"create role {role} login connection limit 0")
        try:
            with pytest.raises(session.DatabaseAway, match="too many connections for role"):
                await asyncio.to_thread(session.wait_for, url, prepared=True, patient=False)
        finally:
            await tx.execute(f"drop role {role}")


def test_an_invalid_url_is_not_quoted_by_a_process() -> None:
    with pytest.raises(Unavailable) as refused:
        asyncio.run(Db.connect("postgresql://u@127.0.0.1/x?sslmode=hunter2"))
    assert "hunter2" not in (refused.value.reason or "")
