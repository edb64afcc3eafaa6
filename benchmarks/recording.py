"""What SQL an operation runs, found by running it: the limits run the very same statements.

The service is called once on a connection that writes down each statement with its values. Values
that belong to the one request (its ids) are told from those that are the same for all, so
that the trace can be run again for others, without any of our code.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import msgspec

from opentill.core.db import Db, Tx

How = Literal["fetchrow", "fetch", "execute", "begin", "commit"]


class Role(msgspec.Struct, frozen=True):
    """A value that is another one in each request, perhaps inside a text."""

    name: str
    before: str = ""
    after: str = ""


class Statement(msgspec.Struct, frozen=True):
    """One statement. ``values`` are constants, ``Role`` or lists of both.

    ``gives``: what its row says of the roles, by column.
    """

    how: How
    sql: str = ""
    values: list[Any] = []
    gives: dict[str, str] = {}


class _Heard(msgspec.Struct):
    how: How
    sql: str = ""
    values: tuple[Any, ...] = ()
    answer: Any = None


class Recorder:
    """A connection that passes everything on and writes it down."""

    def __init__(self, connection: Tx, heard: list[_Heard]) -> None:
        """``heard`` is added to."""
        self._connection = connection
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        """Pass on; statements are noted with their answers."""
        real = getattr(self._connection, name)
        if name not in {"fetchrow", "fetch", "fetchval", "execute"}:
            return real

        if name == "fetchval":  # its column has a name, which pgbench needs

            async def noted_value(sql: str, *values: Any) -> Any:
                row = await self._connection.fetchrow(sql, *values)
                self._heard.append(_Heard("fetchrow", sql, values, row))
                return None if row is None else row[0]

            return noted_value

        async def noted(sql: str, *values: Any) -> Any:
            answer = await real(sql, *values)
            self._heard.append(_Heard(cast("How", name), sql, values, answer))
            return answer

        return noted


class RecordingDb(Db):
    """The database of a recording: ``heard`` has what was run."""

    heard: list[_Heard]

    @asynccontextmanager
    async def connection(self, *how: Any, **more: Any) -> AsyncIterator[Tx]:
        """Lend a recorder."""
        async with super().connection(*how, **more) as real:
            yield cast("Tx", Recorder(real, self.heard))

    @asynccontextmanager
    async def transaction(self, *how: Any, **more: Any) -> AsyncIterator[Tx]:
        """Lend a recorder in a transaction."""
        async with super().connection(*how, **more) as real, real.transaction():
            self.heard.append(_Heard("begin"))
            yield cast("Tx", Recorder(real, self.heard))
            self.heard.append(_Heard("commit"))


def trace(heard: Iterable[_Heard], roles: Mapping[str, Any]) -> list[Statement]:
    """Turn what was heard of one request into statements for any; ``roles`` are its own values."""
    return [
        Statement(
            how=item.how,
            sql=item.sql,
            values=[_mark(value, roles) for value in item.values],
            gives=_gives(item.answer, roles),
        )
        for item in heard
    ]


def _mark(value: Any, roles: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_mark(item, roles) for item in value]
    for name, own in roles.items():
        if type(value) is type(own) and value == own:
            return Role(name)
        if isinstance(value, str) and isinstance(own, str) and own in value:
            before, _, after = value.partition(own)
            return Role(name, before, after)
    return value


def _gives(answer: Any, roles: Mapping[str, Any]) -> dict[str, str]:
    columns = dict(answer) if hasattr(answer, "keys") else {}
    return {
        column: name
        for name, own in roles.items()
        for column, value in columns.items()
        if isinstance(value, str) and value == own
    }
