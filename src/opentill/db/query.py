"""SQL statements with named parameters, and statements whose rows are structs.

SQL says ``:name``; PostgreSQL wants ``$1``. A statement is compiled once, when its module is
imported. Its values come by name as well, so that two of them cannot change places unseen.
"""

import operator
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, get_args

import asyncpg
import msgspec

S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V")
Tx = asyncpg.Connection  # what a statement runs on; see database.py
_Picker = Callable[[Any], tuple[Any, ...]]
# For what reads all that there is, however much. To asyncpg None is the connection's own limit.
WHOLE_S: Final = 86_400.0

# What may stand in SQL with a colon or a dollar in it that is no parameter, and then what is one.
# A colon right after an operand belongs to an array slice, such as ``days[1:2]`` or ``days[a:b]``.
_TOKEN: Final = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'               # a string with backslashes
    | '(?:[^']|'')*'                         # a string
    | "(?:[^"]|"")*"                         # a quoted identifier
    | --[^\n]*                               # a comment until the end of the line
    | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$  # a string between dollars
    | (?P<open>[eE]'|['"]|\$(?:[^\W\d]\w*)?\$)      # a string without an end
    | [^\W\d][\w$]*                          # a word, which may have dollars in it
    | ::|:=                                  # a cast, and the assignment of a named argument
    | (?P<comment>/\*)
    | (?P<position>\$\d+)
    | (?<![\w\])"']):(?P<name>[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")


class NotOneRow(Exception):
    """A statement that returns exactly one row returned none or several."""


class Compiled(NamedTuple):
    """What PostgreSQL is sent, and the names of ``$1``, ``$2`` and so on."""

    sql: str
    names: tuple[str, ...]


def compile_sql(text: str) -> Compiled:
    """Replace each ``:name`` by ``$n``, numbered by the first appearance of the name.

    Raises ValueError for SQL that has ``$1`` in it, or a string or comment without an end.
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []
    copied = at = 0
    while (found := _TOKEN.search(text, at)) is not None:
        at = found.end()
        if found["comment"]:
            at = _end_of_comment(text, at)
        elif found["position"]:
            msg = f"{found['position']} instead of a named parameter in: {text}"
            raise ValueError(msg)
        elif found["open"]:
            msg = f"a string without an end in: {text}"
            raise ValueError(msg)
        elif name := found["name"]:
            number = numbers.setdefault(name, len(numbers) + 1)
            parts += (text[copied : found.start()], f"${number}")
            copied = at
    return Compiled("".join(parts) + text[copied:], tuple(numbers))


def _end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends that began before ``at``; comments of SQL may hold others."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            msg = f"a comment without an end in: {text}"
            raise ValueError(msg)
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def _picker(names: tuple[str, ...]) -> _Picker:
    """Return what takes the values of these names out of a mapping or a row."""
    match names:
        case ():
            return lambda _: ()
        case (name,):  # of one name, itemgetter returns no tuple
            return lambda mapping: (mapping[name],)
        case _:
            return cast("_Picker", operator.itemgetter(*names))


def columns(struct: type[S], rows: Iterable[S]) -> dict[str, list[Any]]:
    """Turn rows into a list for each field, for a statement that reads them by ``unnest``."""
    names = struct.__struct_fields__
    lists = [list(column) for column in zip(*map(msgspec.structs.astuple, rows), strict=True)]
    return dict(zip(names, lists or [[] for _ in names], strict=True))


def like(text: str) -> str:
    """Return the pattern, for LIKE, of what has a text anywhere in it."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return f"%{text}%"


class Statement:
    """What every statement has: the SQL for PostgreSQL, and the names of its parameters."""

    def __init__(self, sql: str) -> None:
        """``sql`` names its parameters ``:name``."""
        self.text = sql
        self.sql, self.names = compile_sql(sql)
        self._pick = _picker(self.names)

    def values(self, given: msgspec.Struct | None, named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values in PostgreSQL's order, out of a struct's fields and the named ones.

        Raises TypeError unless these are exactly the statement's parameters, each of them once.
        """
        count = len(named)
        values = named
        if given is not None:
            fields = msgspec.structs.asdict(given)
            count += len(fields)
            values = {**fields, **named}
        if count == len(self.names):
            try:
                return self._pick(values)
            except KeyError:
                pass  # as many as there should be, but others
        raise self._refused(given, named)

    def _refused(self, given: msgspec.Struct | None, named: Mapping[str, Any]) -> TypeError:
        fields = () if given is None else given.__struct_fields__
        got = {*fields, *named}
        wrong = [
            *(f"{name} is missing" for name in self.names if name not in got),
            *(f"{name} is none of them" for name in sorted(got.difference(self.names))),
            *(f"{name} is given twice" for name in fields if name in named),
        ]
        takes = ", ".join(self.names) or "nothing"
        return TypeError(f"the statement takes {takes}: {'; '.join(wrong)}")


class Query(Statement, Generic[S]):
    """A statement whose rows are structs: every column is a field of the same name.

    A struct without keyword-only fields is made twice as fast: so are those of the busiest rows.
    Columns that this version does not know are left out: while versions change, the next one
    migrates ahead of those that still serve.
    """

    def __init__(self, struct: type[S], sql: str, *, timeout_s: float | None = None) -> None:
        """``sql`` returns exactly the struct's fields; ``timeout_s``: None is the connection's."""
        super().__init__(sql)
        self.struct = struct
        self.timeout_s = timeout_s
        self._fields = struct.__struct_fields__
        self._cells = _picker(self._fields)
        self._by_place = struct.__match_args__ == self._fields  # no field is keyword-only

    def _made(self, record: asyncpg.Record) -> S:
        cells = self._cells(record)
        if self._by_place:
            return self.struct(*cells)
        return self.struct(**dict(zip(self._fields, cells, strict=True)))

    async def first(self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any) -> S | None:
        """Return the first row, or None."""
        record = await tx.fetchrow(self.sql, *self.values(given, named), timeout=self.timeout_s)
        return None if record is None else self._made(record)

    async def one(self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any) -> S:
        """Return the only row. Raises NotOneRow if there is none, or more than one."""
        records = await tx.fetch(self.sql, *self.values(given, named), timeout=self.timeout_s)
        if len(records) != 1:
            msg = f"{len(records)} rows instead of one: {self.text}"
            raise NotOneRow(msg)
        return self._made(records[0])

    async def all(self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any) -> list[S]:
        """Return every row."""
        records = await tx.fetch(self.sql, *self.values(given, named), timeout=self.timeout_s)
        return [self._made(record) for record in records]

    async def each(
        self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any
    ) -> AsyncIterator[S]:
        """Yield every row in constant memory; ``tx`` must be inside a transaction."""
        values = self.values(given, named)
        async for record in tx.cursor(self.sql, *values, prefetch=500, timeout=self.timeout_s):
            yield self._made(record)


def part(name: str, table: str, fields: Iterable[str]) -> str:
    """Write the columns of a table that are the fields of a part, for ``Joined``."""
    return ", ".join(f'{table}.{field} as "{name}.{field}"' for field in fields)


class Joined(Query[S]):
    """A statement that joins tables: each field of its structs is a struct itself, a part.

    The columns are named ``"part.field"``, as ``part`` writes them. A part that may be None is None
    where its first column is null, as in an outer join.
    """

    def __init__(self, struct: type[S], sql: str) -> None:
        """``sql`` returns exactly the fields of the struct's parts."""
        super().__init__(struct, sql)
        self._parts = [
            (kind, kind.__struct_fields__, _picker(names), kind is not field.type)
            for field in msgspec.structs.fields(struct)
            for kind in [self.kind_of(field.type)]
            for names in [tuple(f"{field.name}.{name}" for name in kind.__struct_fields__)]
        ]

    @staticmethod
    def kind_of(annotation: Any) -> type[msgspec.Struct]:
        """Return the struct of a part, which may be None."""
        kinds: list[type[msgspec.Struct]] = [
            kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType
        ]
        return kinds[0]

    def _made(self, record: asyncpg.Record) -> S:
        made: list[msgspec.Struct | None] = []
        for kind, fields, pick, optional in self._parts:
            cells = pick(record)
            there = not optional or cells[0] is not None
            made.append(kind(**dict(zip(fields, cells, strict=True))) if there else None)
        return self.struct(*made)


class Value(Statement, Generic[V]):
    """A statement that returns one value of type ``V``, or None where there is no row."""

    def __init__(self, kind: type[V], sql: str, *, timeout_s: float | None = None) -> None:
        """``sql`` returns one column; ``timeout_s``: None is the connection's."""
        super().__init__(sql)
        self.kind = kind
        self.timeout_s = timeout_s

    async def get(self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any) -> V | None:
        """Return the first row's value."""
        values = self.values(given, named)
        value: V | None = await tx.fetchval(self.sql, *values, timeout=self.timeout_s)
        return value


class Command(Statement):
    """A statement that changes rows and returns none."""

    async def run(self, tx: Tx, given: msgspec.Struct | None = None, /, **named: Any) -> int:
        """Run it and return how many rows it changed."""
        tag: str = await tx.execute(self.sql, *self.values(given, named))
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
