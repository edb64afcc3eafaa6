"""A survey prepares and runs every statement on a database, and rolls everything back.

Each statement has a transaction of its own, which is rolled back. Its arguments have the types that
the database reports, and values that match no row. If the database has merchants, a statement
without a merchant's id is planned but not run, since it would read or lock rows of all merchants.
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
from opentill.db.query import NotOneRow, Statement

if TYPE_CHECKING:
    from opentill.db.database import Tx

LONGEST_S: Final = 20.0  # ends a statement if the database ignores its statement timeout
_ABSENT: Final[Mapping[str, object]] = MappingProxyType({
    # Each type of a parameter, with a value that matches no row.
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
# A statement with one of these error codes ran, but its values were refused: data exceptions,
# violated constraints, and errors raised by functions and triggers (PostgreSQL, appendix A).
_REFUSED: Final = ("22", "23", "P0001")
_UTILITY: Final = ("set ", "lock ")  # beginnings of statements that have no plan
_FAILS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, NotOneRow, Problem)

Action = tuple[str, Callable[["Tx"], Awaitable[object]]]


class Failure(msgspec.Struct, frozen=True):
    """A failed statement or action, and the database's message."""

    name: str  # a statement such as orders.queries.LOCKED, or an action of the order
    phase: str  # the phase in which it failed: prepare, plan or run
    sqlstate: str  # the error's code, "" if the error is not the database's
    message: str


class Feature(msgspec.Struct, frozen=True):
    """The result of a feature's statements: their numbers, and the failures."""

    feature: str
    statements: int
    prepared: int
    ran: int  # how many ran to the end, or until a rule refused the values
    refused: int  # how many of ``ran`` were refused by a rule
    planned: int  # how many were only planned, because the database has merchants
    failures: Sequence[Failure]


class Survey(msgspec.Struct, frozen=True):
    """Result of a survey: statements prepared, run and failed, per feature."""

    version: str
    has_merchants: bool  # if so, some statements were only planned
    features: Sequence[Feature]
    order: Sequence[Failure]  # failed actions of the paid order
    untouched: str | None  # names of tables whose triggers did not fire, None if all did


class _StatementResult(msgspec.Struct, frozen=True):
    """The phase that a statement of the survey reached, and its error, None if it succeeded."""

    phase: str
    error: BaseException | None = None

    @property
    def refused(self) -> bool:
        """Whether the statement ran and a rule refused its values."""
        return self.phase == "run" and _sqlstate(self.error).startswith(_REFUSED)

    @property
    def failed(self) -> bool:
        return self.error is not None and not self.refused


async def survey(
    connect: Callable[[], Awaitable["Tx"]],
    statements: Mapping[str, Statement],
    actions: Sequence[Action],
) -> Survey:
    """Run each statement, and then the actions of a paid order in one transaction.

    ``connect`` opens a connection; it is called again if a statement has closed the connection.
    Raises the exceptions of ``connect``.
    """
    connection = await connect()
    try:
        version = await doctor_queries.ENGINE.get(connection) or ""
        has_merchants = await doctor_queries.HAS_MERCHANTS.get(connection) is not False
        outcomes: dict[str, _StatementResult] = {}
        for name, statement in _without_aliases(statements).items():
            if connection.is_closed():
                connection = await connect()
            runs = not has_merchants or "merchant_id" in statement.names
            outcomes[name] = await _try(connection, statement, runs=runs)
        if connection.is_closed():
            connection = await connect()
        failures, untouched = await _order(connection, actions)
    finally:
        connection.terminate()
    return Survey(version, has_merchants, _group_by_feature(outcomes), failures, untouched)


def _without_aliases(statements: Mapping[str, Statement]) -> Mapping[str, Statement]:
    """Omit statements that are imported under a second name."""
    first_names: dict[int, str] = {}
    for name, statement in statements.items():
        first_names.setdefault(id(statement), name)
    return {name: statements[name] for name in first_names.values()}


async def _try(connection: "Tx", statement: Statement, *, runs: bool) -> _StatementResult:
    transaction = connection.transaction()
    phase = "prepare"
    try:
        await transaction.start()
        await _limit_statement(connection)
        # Behind a pooler that loses prepared statements, the statement gets no name, so that it
        # does not remain in the database's session.
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
        return _StatementResult(phase, error)
    else:
        return _StatementResult(phase)
    finally:
        await _undo(connection, transaction)


async def _limit_statement(connection: "Tx") -> None:
    await doctor_queries.STATEMENT_TIMEOUT.run(connection)
    await doctor_queries.LOCK_TIMEOUT.run(connection)


async def _undo(connection: "Tx", transaction: Any) -> None:
    """Roll back; if that fails, close the connection, which rolls back too."""
    try:
        await transaction.rollback()
    except (*_FAILS, TimeoutError):
        connection.terminate()


def _value(kind: str) -> object:
    """Return a value of a type that matches no row, None for an unknown type."""
    if kind.endswith("[]"):
        return [_ABSENT.get(kind.removesuffix("[]"))]
    return _ABSENT.get(kind)


async def _order(
    connection: "Tx", actions: Sequence[Action]
) -> tuple[Sequence[Failure], str | None]:
    """Run the actions; return the failures, and the tables whose triggers were not fired."""
    transaction = connection.transaction()
    action_name = "begin"
    try:
        await transaction.start()
        await _limit_statement(connection)
        for name, act in actions:
            action_name = name
            await act(connection)
        action_name = "the constraints that are checked last"
        await doctor_queries.IMMEDIATELY.run(connection)
        return [], await doctor_queries.UNTOUCHED.get(connection)
    except (*_FAILS, TimeoutError) as error:
        return [_failure(action_name, _StatementResult("run", error))], None
    finally:
        await _undo(connection, transaction)


def _group_by_feature(outcomes: Mapping[str, _StatementResult]) -> list[Feature]:
    features: dict[str, dict[str, _StatementResult]] = {}
    for name, outcome in outcomes.items():
        features.setdefault(name.partition(".")[0], {})[name] = outcome
    return [_feature(feature, found) for feature, found in sorted(features.items())]


def _feature(feature: str, tried: Mapping[str, _StatementResult]) -> Feature:
    outcomes = list(tried.values())
    succeeded = [outcome for outcome in outcomes if not outcome.failed]
    return Feature(
        feature=feature,
        statements=len(outcomes),
        prepared=sum(one.phase != "prepare" or one in succeeded for one in outcomes),
        ran=sum(one.phase == "run" for one in succeeded),
        refused=sum(one.refused for one in succeeded),
        planned=sum(one.phase != "run" for one in succeeded),
        failures=[_failure(name, one) for name, one in tried.items() if one.failed],
    )


def _failure(name: str, outcome: _StatementResult) -> Failure:
    message = str(outcome.error) or type(outcome.error).__name__
    return Failure(name, outcome.phase, _sqlstate(outcome.error), message)


def _sqlstate(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")
