"""What SQL an operation runs, found by running it: the limits run the very same statements.

The service is called once on connections that write down each statement with its values, below
everything of ours: whatever ``db.query`` does, this is what PostgreSQL was asked. Values of the one
request (its ids) are distinguished from those that are the same for all, so that the trace can be
run again for other requests, without any of our code.
"""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import asyncpg
import msgspec

from opentill.db.database import Db
from opentill.db.pool import Pool

How = Literal["fetchrow", "fetch", "execute", "begin", "commit"]
_FRESH: Final = re.compile(r"^(evt)_[0-9a-z]{26}$")  # ids that a request makes by itself


class Role(msgspec.Struct, frozen=True):
    """A value that is another one in each request."""

    name: str


class Joined(msgspec.Struct, frozen=True):
    """A text with roles in it."""

    parts: tuple[str | Role, ...]


class Statement(msgspec.Struct, frozen=True):
    """One statement. ``values`` are constants, ``Role``, ``Joined`` or lists of them.

    ``gives``: what its row says of the roles, by column.
    """

    how: How
    sql: str = ""
    values: list[Any] = []
    gives: dict[str, str] = {}


class RanStatement(msgspec.Struct):
    """A statement as it was run."""

    how: How
    sql: str = ""
    values: tuple[Any, ...] = ()
    result: Any = None


_ran: list[RanStatement] = []  # of the one recording that runs: connections are made by the pool


class _Recorder(asyncpg.Connection):
    """A connection that writes down what is run on it."""

    async def fetch(self, query: str, *args: Any, **how: Any) -> Any:
        result = await super().fetch(query, *args, **how)
        _ran.append(RanStatement("fetch", query, args, result))
        return result

    async def fetchrow(self, query: str, *args: Any, **how: Any) -> Any:
        result = await super().fetchrow(query, *args, **how)
        _ran.append(RanStatement("fetchrow", query, args, result))
        return result

    async def fetchval(self, query: str, *args: Any, column: int = 0, **how: Any) -> Any:
        row = await self.fetchrow(query, *args, **how)  # its column has a name, as pgbench needs
        return None if row is None else row[column]

    async def execute(self, query: str, *args: Any, **how: Any) -> str:
        first = query.split(maxsplit=1)[0].rstrip(";").lower()
        result = await super().execute(query, *args, **how)
        if first in {"begin", "commit"}:
            _ran.append(RanStatement("begin" if first == "begin" else "commit"))
        else:
            _ran.append(RanStatement("execute", query, args))
        return result


@asynccontextmanager
async def recording(url: str) -> AsyncIterator[tuple[Db, list[RanStatement]]]:
    """Lend a database whose connections write down what is run: empty the list before each."""
    db = Db(Pool(lambda: asyncpg.connect(url, connection_class=_Recorder), 2), 2.0)
    _ran.clear()
    try:
        yield db, _ran
    finally:
        await db.close()


def trace(ran: Iterable[RanStatement], roles: Mapping[str, Any]) -> list[Statement]:
    """Turn the statements of one request into statements for any; ``roles`` are its own values."""
    ran = list(ran)
    role_values = {**roles, **_fresh(ran)}
    return [
        Statement(
            how=item.how,
            sql=item.sql,
            values=[_mark(value, role_values) for value in item.values],
            gives=_gives(item.result, role_values),
        )
        for item in ran
    ]


def _fresh(ran: Iterable[RanStatement]) -> dict[str, str]:
    """Name the ids that the request made: event0, event1 and so on."""
    values: dict[str, None] = {}
    for item in ran:
        for value in item.values:
            each = value if isinstance(value, list) else [value]
            values.update({one: None for one in each if isinstance(one, str) and _FRESH.match(one)})
    return {f"event{n}": value for n, value in enumerate(values)}


def _mark(value: Any, roles: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_mark(item, roles) for item in value]
    for name, own in roles.items():
        if type(value) is type(own) and value == own:
            return Role(name)
    if isinstance(value, str):
        return _split_at_roles(
            value, {text: name for name, text in roles.items() if isinstance(text, str)}
        )
    return value


def _split_at_roles(text: str, roles: Mapping[str, str]) -> str | Joined:
    pieces = re.split("(" + "|".join(map(re.escape, roles)) + ")", text)
    if len(pieces) == 1:
        return text
    return Joined(tuple(Role(roles[piece]) if piece in roles else piece for piece in pieces))


def _gives(result: Any, roles: Mapping[str, Any]) -> dict[str, str]:
    row = result[0] if isinstance(result, list) and len(result) == 1 else result
    columns = dict(row) if hasattr(row, "keys") else {}
    return {
        column: name
        for name, own in roles.items()
        for column, value in columns.items()
        if isinstance(value, str) and value == own
    }


def events_of(statements: Iterable[Statement]) -> list[str]:
    """Return the roles of the ids of events that a request makes."""
    names: dict[str, None] = {}
    for statement in statements:
        for value in statement.values:
            each = value if isinstance(value, list) else [value]
            names.update({one.name: None for one in each if isinstance(one, Role)})
    return [name for name in names if name.startswith("event")]
