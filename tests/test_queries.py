"""Statements are valid on the migrated schema, fit their structs and name the merchant."""

import ast
import asyncio
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast, get_args

import msgspec
import pytest

import opentill
from opentill import orders
from opentill.cli import survey_statements
from opentill.db.query import Joined, Query, Statement, Value
from support.pooler import connect
from support.sources import nodes
from support.statements import EVERYWHERE
from support.tables import TENANT_TABLES

# Modules with statements other than the features' `queries` modules, and what their statements are
# about.
OTHER_MODULES: Final = {
    "opentill.cli.doctor_queries": "catalogues of PostgreSQL, which belong to no feature",
    "opentill.epay.imported_queries": "what comes over from an old Epay server",
    "opentill.epay.recovery_queries": "servers of shops: checks, and pending notifications",
    "opentill.figures.awaited_queries": "money that becomes available later",
    "opentill.figures.attempt_queries": "figures that are counted from attempts",
    "opentill.figures.direct_refund_queries": "refunds of direct payments, summed when read",
    "opentill.figures.payout_queries": "what a payout contains",
    "opentill.figures.brand_queries": "payments and disputes by month and card brand",
    "opentill.figures.gateway_queries": "figures by gateway, over all merchants",
    "opentill.integrity.count_queries": "the integrity rule of list counts, which is long",
    "opentill.integrity.prepaid_queries": "the integrity rules of prepaid fees",
    "opentill.integrity.event_queries": "the integrity rule of events, which is long",
    "opentill.ledger.incremental_queries": "the incremental check of a range of entries",
    "opentill.ledger.money_queries": "the list of what comes in and goes out",
    "opentill.ledger.prepaid_queries": "prepaid balances",
    "opentill.orders.payments.direct_queries": "the count of direct payments",
    "opentill.webhooks.resend_queries": "resends, in which two of the statements are long",
    "opentill.people.access_queries": "logins with the merchants of their persons",
    "opentill.people.reset_queries": "resets of second factors",
    "opentill.orders.search.lookup_queries": "looking up orders by ids and numbers",
    "opentill.orders.search.across_merchants_queries": "finding orders of all merchants",
    "opentill.orders.search.shown_queries": "the status that pages show, and counts by it",
    "opentill.orders.transition_queries": "the statements of transitions",
    "opentill.orders.imported_queries": "orders of an old Epay server",
    "opentill.payouts.overview_queries": "the list of payouts of all merchants",
    "opentill.refunds.imported_queries": "refunds of an old Epay server",
    "opentill.webhooks.catchup_queries": "numbering events, and reading them by number",
    "opentill.webhooks.figure_queries": "figures of deliveries, with bounded reads",
    "opentill.webhooks.dispatch_queries": "the statements of the dispatcher",
}
# Prefixes of the statements that check all books or count for metrics.
CHECKS_AND_COUNTS: Final = (
    "integrity.queries.RULES",
    "integrity.queries.HISTORY",
    "integrity.queries.EVENTS",
    "ledger.queries.RULES",
    "ledger.queries.UNKNOWN_MOVES",
    "ledger.queries.ENTRIES",
    "ledger.queries.CHECKED",
    "ledger.queries.PASSES",
    "orders.payments.queries.COUNT_DUE",
    "orders.settlement.queries.COUNT_SETTLEMENTS",
    "orders.settlement.queries.COUNT_RELEASES",
    "orders.payments.queries.UNANSWERED",
    "orders.search.queries.COUNT_WAITING",
    "orders.payments.queries.OLDEST_CHECK",
    "orders.settlement.queries.OLDEST_SETTLEMENT",
    "orders.settlement.queries.OLDEST_RELEASE",
    "refunds.queries.COUNT_DUE",
    "refunds.queries.OLDEST_TRY",
    "checkouts.queries.COUNT_EXPIRED",
    "checkouts.queries.OLDEST_EXPIRY",
    "epay.queries.COUNT_NOTICES",
    "epay.queries.OLDEST_NOTICE",
)
# For each type of PostgreSQL, the type to which asyncpg converts its values.
PYTHON: Final[dict[str, type]] = {
    "text": str,
    "int2": int,
    "int4": int,
    "int8": int,
    "bool": bool,
    "bytea": bytes,
    "numeric": msgspec.inspect.DecimalType,
}


STATEMENTS: Final = list(survey_statements.STATEMENTS.items())


@pytest.fixture(scope="module")
def prepared(postgres_url: str, template: str) -> dict[str, list[tuple[str, str]]]:
    """Columns of every statement by its name, as PostgreSQL describes them."""
    url = postgres_url.replace("@/opentill?", f"@/{template}?")

    async def prepare() -> dict[str, list[tuple[str, str]]]:
        connection = await connect(url)
        try:
            columns = dict[str, list[tuple[str, str]]]()
            for name, statement in STATEMENTS:
                attributes = (await connection.prepare(statement.sql)).get_attributes()
                columns[name] = [(column.name, column.type.name) for column in attributes]
            return columns
        finally:
            await connection.close()

    return asyncio.run(prepare())


def test_statements_of_all_features_are_checked() -> None:
    assert len(STATEMENTS) > 60
    assert {name.split(".")[0] for name, _ in STATEMENTS} >= {
        "products", "checkouts", "orders", "refunds", "ledger", "merchants", "db",
    }  # fmt: skip


def _fits(kind: msgspec.inspect.Type, column: str) -> bool:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.Metadata):
        return _fits(kind.type, column)
    if isinstance(kind, inspect.UnionType):
        return any(_fits(part, column) for part in kind.types)
    if isinstance(kind, inspect.ListType):
        return column.endswith("[]") or column.startswith("_")
    column_types: dict[type[msgspec.inspect.Type], set[str]] = {
        inspect.StrType: {"text", "varchar"},
        inspect.LiteralType: {"text"},
        inspect.IntType: {"int2", "int4", "int8"},
        inspect.BoolType: {"bool"},
        inspect.BytesType: {"bytea"},
        inspect.DecimalType: {"numeric"},
        inspect.AnyType: set(PYTHON),
    }
    return column in column_types.get(type(kind), set())


def test_every_statement_is_valid_and_returns_the_fields_of_its_struct(
    prepared: dict[str, list[tuple[str, str]]],
) -> None:
    misfits = {name: _misfits(statement, prepared[name]) for name, statement in STATEMENTS}
    assert {name: texts for name, texts in misfits.items() if texts} == {}


def _fields(statement: Query[Any]) -> dict[str, msgspec.inspect.Type]:
    """Return the columns of a statement's structs, with their types."""
    if isinstance(statement, Joined):
        return {
            f"{part.name}.{name}": kind
            for part in msgspec.structs.fields(statement.struct)
            for name, kind in _types(statement.kind_of(part.type)).items()
        }
    return _types(statement.struct)


def _types(struct: type[msgspec.Struct]) -> dict[str, msgspec.inspect.Type]:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.name: field.type for field in info.fields}


def _misfits(statement: Any, columns: list[tuple[str, str]]) -> list[str]:
    """Describe the columns that do not fit the statement's struct or type."""
    kinds = dict(columns)
    match statement:
        case Query():
            query = cast("Query[Any]", statement)
            fields = _fields(query)
            return [f"{name} is on one side only" for name in sorted(kinds.keys() ^ fields)] + [
                f"{name} is {kind}"
                for name, kind in kinds.items()
                if name in fields and not _fits(fields[name], kind)
            ]
        case Value():
            if len(columns) != 1:
                return [f"{len(columns)} columns"]
            (kind,) = kinds.values()
            value = cast("Value[Any]", statement)
            allowed: set[Any] = {value.kind, msgspec.inspect.DecimalType}
            fits = value.kind is object or PYTHON[kind] in allowed
            return [] if fits else [f"a value is {kind}"]
        case _:
            return list(kinds)


# Statements about merchants' rows that do not have the merchant as a parameter.
ACROSS_MERCHANTS: Final = frozenset(
    f"{feature.strip()}.{name}"
    for feature, names in {
        # the operator, staff and the worker run these for all merchants
        "adjustments.queries": "ANYWHERE DECIDED RECHARGES",
        "approvals.queries": "ANYWHERE DECIDED WAITING",
        "checkouts.queries": "COUNT_DUE DUE GATEWAY_TESTS",
        "db.queries": "ROW_COUNTS",
        "disputes.queries": "ANYWHERE CLAIM_UNMATCHED COUNT_UNMATCHED DUE MAKE_DUE OF_ALL"
        " UNFORWARDED",
        "deposits.queries": "CASES_OF_ATTEMPTS CLOSE_CASE OPEN_CASES",
        "epay.queries": "ALL ANY FAILED_NOTICES MAKE_NOTICES_DUE PAID_TWICE PRUNE_REQUESTS"
        " PRUNE_SIGNATURES"
        " SKIP_NOTICES",
        "epay.imported_queries": "HAS_V2 ORDER_OF_NUMBER",
        "figures.brand_queries": "CLEAR DIFFER DISPUTES_OF_ALL LOCK PAYMENTS_OF_ALL RECOUNT",
        "figures.direct_refund_queries": "OF_ALL",
        "figures.gateway_queries": "DIFFER RECOUNT",
        "figures.queries": "PAID_BY_MERCHANT WAITING",
        "gateways.accounts.queries": "FREE_PREPAID",
        "http.queries": "PRUNE PRUNE_IGNORED PRUNE_REFUSED",
        "ledger.incremental_queries": "NEXT",
        "ledger.queries": "BALANCES_OF MERCHANTS_AFTER OVERDUE VIOLATED",
        "list_counts.queries": "CHANGED",
        "mail.queries": "ANYWHERE CLAIM DEAD_LETTERS DIGEST_MERCHANTS EXPIRE_LEASES GIVE_UP HAS_DUE"
        " MAKE_DUE NEAR_DEADLINES NEWEST NEW_LOGINS OUTAGES PRUNE PRUNE_DEAD_LETTERS QUEUE_STATE"
        " SKIP_UNREAD SKIP_WAITING UNREAD_MERCHANTS",
        "merchants.queries": "APPLIED_BY APPLIED_FROM WAITING WAITS_FROM",
        "orders.payments.direct_queries": "UNCOUNTED_MERCHANTS",
        "orders.payments.queries": "CLAIM_ATTEMPTS DUPLICATES ENDED_ATTEMPTS"
        " ENDED_ATTEMPTS_OF_ENVIRONMENT GATEWAYS_DUE"
        " LAST_PAID LAST_REFUSED MAKE_DUE UNCOUNTED_MERCHANTS",
        "orders.queries": "ANYWHERE FORGOTTEN STUCK STUCK_ORDERS",
        "orders.search.across_merchants_queries": "NEWEST_OF_ALL "
        + " ".join(f"NEWEST_OF_ALL_BY_SHOWN_BY_{shown}0" for shown in get_args(orders.ShownStatus)),
        "orders.search.queries": "INDEX_AGAIN WAITING",
        "orders.settlement.queries": "RESERVES_DUE",
        "payment_links.queries": "ANYWHERE NOTE_ENDED",
        "payouts.overview_queries": "OF_ALL",
        "payouts.queries": "ANYWHERE BY_IDS DUE FINISH_RUN IN_RUN MOVED_BY_RUN NEXT_DUE_MERCHANTS"
        " OF_BANK_REFERENCE PUT_IN_FILE REQUESTS_DECIDED REQUESTS_WAITING REQUEST_ANYWHERE"
        " RETURNED RUN_EXCEEDS"
        " SUMS_OF_RUNS TRANSFERS WAITING_OF_RUN",
        "rates.queries": "MISSING",
        "reconciliation.queries": "BETWEEN HAS_PAYMENTS NAMED SUMS_OF_PAYOUTS",
        "refunds.queries": "ANYWHERE CLAIM CLAIM_UNMATCHED COUNT_UNMATCHED FAILED GATEWAYS_DUE"
        " MAKE_CASES_DUE MAKE_DUE UNREPORTED",
        "webhooks.dispatch_queries": "OLDEST TAKE_LEASES WAITING",
        "webhooks.queries": "ANYWHERE DISABLED MAKE_DUE PRUNE_ATTEMPTS PRUNE_DELIVERIES"
        " PRUNE_ENDPOINTS PRUNE_EVENTS PRUNE_RESENDS SKIP_WAITING",
        # these find a row by a public id, through the directory
        "checkouts.queries ": "BY_PUBLIC_ID",
        "epay.queries ": "MERCHANT_OF_PID",
        "epay_import.queries": "OF_PIDS",
        "products.queries": "MERCHANT_OF SEARCH_ALL",
        # this finds attempts by pairs of gateway and id, in one batch for several merchants
        "orders.payments.queries ": "ATTEMPTS_OF_GATEWAYS",
        "people.access_queries": "LOGIN_WITH_WORKPLACES",
        # these find rows by a token, or by a person, who may be a member of several merchants
        "people.queries": "ALL_MEMBERS LINK LOCK_REFRESHED LOGIN LOGINS LOGIN_BY_ID LOGIN_OF_API"
        " OPEN_RESET STAFF_INVITATIONS USE_LINK WITHDRAW_OF_STAFF WORKPLACES",
    }.items()
    for name in names.split()
)


def test_every_statement_about_a_tenant_names_merchant_id() -> None:
    """A transaction is about one merchant, so a statement must not find another one's rows."""
    tenant_tables = TENANT_TABLES | {"members"}
    across_merchants = {
        name
        for name, statement in STATEMENTS
        for text in [" ".join(statement.sql.split())]
        if any(f" {table} " in f"{text} " for table in tenant_tables)
        and not name.startswith(CHECKS_AND_COUNTS)
        and "merchant_id" not in statement.names
    }
    assert across_merchants == ACROSS_MERCHANTS


# ── names ──────────────────────────────────────────────────────────────────────────────────────

RUN_METHODS: Final = frozenset({"first", "one", "all", "each", "get", "run"})


@cache
def _calls() -> list[tuple[str, ModuleType, ast.Call]]:
    """Return every call that may run a statement, with its place and module."""
    calls = list[tuple[str, ModuleType, ast.Call]]()
    for info in pkgutil.walk_packages(opentill.__path__, "opentill."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        path = Path(str(module.__file__))
        calls += [
            (f"{info.name}:{node.lineno}", module, node)
            for node in nodes(path)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in RUN_METHODS
        ]
    return calls


def _statement(module: ModuleType, expression: ast.expr) -> Statement | None:
    """Return the statement that a module's expression names, None if it names none."""
    try:
        value = eval(ast.unparse(expression), dict(vars(module)))  # noqa: S307 - our own source
    except (NameError, AttributeError, SyntaxError):
        # The expression contains a local variable of a function, or an awaited value.
        return None
    return value if isinstance(value, Statement) else None


def test_statements_are_run_with_the_names_of_their_parameters() -> None:
    """This includes calls that no test runs, but not values in structs."""
    problems: list[str] = []
    checked = 0
    for place, module, call in _calls():
        statement = _statement(module, call.func.value)  # type: ignore[attr-defined]
        if statement is None:
            continue
        checked += 1
        names = {word.arg for word in call.keywords if word.arg is not None}
        all_named = len(call.args) == 1 and all(word.arg is not None for word in call.keywords)
        if not names <= set(statement.names) or (all_named and names != set(statement.names)):
            problems.append(f"{place}: {sorted(names)} for {statement.names}")
        is_starred = any(isinstance(value, ast.Starred) for value in call.args)
        structs = call.args[1:]
        if is_starred or len(structs) > 1 or any(isinstance(s, ast.Constant) for s in structs):
            problems.append(f"{place}: {ast.unparse(call)}")
    assert not problems, "\n".join(problems)
    assert checked > 250


def test_no_statement_is_run_with_positional_values() -> None:
    """This includes lists and functions: every call whose first argument is a transaction."""
    problems = [
        f"{place}: {ast.unparse(call)}"
        for place, _, call in _calls()
        if call.args
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id in {"tx", "connection"}
        and ("sandbox" not in place)
        and (len(call.args) > 2 or any(isinstance(value, ast.Starred) for value in call.args))
    ]
    assert not problems, "\n".join(problems)


def test_the_columns_of_unnested_arrays_have_the_names_of_their_parameters() -> None:
    """Two arrays cannot be swapped by mistake."""
    swapped = {
        name: (parameters, columns)
        for name, statement in STATEMENTS
        for parameters, columns in _unnested(" ".join(statement.text.split()))
        if parameters != columns
    }
    assert swapped == {}
    assert any(_unnested(" ".join(statement.text.split())) for _, statement in STATEMENTS)


def _unnested(text: str) -> list[tuple[list[str], list[str]]]:
    """Return the parameters of each ``unnest`` with the columns that they become."""
    arrays = r"unnest\(((?::\w+::\w+\[\](?:, )?)+)\)"
    aliased = re.finditer(rf"{arrays}( with ordinality)?(?: as)? \w+ \(([^()]*)\)", text)
    pairs = [
        (_parameters(match[1]), match[3].split(", ")[: -1 if match[2] else None])
        for match in aliased
    ]
    inserts = re.finditer(rf"insert into \w+ \(([^()]*)\) select \* from {arrays}", text)
    return pairs + [(_parameters(match[2]), match[1].split(", ")) for match in inserts]


def _parameters(arrays: str) -> list[str]:
    return re.findall(r":(\w+)::", arrays)


def test_statements_are_in_queries_modules() -> None:
    """One file of a feature contains all its SQL."""
    modules = {module.__name__ for module in survey_statements.modules()}
    assert {name for name in modules if not name.endswith(".queries")} == set(OTHER_MODULES)
    exempt = modules | {"opentill.db.query"}
    for info in pkgutil.walk_packages(opentill.__path__, "opentill."):
        if info.name in exempt or info.name.endswith("__main__"):
            continue
        path = Path(str(importlib.import_module(info.name).__file__))
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                is_statement = node.func.id in {"Query", "Joined", "Value", "Command"}
                assert not is_statement, f"{info.name}:{node.lineno}"


def test_no_statement_is_written_twice() -> None:
    """A feature that needs another feature's rows calls a function of that feature."""
    names: dict[str, list[str]] = {}
    for name, statement in EVERYWHERE.items():
        names.setdefault(" ".join(statement.sql.split()), []).append(name)
    assert [duplicates for duplicates in names.values() if len(duplicates) > 1] == []
