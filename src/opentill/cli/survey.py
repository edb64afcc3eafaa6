"""A survey: every statement is prepared and run on a database, and nothing of it is kept.

Each statement has a transaction of its own, which is rolled back. Its parameters are of the types
that the database says, and name what is not there. Where the database has merchants, a statement
that does not name its merchant is planned and not run: it would read or lock rows of them all.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import msgspec

from opentill.cli import doctor_queries
from opentill.core.errors import Problem
from opentill.db.connection import Unprepared
from opentill.db.database import fit_statements
from opentill.db.query import NotOneRow, Statement

if TYPE_CHECKING:
    from opentill.db.database import Tx

LONGEST_S: Final = 20.0  # for an engine that does not keep to the timeouts of statements
_ABSENT: Final[Mapping[str, object]] = MappingProxyType({
    # type: a value that no row has, or that reaches none
    "text": "survey",
    "varchar": "survey",
    "int2": 1,
    "int4": 1,
    "int8": 1,
    "bool": False,
    "numeric": Decimal(1),
    "bytea": b"survey",
    "jsonb": "{}",
})  # fmt: skip
# The statement ran, up to what it was given: data exceptions, violated constraints, and what
# functions and triggers of ours raise (PostgreSQL, appendix A).
_REFUSED: Final = ("22", "23", "P0001")
_INTERNAL: Final = "XX000"
_UTILITY: Final = ("set ", "lock ")  # have no plan
_FAILS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, NotOneRow, Problem)

Action = tuple[str, Callable[["Tx"], Awaitable[object]]]


class Failure(msgspec.Struct, frozen=True):
    """What did not work, and what the database said."""

    name: str  # of a statement, such as orders.queries.LOCKED, or what was done with the order
    phase: str  # prepare, plan, run
    sqlstate: str  # empty if it was not the database that refused
    message: str


class Feature(msgspec.Struct, frozen=True):
    """What became of the statements of a feature."""

    feature: str
    statements: int
    prepared: int
    ran: int  # to the end, or up to a rule that refused their values
    refused: int  # how many of those
    planned: int  # instead of run, since the database has merchants
    failures: Sequence[Failure]


class Survey(msgspec.Struct, frozen=True):
    """What became of all."""

    version: str
    has_merchants: bool  # then not every statement was run
    features: Sequence[Feature]
    order: Sequence[Failure]  # of the paid order
    untouched: str | None  # tables whose triggers nothing has fired


class _Tried(msgspec.Struct, frozen=True):
    """How far a statement came."""

    phase: str
    error: BaseException | None = None

    @property
    def refused(self) -> bool:
        """Whether it ran, and a rule refused its values."""
        # Citus calls all that a node refuses to copy an internal error.
        copied = _sqlstate(self.error) == _INTERNAL and " violates " in str(self.error)
        return self.phase == "run" and (copied or _sqlstate(self.error).startswith(_REFUSED))

    @property
    def failed(self) -> bool:
        return self.error is not None and not self.refused


async def survey(
    connect: Callable[[], Awaitable["Tx"]],
    statements: Mapping[str, Statement],
    actions: Sequence[Action],
) -> Survey:
    """Try each statement, and then the actions of a paid order in one transaction.

    ``connect`` opens a connection, another one where a statement has ended the one before. Raises
    what asyncpg raises if there is none.
    """
    connection = await connect()
    try:
        await fit_statements(connection)
        version = await doctor_queries.ENGINE.get(connection) or ""
        has_merchants = await doctor_queries.HAS_MERCHANTS.get(connection) is not False
        tried: dict[str, _Tried] = {}
        for name, statement in _once(statements).items():
            if connection.is_closed():
                connection = await connect()
            runs = not has_merchants or "merchant_id" in statement.names
            tried[name] = await _try(connection, statement, runs=runs)
        if connection.is_closed():
            connection = await connect()
        failures, untouched = await _order(connection, actions)
    finally:
        connection.terminate()
    return Survey(version, has_merchants, _by_feature(tried), failures, untouched)


def _once(statements: Mapping[str, Statement]) -> Mapping[str, Statement]:
    """Leave out what is imported under a second name."""
    kept: dict[int, str] = {}
    for name, statement in statements.items():
        kept.setdefault(id(statement), name)
    return {name: statements[name] for name in kept.values()}


async def _try(connection: "Tx", statement: Statement, *, runs: bool) -> _Tried:
    transaction = connection.transaction()
    phase = "prepare"
    try:
        await transaction.start()
        await _bound(connection)
        # Behind a pooler that forgets a statement it has no name, so that none is left behind.
        name = "" if isinstance(connection, Unprepared) else None
        prepared = await connection.prepare(statement.sql, name=name, timeout=LONGEST_S)
        values = [_value(kind.name) for kind in prepared.get_parameters()]
        if runs:
            phase = "run"
            await prepared.fetch(*values, timeout=LONGEST_S)
        elif not statement.sql.lstrip().startswith(_UTILITY):
            phase = "plan"
            await connection.fetch(f"explain {statement.sql}", *values, timeout=LONGEST_S)
    except (*_FAILS, TimeoutError) as error:
        return _Tried(phase, error)
    else:
        return _Tried(phase)
    finally:
        await _undo(connection, transaction)


async def _bound(connection: "Tx") -> None:
    await doctor_queries.STATEMENT_TIMEOUT.run(connection)
    await doctor_queries.LOCK_TIMEOUT.run(connection)


async def _undo(connection: "Tx", transaction: Any) -> None:
    """Roll back; a connection on which that fails is closed, which rolls back as well."""
    try:
        await transaction.rollback()
    except (*_FAILS, TimeoutError):
        connection.terminate()


def _value(kind: str) -> object:
    """Return a value of a type as ``pg_type`` names it; null for one that is not known."""
    if kind.endswith("[]"):
        return [_ABSENT.get(kind.removesuffix("[]"))]
    return _ABSENT.get(kind)


async def _order(
    connection: "Tx", actions: Sequence[Action]
) -> tuple[Sequence[Failure], str | None]:
    """Take the actions; return what failed, and the tables whose triggers nothing has fired."""
    transaction = connection.transaction()
    doing = "begin"
    try:
        await transaction.start()
        await _bound(connection)
        for name, act in actions:
            doing = name
            await act(connection)
        doing = "the constraints that are checked last"
        await doctor_queries.IMMEDIATELY.run(connection)
        if Statement.distributes:  # the nodes count what is written there
            return [], None
        return [], await doctor_queries.UNTOUCHED.get(connection)
    except (*_FAILS, TimeoutError) as error:
        return [_failure(doing, _Tried("run", error))], None
    finally:
        await _undo(connection, transaction)


def _by_feature(tried: Mapping[str, _Tried]) -> list[Feature]:
    features: dict[str, dict[str, _Tried]] = {}
    for name, one in tried.items():
        features.setdefault(name.partition(".")[0], {})[name] = one
    return [_feature(feature, found) for feature, found in sorted(features.items())]


def _feature(feature: str, tried: Mapping[str, _Tried]) -> Feature:
    ends = list(tried.values())
    done = [one for one in ends if not one.failed]
    return Feature(
        feature=feature,
        statements=len(ends),
        prepared=sum(one.phase != "prepare" or one in done for one in ends),
        ran=sum(one.phase == "run" for one in done),
        refused=sum(one.refused for one in done),
        planned=sum(one.phase != "run" for one in done),
        failures=[_failure(name, one) for name, one in tried.items() if one.failed],
    )


def _failure(name: str, tried: _Tried) -> Failure:
    message = str(tried.error) or type(tried.error).__name__
    return Failure(name, tried.phase, _sqlstate(tried.error), message)


def _sqlstate(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")
