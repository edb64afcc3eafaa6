"""Named parameters: how SQL is compiled, and which values a statement accepts."""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import asyncpg
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opentill.db import connection as connections
from opentill.db.database import Db
from opentill.db.query import (
    Command,
    Joined,
    NotOneRow,
    Query,
    Statement,
    Value,
    columns,
    compile_sql,
    part,
)
from support import pooler

NAMES: Final = st.sampled_from(["id", "merchant_id", "now", "a", "_b", "limit", "text"])
# Complete SQL tokens that contain colons and dollars, but no parameter.
TOKENS: Final = st.one_of(
    st.text("abc:$1'\n", max_size=8).map(lambda text: "'" + text.replace("'", "''") + "'"),
    st.text("ab:$1'\"\\\n", max_size=8).map(
        lambda text: "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    ),
    st.text('abc:$1"', min_size=1, max_size=8).map(
        lambda text: '"' + text.replace('"', '""') + '"'
    ),
    st.text("abc:$1'\"", max_size=8).map(lambda text: f"--{text}\n"),
    st.text("abc:$1'\"", max_size=8).map(lambda text: f"/*{text}/* :inner */ :outer*/"),
    st.text("abc:1'\"", max_size=8).map(lambda text: f"$body${text}$body$"),
    st.text("abc:1'\"", max_size=8).map(lambda text: f"$${text}$$"),
    st.sampled_from([
        "x::text", "days[1:2]", "days[a:b]", "f(day := 1)", "dollars$1", "'a'::text", "(a)::int",
        "array[1, 2]", ", ", " and ", "a <> b", "case when a then 1 end",
    ]),
)  # fmt: skip


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just(True), NAMES),  # the text is the name of a parameter
            st.tuples(st.just(False), TOKENS),
        )
    )
)
@example([(True, "id"), (False, "x::text"), (True, "now"), (True, "id")])
@example([(False, "E'\\\\'"), (True, "id"), (False, "E'\\''")])
def test_parameters_are_replaced_and_other_tokens_are_not(parts: list[tuple[bool, str]]) -> None:
    text = " ".join(f":{part}" if is_name else part for is_name, part in parts)
    names = list(dict.fromkeys(part for is_name, part in parts if is_name))
    expected = " ".join(f"${names.index(part) + 1}" if is_name else part for is_name, part in parts)
    assert compile_sql(text) == (expected, tuple(names))


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("a = :id and b = :now or a = :id", "a = $1 and b = $2 or a = $1"),
        (":id::text", "$1::text"),
        ("(:id,:now)", "($1,$2)"),
        ("any(:ids::text[])", "any($1::text[])"),
        ("f(a => :id, b := :now)", "f(a => $1, b := $2)"),
        ("days[:first]", "days[$1]"),
        # `last` is a column here; `[1: :last]` would have a parameter.
        ("days[1:last]", "days[1:last]"),
        ("days[1 : 2]", "days[1 : 2]"),
        ("days[f(1):n]", "days[f(1):n]"),
        ("a=:id", "a=$1"),
        ("'it''s :id' || :id", "'it''s :id' || $1"),
        ("e'\\' :id' || :id", "e'\\' :id' || $1"),
        ("'\\' || :id", "'\\' || $1"),  # a backslash escapes only in a text with the prefix E
        ('select ":id" as "a"":b", :id', 'select ":id" as "a"":b", $1'),
        ("select 1 -- :id\n, :id", "select 1 -- :id\n, $1"),
        ("/* /* :id */ :id */ :id", "/* /* :id */ :id */ $1"),
        ("$x$ $$ :id $x$ || :id", "$x$ $$ :id $x$ || $1"),
        ("to_char(at, 'HH24:MI:SS') = :at", "to_char(at, 'HH24:MI:SS') = $1"),
        ("array['a:b'] @> :tags", "array['a:b'] @> $1"),
    ],
)
def test_text_that_looks_like_a_parameter_is_distinguished(text: str, sql: str) -> None:
    assert compile_sql(text).sql == sql


@pytest.mark.parametrize(
    "text",
    [
        "select $1", "a = :id and b = $2", "select 'a", 'select "a', "select e'a\\'", "select 'a''",
        "select $x$ a $y$", "select /* a", "select /* a /* b */",
    ],
)  # fmt: skip
def test_positional_parameters_and_unterminated_tokens_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        Statement(text)


# ── converting rows to values ──────────────────────────────────────────────────────────────────


class Pair(msgspec.Struct, frozen=True):
    """Two values."""

    a: int
    b: str | None


class Single(msgspec.Struct, frozen=True):
    """One value."""

    a: int


class Couple(msgspec.Struct, frozen=True):
    """Two structs; the second may be missing."""

    first: Pair
    other: Pair | None


BOTH: Final = "select :b, :a, :b"
MISSING: Final = "the statement takes b, a: "


@pytest.mark.parametrize(
    ("sql", "struct", "named", "values"),
    [
        ("select 1", None, {}, ()),
        ("select :a", None, {"a": 1}, (1,)),
        ("select :a", Single(1), {}, (1,)),
        (BOTH, None, {"a": 1, "b": "x"}, ("x", 1)),
        (BOTH, Pair(1, None), {}, (None, 1)),
        (BOTH, Single(1), {"b": "x"}, ("x", 1)),
    ],
)
def test_values_are_taken_by_name_from_a_struct_and_keywords(
    sql: str, struct: msgspec.Struct | None, named: dict[str, Any], values: tuple[Any, ...]
) -> None:
    assert tuple(Statement(sql).values(struct, named)) == values


@pytest.mark.parametrize(
    ("sql", "struct", "named", "message"),
    [
        ("select 1", None, {"a": 1}, "the statement takes nothing: a is none of them"),
        ("select 1", Single(1), {}, "the statement takes nothing: a is none of them"),
        (BOTH, None, {}, MISSING + "b is missing; a is missing"),
        (BOTH, None, {"a": 1}, MISSING + "b is missing"),
        (BOTH, Single(1), {}, MISSING + "b is missing"),
        (BOTH, None, {"a": 1, "c": 2}, MISSING + "b is missing; c is none of them"),
        (BOTH, None, {"a": 1, "b": 2, "c": 2}, MISSING + "c is none of them"),
        (BOTH, Pair(1, "x"), {"c": 2}, MISSING + "c is none of them"),
        (BOTH, Pair(1, "x"), {"a": 2}, MISSING + "a is given twice"),
        (BOTH, Single(1), {"a": 2}, MISSING + "b is missing; a is given twice"),
        ("select :c", Pair(1, "x"), {},
         "the statement takes c: c is missing; a is none of them; b is none of them"),
    ],
)  # fmt: skip
def test_missing_and_extra_names_are_refused(
    sql: str, struct: msgspec.Struct | None, named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as refused:
        Statement(sql).values(struct, named)
    assert str(refused.value) == message


def test_structs_become_arrays_by_field() -> None:
    rows = [Pair(1, "x"), Pair(2, None)]
    assert columns(Pair, rows) == {"a": [1, 2], "b": ["x", None]}
    assert columns(Pair, iter(rows)) == columns(Pair, rows)
    assert columns(Single, [Single(1), Single(2)]) == {"a": [1, 2]}
    assert columns(Pair, []) == {"a": [], "b": []}


# ── running statements ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def db(postgres_url: str) -> AsyncIterator[Db]:
    db = await Db.connect(postgres_url, 1, acquire_timeout_s=10)
    yield db
    await db.close()


ROWS: Final = Query(
    Pair,
    """
    select n as a, :word::text as b from generate_series(1, :count::int) n where n <> :but::int
    order by n
    """,
)


async def test_every_method_that_runs_a_query_accepts_names(db: Db) -> None:
    both = [Pair(1, "x"), Pair(3, "x")]
    async with db.transaction() as tx:
        assert await ROWS.all(tx, word="x", count=3, but=2) == both
        assert [row async for row in ROWS.each(tx, word="x", count=3, but=2)] == both
        assert await ROWS.first(tx, word="x", count=3, but=2) == both[0]
        assert await ROWS.first(tx, word="x", count=0, but=2) is None
        assert await ROWS.one(tx, word="x", count=2, but=2) == both[0]
        total = Value(int, "select :a::int + length(:b::text)")
        assert await total.get(tx, Pair(1, "xy")) == 3
        await tx.execute("create temporary table pairs (a int, b text) on commit drop")
        insert = Command(
            "insert into pairs select * from unnest(:a::int[], :b::text[]) as p (a, b)"
        )
        assert await insert.run(tx, **columns(Pair, both)) == 2
        assert await Query(Pair, "select * from pairs order by a").all(tx) == both


@pytest.mark.parametrize(("count", "problem"), [(0, "0 rows"), (3, "2 rows")])
async def test_the_method_one_refuses_no_row_and_several_rows(
    db: Db, count: int, problem: str
) -> None:
    async with db.connection() as tx:
        with pytest.raises(NotOneRow, match=rf"{problem} instead of one:\s+select n as a, :word"):
            await ROWS.one(tx, word="x", count=count, but=2)


async def test_a_joined_row_becomes_nested_structs(db: Db) -> None:
    rows = "(values (1, 'x'), (2, null)) as {} (a, b)"
    statement = Joined(
        Couple,
        f"""
        select {part("other", "r", ("b", "a"))}, {part("first", "l", ("a", "b"))}
        from {rows.format("l")} left join {rows.format("r")} on r.a = l.a + :off::int order by l.a
        """,
    )
    async with db.connection() as tx:
        assert await statement.all(tx, off=1) == [
            Couple(Pair(1, "x"), Pair(2, None)),
            Couple(Pair(2, None), None),
        ]


async def test_a_statement_may_have_its_own_timeout(database_url: str) -> None:
    class Row(msgspec.Struct):
        slept: bool

    sql = "select pg_sleep(0.5) is not null as slept"
    options = connections.options(prepared=pooler.supports_prepared(database_url))
    connection = await asyncpg.connect(database_url, command_timeout=0.25, **options)
    try:
        query, value = Query(Row, sql, timeout_s=20), Value(bool, sql, timeout_s=20)
        assert await query.one(connection) == await query.first(connection) == Row(slept=True)
        assert await query.all(connection) == [Row(slept=True)]
        assert await value.get(connection)
        async with connection.transaction():
            assert [row async for row in query.each(connection)] == [Row(slept=True)]
        for run in (Query(Row, sql).one, Value(bool, sql).get):
            with pytest.raises(TimeoutError):
                await run(connection)
    finally:
        await connection.close()
