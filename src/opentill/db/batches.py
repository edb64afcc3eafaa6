"""Migrations that fill a column of a long table in batches, beside writers (decision 0103).

One statement for a million rows would hold the locks of all of them for minutes, and every payment
of one of them would wait. A marked file therefore runs without a transaction around it: a statement
with the parameters ``$1`` and ``$2`` changes the next few hundred rows after that key and returns
the key of the last one, and is repeated until it returns none. Such a file can be interrupted and
run again, so it must skip what it has changed.
"""

import re
from collections.abc import Sequence
from typing import Final

import asyncpg

from opentill.db import queries
from opentill.db.connection import COLLIDED, Backoff
from opentill.db.database import Tx

# The first line of a migration file that is applied in batches.
MARK: Final = "-- in batches"
_COMMENT: Final = re.compile(r"--[^\n]*")
_BLOCKED: Final = (*COLLIDED, asyncpg.LockNotAvailableError)
_FIRST_KEY: Final = ("", "")


def parse_file(sql: str) -> list[str] | None:
    """Return a file's statements, None if it does not begin with the mark. Raises ValueError."""
    if sql.partition("\n")[0].strip() != MARK:
        return None
    statements = [s.strip() for s in _COMMENT.sub("", sql).split(";") if s.strip()]
    if not any(_is_repeated(statement) for statement in statements):
        message = f"a file with the mark `{MARK}` has a statement with the parameters $1 and $2"
        raise ValueError(message)
    return statements


def _is_repeated(statement: str) -> bool:
    return "$1" in statement and "$2" in statement


async def apply(connection: Tx, statements: Sequence[str], lock_timeout: str) -> None:
    """Run the statements, each batch in a transaction of its own. Can be repeated.

    A batch that waits for a row longer than ``lock_timeout`` is rolled back and tried again. Raises
    the exceptions of asyncpg, and Contended.
    """
    for statement in statements:
        if not _is_repeated(statement):
            await _run(connection, statement, (), lock_timeout)
            continue
        key: tuple[str, ...] | None = _FIRST_KEY
        while key is not None:
            key = await _run(connection, statement, key, lock_timeout)


async def _run(
    connection: Tx, statement: str, key: tuple[str, ...], lock_timeout: str
) -> tuple[str, ...] | None:
    """Run a statement in a transaction; return its row as the next key, None if there is none."""
    backoff = Backoff()
    while True:
        try:
            async with connection.transaction():
                await queries.LIMIT_LOCK_WAITS.get(connection, longest=lock_timeout)
                row = await connection.fetchrow(statement, *key)
        except _BLOCKED as error:
            await backoff.pause(error)
        else:
            return None if row is None else tuple(row)
