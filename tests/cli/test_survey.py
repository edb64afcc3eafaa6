"""The survey of a database: every statement prepared and run, nothing kept."""

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

# What an engine may do to a statement of ours.
TROUBLE = {
    "products.queries.RUNS": Value(int, "select count(*) from products where id = :id"),
    "products.queries.REFUSED": Command("insert into products (merchant_id) values (:merchant_id)"),
    "products.queries.UNKNOWN": Value(int, "select no_such_function(:id::text)"),
    "rates.queries.UNABLE": Value(str, "select current_setting(:id::text)"),
    "rates.queries.ENDS": Value(bool, "select pg_terminate_backend(pg_backend_pid())"),
    "rates.queries.GOES_ON": Value(int, "select 1"),
}


def test_all_runs_on_an_empty_database_and_nothing_is_kept(
    opentill: Commands, database_url: str
) -> None:
    before = opentill.json("audit", "list")
    found = opentill.json("doctor", "--statements")
    assert found["order"] == []
    assert not found["hasMerchants"]
    count = len({id(statement) for statement in STATEMENTS.values()})
    for kind in ("statements", "prepared", "ran"):
        assert sum(feature[kind] for feature in found["features"]) == count, kind
    # Most inserts need what the order has; few others are refused, or little would be shown.
    assert sum(feature["refused"] for feature in found["features"]) < count / 10
    assert "entries" not in (found["untouched"] or "")  # a cluster's nodes do not say
    assert opentill.json("merchants", "list") == []
    assert opentill.json("audit", "list") == before


async def test_forms_for_distributed_tables_run_on_one_machine_too(database_url: str) -> None:
    forms = {name: one.in_distributed_form() for name, one in STATEMENTS.items()}
    forms = {name: form for name, form in forms.items() if form is not None}
    assert len(forms) > 20
    found = await _survey(database_url, forms, [])  # type: ignore[arg-type]
    assert [one for feature in found.features for one in feature.failures] == []


def test_no_statement_is_forgotten() -> None:
    known = {id(statement) for statement in STATEMENTS.values()}
    assert {name for name, one in EVERYWHERE.items() if id(one) not in known} == set()


async def test_each_failure_is_told_in_the_words_of_the_engine(database_url: str) -> None:
    async def wrong(_: object) -> None:
        raise Invalid("amount", "amount must be less")

    found = await _survey(database_url, TROUBLE, [("pay", wrong)])
    products, rates = found.features
    assert (products.statements, products.prepared, products.ran) == (3, 2, 2)
    assert (products.refused, rates.prepared, rates.ran) == (1, 3, 1)
    (unknown,) = products.failures
    assert (unknown.name, unknown.phase) == ("products.queries.UNKNOWN", "prepare")
    assert unknown.sqlstate == asyncpg.UndefinedFunctionError.sqlstate
    unable, ends = rates.failures
    assert (unable.phase, unable.sqlstate) == ("run", asyncpg.UndefinedObjectError.sqlstate)
    assert ends.name == "rates.queries.ENDS"  # and the next had another connection
    assert [(one.name, one.message) for one in found.order] == [
        ("pay", "amount: amount must be less")
    ]
    assert doctor_statements.failed(found)
    said = [f"{one.subject} {one.level} {one.text}" for one in doctor_statements.findings(found)]
    assert "products fail 2 of 3 prepared; 2 ran, 1 of them up to a rule that refused" in said[1]
    assert "42883 function no_such_function(text) does not exist" in said[2]
    assert said[-1] == "paid order fail pay, run: amount: amount must be less"


async def test_what_is_about_all_merchants_is_not_run_where_there_are_any(
    database_url: str,
) -> None:
    """Its rows would be locked, or all of them read."""
    prepared = pooler.prepared(database_url)
    connection = await connections.connect(database_url, prepared=prepared)
    try:
        shop = await world.merchant(connection)
        fails = "where 1 / (length(name) - length(name)) = 0"
        statements = {
            "merchants.queries.ALL": Command(f"update merchants set name = '' {fails}"),
            "merchants.queries.LOCKS": Command("lock table merchants"),
            "merchants.queries.ONE": Command("delete from merchants where id = :merchant_id"),
        }
        async with connection.transaction():
            await connection.execute("select 1 from merchants for update")
            found = await _survey(database_url, statements, PaidOrder(world.NOW).actions())
        (merchants,) = found.features
        assert (merchants.prepared, merchants.planned, merchants.ran) == (3, 2, 1)
        assert not doctor_statements.failed(found), found
        assert any("was planned, not run" in one.text for one in doctor_statements.findings(found))
        assert await connection.fetch("select id from merchants") == [(shop.id,)]
    finally:
        await connection.close()


async def _survey(url: str, statements: dict[str, Statement], actions: list[object]) -> Survey:
    connect = partial(connections.connect, url, prepared=pooler.prepared(url))
    return await survey(connect, statements, actions)  # type: ignore[arg-type]
