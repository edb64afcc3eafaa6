"""The survey of a database prepares and runs every statement, and leaves no rows."""

from functools import partial

import asyncpg

from opentill.cli import doctor_statements
from opentill.cli.survey import Survey, survey
from opentill.cli.survey_order import PaidOrder
from opentill.cli.survey_statements import STATEMENTS
from opentill.core.errors import Invalid
from opentill.db import connection as connections
from opentill.db.query import Command, Statement, Value
from support import pooler, world
from support.commands import Commands, opentill
from support.statements import EVERYWHERE

__all__ = ["opentill"]

# Statements that imitate failures on another database engine, and one that must run after them.
FAILING = {
    "products.queries.RUNS": Value(int, "select count(*) from products where id = :id"),
    "products.queries.REFUSED": Command("insert into products (merchant_id) values (:merchant_id)"),
    "products.queries.UNKNOWN": Value(int, "select no_such_function(:id::text)"),
    "rates.queries.UNABLE": Value(str, "select current_setting(:id::text)"),
    "rates.queries.ENDS": Value(bool, "select pg_terminate_backend(pg_backend_pid())"),
    "rates.queries.GOES_ON": Value(int, "select 1"),
}


def test_every_statement_runs_on_an_empty_database_and_leaves_no_rows(
    opentill: Commands, database_url: str
) -> None:
    before = opentill.json("audit", "list")
    report = opentill.json("doctor", "--statements")
    assert report["order"] == []
    assert not report["hasMerchants"]
    count = len({id(statement) for statement in STATEMENTS.values()})
    for kind in ("statements", "prepared", "ran"):
        assert sum(feature[kind] for feature in report["features"]) == count, kind
    # Only few statements may be refused because the survey's values violate a constraint.
    assert sum(feature["refused"] for feature in report["features"]) < count / 10
    assert "entries" not in (report["untouched"] or "")
    assert opentill.json("merchants", "list") == []
    assert opentill.json("audit", "list") == before


def test_the_survey_includes_every_statement() -> None:
    surveyed = {id(statement) for statement in STATEMENTS.values()}
    missing = {name for name, statement in EVERYWHERE.items() if id(statement) not in surveyed}
    assert missing == set()


async def test_each_failure_is_reported_with_the_error_of_the_engine(database_url: str) -> None:
    async def refuse(_: object) -> None:
        raise Invalid("amount", "amount must be less")

    report = await _survey(database_url, FAILING, [("pay", refuse)])
    products, rates = report.features
    assert (products.statements, products.prepared, products.ran) == (3, 2, 2)
    assert (products.refused, rates.prepared, rates.ran) == (1, 3, 1)
    (unknown,) = products.failures
    assert (unknown.name, unknown.phase) == ("products.queries.UNKNOWN", "prepare")
    assert unknown.sqlstate == asyncpg.UndefinedFunctionError.sqlstate
    unable, ends = rates.failures
    assert (unable.phase, unable.sqlstate) == ("run", asyncpg.UndefinedObjectError.sqlstate)
    # This statement ends its connection; the next one gets a new connection.
    assert ends.name == "rates.queries.ENDS"
    assert [(failure.name, failure.message) for failure in report.order] == [
        ("pay", "amount: amount must be less")
    ]
    assert doctor_statements.failed(report)
    findings = doctor_statements.findings(report)
    texts = [f"{finding.subject} {finding.level} {finding.text}" for finding in findings]
    assert "products fail 2 of 3 prepared; 2 ran, 1 of them up to a rule that refused" in texts[1]
    assert "42883 function no_such_function(text) does not exist" in texts[2]
    assert texts[-1] == "paid order fail pay, run: amount: amount must be less"


async def test_statements_over_all_merchants_are_not_run_on_a_database_in_use(
    database_url: str,
) -> None:
    """Such statements would lock or read all rows."""
    prepared = pooler.supports_prepared(database_url)
    connection = await connections.connect(database_url, prepared=prepared)
    try:
        shop = await world.create_merchant(connection)
        fails = "where 1 / (length(name) - length(name)) = 0"
        statements = {
            "merchants.queries.ALL": Command(f"update merchants set name = '' {fails}"),
            "merchants.queries.LOCKS": Command("lock table merchants"),
            "merchants.queries.ONE": Command("delete from merchants where id = :merchant_id"),
        }
        async with connection.transaction():
            await connection.execute("select 1 from merchants for update")
            report = await _survey(database_url, statements, PaidOrder(world.NOW).actions())
        (merchants,) = report.features
        assert (merchants.prepared, merchants.planned, merchants.ran) == (3, 2, 1)
        assert not doctor_statements.failed(report), report
        findings = doctor_statements.findings(report)
        assert any("was planned, not run" in finding.text for finding in findings)
        assert await connection.fetch("select id from merchants") == [(shop.id,)]
    finally:
        await connection.close()


async def _survey(url: str, statements: dict[str, Statement], actions: list[object]) -> Survey:
    connect = partial(connections.connect, url, prepared=pooler.supports_prepared(url))
    return await survey(connect, statements, actions)  # type: ignore[arg-type]
