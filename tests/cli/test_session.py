"""What commands run in: errors about the database's address show no part of its password."""

import asyncio
from pathlib import Path

import pytest

from opentill.cli import session
from opentill.core.errors import ConfigurationError, Unavailable
from opentill.db.database import Db

# Addresses that asyncpg cannot read, as it says by quoting what it takes for something else.
UNREADABLE = [
    "postgresql://u:hunter2/word@127.0.0.1:5432/x",
    "postgresql://u:hunter2?word@127.0.0.1:5432/x",
    "postgresql://u:pa@ss:hunter2@127.0.0.1:5432/x",
    "postgresql:///x?host=127.0.0.1&port=hunter2",
    f"postgresql://u:hunter2@{'a' * 64}/x",
    "postgresql://u@h1,/hunter2",
]

# Parameters that asyncpg says something about, and what that is.
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
def test_a_parameter_of_an_address_that_is_wrong_is_named(parameter: str, text: str) -> None:
    host = "" if parameter.startswith(("host", "port")) else "127.0.0.1"
    also = "&host=127.0.0.1" if parameter.startswith("port") else ""
    with pytest.raises(ConfigurationError) as caught:
        url = f"postgresql://u:hunter2@{host}/x?{parameter}{also}"
        session.wait_for(url, prepared=True, patient=False)
    assert text in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_certificate_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    url = "postgresql://u:hunter2@127.0.0.1/x?sslmode=verify-full"
    with pytest.raises(ConfigurationError) as caught:
        session.wait_for(url, prepared=True, patient=False)
    text = f'root certificate file "{tmp_path}/.postgresql/root.crt" does not exist'
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", UNREADABLE)
def test_an_address_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be reached") as caught:
        session.wait_for(url, prepared=True, patient=False)
    assert type(caught.value) is ConfigurationError  # and it is not waited for
    assert "hunter2" not in str(caught.value)
    assert "OPENTILL_DATABASE_PASSWORD" in str(caught.value)


def test_an_address_that_a_process_cannot_read_is_not_quoted() -> None:
    with pytest.raises(Unavailable) as refused:
        asyncio.run(Db.connect("postgresql://u@127.0.0.1/x?sslmode=hunter2"))
    assert "hunter2" not in (refused.value.reason or "")
