"""Every statement can be prepared on the migrated schema, and its columns fit its struct."""

import ast
import asyncio
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import asyncpg
import msgspec
import pytest

import opentill
from opentill.cli import survey_statements
from opentill.db.query import Joined, Query, Statement, Value
from support.sources import nodes
from support.statements import EVERYWHERE as EVERY_STATEMENT

# Modules with statements besides the features' `queries` modules, and why.
ALSO: Final = {
    "opentill.cli.doctor_queries": "PostgreSQL about itself, which no feature stores",
    "opentill.figures.gateway_queries": "figures by gateway, of all merchants together",
    "opentill.integrity.event_queries": "the one rule of events, which is long",
    "opentill.ledger.incremental_queries": "a check of its own, of one range of entries",
    "opentill.people.reset_queries": "resets of second factors",
    "opentill.orders.transition_queries": "the statements of transitions",
    "opentill.webhooks.catchup_queries": "numbers of events, and reading by them",
    "opentill.webhooks.dispatch_queries": "the statements of the dispatcher",
}
# The checks of all books, and counts for metrics.
EVERYWHERE: Final = (
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
# PostgreSQL's types, and the types to which asyncpg converts them.
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
        connection = await asyncpg.connect(url)
        try:
            columns = {}
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
    column_types = {
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
    wrong = {
        name: misfits
        for name, statement in STATEMENTS
        if (misfits := _misfits(statement, prepared[name]))
    }
    assert wrong == {}


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
    """Describe the columns of a statement that do not fit its kind."""
    kinds = dict(columns)
    match statement:
        case Query():
            fields = _fields(statement)
            return [f"{name} is on one side only" for name in sorted(kinds.keys() ^ fields)] + [
                f"{name} is {kind}"
                for name, kind in kinds.items()
                if name in fields and not _fits(fields[name], kind)
            ]
        case Value():
            if len(columns) != 1:
                return [f"{len(columns)} columns"]
            (kind,) = kinds.values()
            allowed = {statement.kind, msgspec.inspect.DecimalType}
            fits = statement.kind is object or PYTHON[kind] in allowed
            return [] if fits else [f"a value is {kind}"]
        case _:
            return list(kinds)


def test_every_statement_about_a_tenant_names_merchant_id() -> None:
    """A transaction is about one merchant, so a statement must not find another one's rows."""
    everywhere = {
        # the operator's and the worker's, over all merchants
        "orders.queries.ANYWHERE",
        "refunds.queries.ANYWHERE",
        "disputes.queries.ANYWHERE",
        "payouts.queries.ANYWHERE",
        "adjustments.queries.ANYWHERE",
        "products.queries.MERCHANT_OF",
        "ledger.incremental_queries.NEXT",
        "orders.payments.queries.CLAIM_ATTEMPTS",
        "disputes.queries.CLAIM_UNMATCHED",
        "refunds.queries.CLAIM_UNMATCHED",
        "refunds.queries.CLAIM",
        "checkouts.queries.DUE",
        "checkouts.queries.COUNT_DUE",
        "orders.settlement.queries.DUE_MERCHANTS",
        "orders.settlement.queries.SETTLEABLE",
        "orders.settlement.queries.RESERVES_DUE",
        "orders.queries.FORGOTTEN",
        "orders.search.queries.WAITING",
        "orders.queries.STUCK",
        "orders.payments.queries.LAST_REFUSED",
        "orders.payments.queries.MAKE_DUE",
        "refunds.queries.MAKE_DUE",
        "orders.payments.queries.UNCOUNTED_MERCHANTS",
        "figures.queries.WAITING",
        "reconciliation.queries.BETWEEN",
        "reconciliation.queries.NAMED",
        "reconciliation.queries.HAS_PAYMENTS",
        "epay.queries.MERCHANT_OF_PID",  # of a pid, through the directory
        "epay.queries.ALL",
        "epay.queries.ANY",
        "epay.queries.CLAIM_NOTICES",
        "epay.queries.MAKE_NOTICES_DUE",
        "epay.queries.SKIP_NOTICES",
        "epay.queries.PRUNE_REQUESTS",
        "merchants.queries.REVOKE_KEY",
        "merchants.queries.AUTHENTICATE",
        "merchants.queries.AUTHENTICATE_LIMITED",
        "http.queries.PRUNE",
        "rates.queries.MISSING",
        # arrays: a batch may be of several merchants
        "webhooks.queries.EMIT",
        "ledger.queries.POST",
        "ledger.queries.LOCK_MANY",
        "orders.payments.queries.LOCK_MANY",
        "orders.transition_queries.CONFIRMATIONS",
        "orders.transition_queries.SETTLEMENTS",
        "orders.payments.queries.ATTEMPTS_OF_GATEWAYS",
        # the outbox and the dispatcher, over all merchants
        "webhooks.queries.ANYWHERE",
        "webhooks.queries.SEARCH",
        "webhooks.dispatch_queries.TAKE_LEASES",
        "webhooks.dispatch_queries.RENEW_LEASES",
        "webhooks.dispatch_queries.RENEW_HOSTS",
        "webhooks.queries.PRUNE_HOSTS",
        "webhooks.dispatch_queries.DUE",
        "webhooks.dispatch_queries.RECORD",
        "webhooks.dispatch_queries.FORGET_ATTEMPTS",
        "webhooks.dispatch_queries.SET_FAILING",
        "webhooks.queries.MAKE_DUE",
        "webhooks.queries.SKIP_WAITING",
        "webhooks.queries.PRUNE_ATTEMPTS",
        "webhooks.queries.PRUNE_DELIVERIES",
        "webhooks.queries.PRUNE_EVENTS",
        "webhooks.queries.PRUNE_ENDPOINTS",
        "webhooks.dispatch_queries.WAITING",
        "webhooks.dispatch_queries.OLDEST",
        # a person's, who may be a member of several merchants; the operator's
        "people.queries.WORKPLACES",
        "people.queries.LOGIN",
        "people.queries.LOGIN_BY_ID",
        "people.queries.LOGIN_OF_API",
        "people.queries.LOCK_REFRESHED",
        "people.queries.LOGINS",
        "people.queries.ALL_MEMBERS",
        "mail.queries.UNREAD_MERCHANTS",  # the worker's, over all merchants
        "mail.queries.NEW_LOGINS",
        "mail.queries.NEAR_DEADLINES",
        "mail.queries.OUTAGES",
        "payouts.queries.DUE",
        "merchants.queries.APPLIED_BY",
        "merchants.queries.APPLIED_FROM",
        "merchants.queries.WAITS_FROM",
        "merchants.queries.WAITING",
        # by a token, or of staff: the members of the merchant that the row names
        "people.queries.LINK",
        "people.queries.USE_LINK",
        "people.queries.OPEN_RESET",
        "people.queries.STAFF_INVITATIONS",
        "people.queries.WITHDRAW_OF_STAFF",
        # of staff, over all merchants
        "disputes.queries.DUE",
        "disputes.queries.OF_ALL",
        "checkouts.queries.GATEWAY_TESTS",
        "epay.queries.FAILED_NOTICES",
        "orders.payments.queries.DUPLICATES",
        "orders.queries.STUCK_ORDERS",
        "refunds.queries.UNREPORTED",
        "webhooks.queries.DISABLED",
        "figures.gateway_queries.RECOUNT",
        "payouts.queries.DUE_AFTER",
        "payouts.queries.PUT_IN_FILE",
        "payouts.queries.WAITING_OF_RUN",
        "payouts.queries.RUN_SUMS",
        "payouts.queries.IN_RUN",
        "payouts.queries.RUN_EXCEEDS",
        "payouts.queries.MOVED_BY_RUN",
        "approvals.queries.ANYWHERE",
        "approvals.queries.WAITING",
        "payouts.queries.TRANSFERS",
        "payouts.queries.BY_IDS",
        "payouts.queries.REQUEST_ANYWHERE",
        "payouts.queries.REQUESTS_WAITING",
        "payouts.queries.RETURNED",
        "reconciliation.queries.SUMS_OF_PAYOUTS",
        "ledger.queries.MERCHANTS_AFTER",
        # by a public id, through the directory
        "orders.queries.MERCHANT_OF",
        "checkouts.queries.BY_PUBLIC_ID",
        "epay.queries.PAID_TWICE",
        "payment_links.queries.ANYWHERE",
        "payment_links.queries.NOTE_ENDED",
    }
    tenant = (
        "products", "checkouts", "orders", "payment_attempts", "refunds", "balances",
        "order_history", "order_notes", "disputes", "dispute_notes", "payouts", "adjustments",
        "merchant_terms", "events",
        "webhook_endpoints", "webhook_deliveries", "delivery_attempts", "endpoint_leases",
        "epay_credentials", "epay_products", "epay_orders", "epay_refunds",
        "epay_notifications", "search_terms", "search_counts", "search_changes", "search_heads",
        "merchant_history", "merchant_applications",
        "late_payments", "members", "agreement_acceptances", "merchant_logos", "bank_accounts",
        "bank_account_confirmations", "payout_transfers", "payout_requests", "approval_requests",
        "solo_movements",
        "payment_links", "payment_link_uses", "payment_link_sales", "gateway_tests",
    )  # fmt: skip
    wrong = {
        name: text
        for name, statement in STATEMENTS
        for text in [" ".join(statement.sql.split())]
        if any(f" {table} " in f"{text} " for table in tenant)
        and not (name in everywhere or name.startswith(EVERYWHERE))
        and "merchant_id" not in statement.names
    }
    assert wrong == {}


# ── names ──────────────────────────────────────────────────────────────────────────────────────

RUNS: Final = frozenset({"first", "one", "all", "each", "get", "run"})


@cache
def _calls() -> list[tuple[str, ModuleType, ast.Call]]:
    """Return every call of the product that may run a statement, with its place and module."""
    calls = []
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
            and node.func.attr in RUNS
        ]
    return calls


def _statement(module: ModuleType, expression: ast.expr) -> Statement | None:
    """Return the statement that a module's expression names, None if it names none."""
    try:
        value = eval(ast.unparse(expression), dict(vars(module)))  # noqa: S307 - our own source
    except (NameError, AttributeError, SyntaxError):
        return None  # a function's variable, such as a rule of a list, or an awaited value
    return value if isinstance(value, Statement) else None


def test_statements_are_called_by_the_names_of_their_parameters() -> None:
    """Calls that no test runs are checked too; values in structs are checked when they run."""
    wrong: list[str] = []
    checked = 0
    for place, module, call in _calls():
        statement = _statement(module, call.func.value)  # type: ignore[attr-defined]
        if statement is None:
            continue
        checked += 1
        names = {word.arg for word in call.keywords if word.arg is not None}
        all_named = len(call.args) == 1 and all(word.arg is not None for word in call.keywords)
        if not names <= set(statement.names) or (all_named and names != set(statement.names)):
            wrong.append(f"{place}: {sorted(names)} for {statement.names}")
        several = any(isinstance(value, ast.Starred) for value in call.args)
        structs = call.args[1:]
        if several or len(structs) > 1 or any(isinstance(one, ast.Constant) for one in structs):
            wrong.append(f"{place}: {ast.unparse(call)}")
    assert not wrong, "\n".join(wrong)
    assert checked > 250


def test_nothing_is_run_with_values_by_position() -> None:
    """This covers statements of lists and functions too: every call whose first value is ``tx``."""
    wrong = [
        f"{place}: {ast.unparse(call)}"
        for place, _, call in _calls()
        if call.args
        and isinstance(call.args[0], ast.Name)
        and call.args[0].id in {"tx", "connection"}
        and ("sandbox" not in place)
        and (len(call.args) > 2 or any(isinstance(value, ast.Starred) for value in call.args))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_columns_of_unnested_arrays_have_the_names_of_their_parameters() -> None:
    """So two arrays cannot be swapped by mistake."""
    wrong = {
        name: (parameters, columns)
        for name, statement in STATEMENTS
        for parameters, columns in _unnested(" ".join(statement.text.split()))
        if parameters != columns
    }
    assert wrong == {}
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
    """So one file of a feature contains all its SQL."""
    modules = {module.__name__ for module in survey_statements.modules()}
    assert {name for name in modules if not name.endswith(".queries")} == set(ALSO)
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
    """If two features need the same rows, one of them asks the feature that owns the rows."""
    names: dict[str, list[str]] = {}
    for name, statement in EVERY_STATEMENT.items():
        names.setdefault(" ".join(statement.sql.split()), []).append(name)
    assert [duplicates for duplicates in names.values() if len(duplicates) > 1] == []
