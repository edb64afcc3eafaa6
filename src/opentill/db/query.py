"""SQL statements with named parameters, whose rows are returned as structs.

SQL contains ``:name``, PostgreSQL expects ``$1``. A statement is compiled once, when its module is
imported. Callers pass values by name as well, so that they cannot swap two by mistake.
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
Tx = asyncpg.Connection  # the connection on which a statement runs; see database.py
_Picker = Callable[[Any], tuple[Any, ...]]
# The time limit of statements that read a whole table of any size. It is not None, because asyncpg
# would then use the connection's limit.
WHOLE_TABLE_S: Final = 86_400.0

# First the tokens of SQL that may contain a colon or a dollar without being a parameter, then
# parameters. A colon right after an operand is part of a slice: ``days[1:2]``, ``days[a:b]``.
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
    """The SQL that PostgreSQL gets, and the names of ``$1``, ``$2`` and so on."""

    sql: str
    names: tuple[str, ...]


def compile_sql(text: str) -> Compiled:
    """Replace each ``:name`` by ``$n``, numbered by the first appearance of the name.

    Raises ValueError for SQL that contains ``$1``, or a string or comment without an end.
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []
    copied_to = position = 0
    while (token := _TOKEN.search(text, position)) is not None:
        position = token.end()
        if token["comment"]:
            position = _end_of_comment(text, position)
        elif token["position"]:
            msg = f"{token['position']} instead of a named parameter in: {text}"
            raise ValueError(msg)
        elif token["open"]:
            msg = f"a string without an end in: {text}"
            raise ValueError(msg)
        elif name := token["name"]:
            number = numbers.setdefault(name, len(numbers) + 1)
            parts += (text[copied_to : token.start()], f"${number}")
            copied_to = position
    return Compiled("".join(parts) + text[copied_to:], tuple(numbers))


def _end_of_comment(text: str, start: int) -> int:
    """Return the end of the comment whose contents begin at ``start``; SQL comments nest."""
    depth = 1
    position = start
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            msg = f"a comment without an end in: {text}"
            raise ValueError(msg)
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position


def _picker(names: tuple[str, ...]) -> _Picker:
    """Return a function that reads the values of these names from a mapping or a row."""
    match names:
        case ():
            return lambda _: ()
        case (name,):  # itemgetter with a single name returns no tuple
            return lambda mapping: (mapping[name],)
        case _:
            return cast("_Picker", operator.itemgetter(*names))


def columns(struct: type[S], rows: Iterable[S]) -> dict[str, list[Any]]:
    """Turn rows into one list for each field, for a statement that reads them with ``unnest``."""
    names = struct.__struct_fields__
    lists = [list(column) for column in zip(*map(msgspec.structs.astuple, rows), strict=True)]
    return dict(zip(names, lists or [[] for _ in names], strict=True))


def like(text: str) -> str:
    """Return the pattern for LIKE that matches strings which contain a text."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return f"%{text}%"


class Statement:
    """The base of all statements: the SQL for PostgreSQL, and the names of its parameters."""

    def __init__(self, sql: str) -> None:
        """``sql`` names its parameters ``:name``."""
        self.text = sql
        self.sql, self.names = compile_sql(sql)
        self._pick = _picker(self.names)

    def values(self, params: msgspec.Struct | None, named: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values in PostgreSQL's order, from the fields of a struct and from ``named``.

        Raises TypeError unless these are exactly the statement's parameters, each of them once.
        """
        count = len(named)
        values = named
        if params is not None:
            fields = msgspec.structs.asdict(params)
            count += len(fields)
            values = {**fields, **named}
        if count == len(self.names):
            try:
                return self._pick(values)
            except KeyError:
                pass  # the number of parameters is right, but a name is not
        raise self._parameter_error(params, named)

    def _parameter_error(
        self, params: msgspec.Struct | None, named: Mapping[str, Any]
    ) -> TypeError:
        fields = () if params is None else params.__struct_fields__
        names = {*fields, *named}
        problems = [
            *(f"{name} is missing" for name in self.names if name not in names),
            *(f"{name} is none of them" for name in sorted(names.difference(self.names))),
            *(f"{name} is given twice" for name in fields if name in named),
        ]
        parameters = ", ".join(self.names) or "nothing"
        return TypeError(f"the statement takes {parameters}: {'; '.join(problems)}")


class Query(Statement, Generic[S]):
    """A statement whose rows are structs: each field is a column of the same name.

    A struct without keyword-only fields is built twice as fast, so use one for the busiest rows.
    Columns without a field are ignored: during an upgrade the next version migrates the database
    while this one still serves.
    """

    def __init__(self, struct: type[S], sql: str, *, timeout_s: float | None = None) -> None:
        """``sql`` returns the struct's fields; without ``timeout_s`` the connection's applies."""
        super().__init__(sql)
        self.struct = struct
        self.timeout_s = timeout_s
        self._fields = struct.__struct_fields__
        self._cells = _picker(self._fields)
        # Whether no field is keyword-only.
        self._is_positional = struct.__match_args__ == self._fields

    def _struct_of(self, record: asyncpg.Record) -> S:
        cells = self._cells(record)
        if self._is_positional:
            return self.struct(*cells)
        return self.struct(**dict(zip(self._fields, cells, strict=True)))

    async def first(
        self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any
    ) -> S | None:
        """Return the first row, or None."""
        record = await tx.fetchrow(self.sql, *self.values(params, named), timeout=self.timeout_s)
        return None if record is None else self._struct_of(record)

    async def one(self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any) -> S:
        """Return the only row. Raises NotOneRow if there is none, or more than one."""
        records = await tx.fetch(self.sql, *self.values(params, named), timeout=self.timeout_s)
        if len(records) != 1:
            msg = f"{len(records)} rows instead of one: {self.text}"
            raise NotOneRow(msg)
        return self._struct_of(records[0])

    async def all(self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any) -> list[S]:
        """Return every row."""
        records = await tx.fetch(self.sql, *self.values(params, named), timeout=self.timeout_s)
        return [self._struct_of(record) for record in records]

    async def each(
        self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any
    ) -> AsyncIterator[S]:
        """Yield every row in constant memory; ``tx`` must be inside a transaction."""
        values = self.values(params, named)
        async for record in tx.cursor(self.sql, *values, prefetch=500, timeout=self.timeout_s):
            yield self._struct_of(record)


def part(name: str, table: str, fields: Iterable[str]) -> str:
    """Write a table's columns for the part ``name`` of a ``Joined`` statement."""
    return ", ".join(f'{table}.{field} as "{name}.{field}"' for field in fields)


class Joined(Query[S]):
    """A statement that joins tables: each field of its structs is a struct itself, a part.

    The columns are named ``"part.field"``, as ``part`` writes them. An optional part is None if its
    first column is null, as after an outer join.
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
        """Return the struct in the annotation of a part, which may be optional."""
        kinds: list[type[msgspec.Struct]] = [
            kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType
        ]
        return kinds[0]

    def _struct_of(self, record: asyncpg.Record) -> S:
        parts: list[msgspec.Struct | None] = []
        for kind, fields, pick, optional in self._parts:
            cells = pick(record)
            is_null = optional and cells[0] is None
            parts.append(None if is_null else kind(**dict(zip(fields, cells, strict=True))))
        return self.struct(*parts)


class Value(Statement, Generic[V]):
    """A statement that returns one value of type ``V``, or None where there is no row."""

    def __init__(self, kind: type[V], sql: str, *, timeout_s: float | None = None) -> None:
        """``sql`` returns one column; without ``timeout_s`` the connection's applies."""
        super().__init__(sql)
        self.kind = kind
        self.timeout_s = timeout_s

    async def get(self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any) -> V | None:
        """Return the first row's value."""
        values = self.values(params, named)
        value: V | None = await tx.fetchval(self.sql, *values, timeout=self.timeout_s)
        return value


class Command(Statement):
    """A statement that changes rows and returns none."""

    async def run(self, tx: Tx, params: msgspec.Struct | None = None, /, **named: Any) -> int:
        """Run it and return how many rows it changed."""
        tag: str = await tx.execute(self.sql, *self.values(params, named))
        count = tag.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0
