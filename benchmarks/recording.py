"""Record the SQL that an operation runs, so that the upper limits run the same statements.

The operation is run once. Its connections record each statement and its values below all of
OpenTill's code, as PostgreSQL receives them. Values that belong to this request, such as its ids,
are replaced by roles. The resulting trace can be run for any other request, without OpenTill.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import asyncpg
import msgspec

from opentill.db.database import Db
from opentill.db.pool import Pool

Method = Literal["fetchrow", "fetch", "execute", "begin", "commit"]
_EVENT_ID: Final = re.compile(r"^(evt)_[0-9a-z]{26}$")


class Role(msgspec.Struct, frozen=True):
    """The name of a value that differs between requests."""

    name: str


class Joined(msgspec.Struct, frozen=True):
    """A text with roles in it: the parts of the text and the roles, in their order."""

    parts: tuple[str | Role, ...]


class Statement(msgspec.Struct, frozen=True):
    """A statement of a trace. Its values are constants, ``Role``, ``Joined`` or lists of them.

    ``returned_roles``: the roles whose values its row contains, by column.
    """

    method: Method
    sql: str = ""
    values: list[Any] = []
    returned_roles: dict[str, str] = {}


class RecordedStatement(msgspec.Struct):
    """A statement of the recorded request, with its values and result."""

    method: Method
    sql: str = ""
    values: tuple[Any, ...] = ()
    result: Any = None


# The list is global, because the pool creates the connections that append to it. Only one recording
# runs at a time.
_recorded: list[RecordedStatement] = []


class _Recorder(asyncpg.Connection):
    """A connection that records the statements that run on it."""

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        result = await super().fetch(query, *args, **options)
        _recorded.append(RecordedStatement("fetch", query, args, result))
        return result

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        result = await super().fetchrow(query, *args, **options)
        _recorded.append(RecordedStatement("fetchrow", query, args, result))
        return result

    async def fetchval(self, query: str, *args: Any, column: int = 0, **options: Any) -> Any:
        # Unlike a value, a row has the column's name, which pgbench needs.
        row = await self.fetchrow(query, *args, **options)
        return None if row is None else row[column]

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        keyword = query.split(maxsplit=1)[0].rstrip(";").lower()
        result = await super().execute(query, *args, **options)
        if keyword in {"begin", "commit"}:
            _recorded.append(RecordedStatement("begin" if keyword == "begin" else "commit"))
        else:
            _recorded.append(RecordedStatement("execute", query, args))
        return result


@asynccontextmanager
async def recording(url: str) -> AsyncIterator[tuple[Db, list[RecordedStatement]]]:
    """Open a database that adds each statement to the list; clear it before each request."""
    db = Db(Pool(lambda: asyncpg.connect(url, connection_class=_Recorder), 2), 2.0)
    _recorded.clear()
    try:
        yield db, _recorded
    finally:
        await db.close()


def build_trace(
    recorded: Iterable[RecordedStatement], role_values: Mapping[str, Any]
) -> list[Statement]:
    """Turn the statements of one request into statements for any request.

    ``role_values``: the request's own values by role. Ids of events are added here.
    """
    recorded = list(recorded)
    role_values = {**role_values, **_event_ids_by_role(recorded)}
    return [
        Statement(
            method=statement.method,
            sql=statement.sql,
            values=[_replace_role_values(value, role_values) for value in statement.values],
            returned_roles=_find_returned_roles(statement.result, role_values),
        )
        for statement in recorded
    ]


def _flatten_values(statements: Iterable[RecordedStatement | Statement]) -> Iterator[Any]:
    """Yield the values of statements; of a list, yield its items."""
    for statement in statements:
        for value in statement.values:
            yield from value if isinstance(value, list) else [value]


def _event_ids_by_role(recorded: Iterable[RecordedStatement]) -> dict[str, str]:
    """Return the ids of the request's events by role: event0, event1 and so on."""
    values = _flatten_values(recorded)
    event_ids = dict.fromkeys(v for v in values if isinstance(v, str) and _EVENT_ID.match(v))
    return {f"event{number}": event_id for number, event_id in enumerate(event_ids)}


def _replace_role_values(value: Any, role_values: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_replace_role_values(item, role_values) for item in value]
    for name, role_value in role_values.items():
        if type(value) is type(role_value) and value == role_value:
            return Role(name)
    if isinstance(value, str):
        return _split_at_roles(
            value, {text: name for name, text in role_values.items() if isinstance(text, str)}
        )
    return value


def _split_at_roles(text: str, roles_by_value: Mapping[str, str]) -> str | Joined:
    parts = re.split("(" + "|".join(map(re.escape, roles_by_value)) + ")", text)
    if len(parts) == 1:
        return text
    return Joined(
        tuple(Role(roles_by_value[part]) if part in roles_by_value else part for part in parts)
    )


def _find_returned_roles(result: Any, role_values: Mapping[str, Any]) -> dict[str, str]:
    row = result[0] if isinstance(result, list) and len(result) == 1 else result
    columns = dict(row) if hasattr(row, "keys") else {}
    return {
        column: name
        for name, role_value in role_values.items()
        for column, value in columns.items()
        if isinstance(value, str) and value == role_value
    }


def event_roles(statements: Iterable[Statement]) -> list[str]:
    """Return the roles that are ids of events, in the order of their first use."""
    roles = dict.fromkeys(v.name for v in _flatten_values(statements) if isinstance(v, Role))
    return [name for name in roles if name.startswith("event")]
