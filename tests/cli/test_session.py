"""What commands run in: errors about the database's address show no part of its password."""

import asyncio

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
    "postgresql://u@127.0.0.1/x?sslmode=hunter2",
    "postgresql://u@h1,/hunter2",
]


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
