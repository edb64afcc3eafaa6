"""The findings of ``opentill doctor`` about the database."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from opentill import rates
from opentill.cli import doctor_database, session
from opentill.cli.exposure import Finding
from opentill.core.settings import Settings
from opentill.db import clock, migrations
from opentill.db import connection as connections
from opentill.rates.model import Day
from support import pooler
from support.databases import database_address
from support.pooler import connect
from support.world import DAY, create_merchant, create_product

RECIPE: Final = (Path(__file__).parents[2] / "docs/recipes/upgrade.md").read_text("utf-8")


@pytest.mark.parametrize(("shift_s", "level"), [(0.0, "ok"), (60.0, "warn"), (-60.0, "warn")])
def test_the_clocks_of_both_machines_are_compared(
    database_url: str, monkeypatch: pytest.MonkeyPatch, shift_s: float, level: str
) -> None:
    monkeypatch.setattr("opentill.db.clock.now_ms", lambda: int((time.time() + shift_s) * 1000))
    assert _levels(database_url)["clock"] == level


def test_a_slow_stop_of_the_embedded_database_is_no_clock_difference(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_database, "CLOCK_TOLERANCE_S", 1.0)

    @contextmanager
    def stops_slowly(settings: Settings) -> Iterator[Settings]:
        yield settings
        time.sleep(1.5)

    monkeypatch.setattr(session, "running_database", stops_slowly)
    assert _levels(database_url)["clock"] == "ok"


def _findings(url: str) -> dict[str, Finding]:
    settings = Settings(
        database_url=url, secret_key="k" * 32, db_prepared=pooler.supports_prepared(url)
    )
    return {finding.subject: finding for finding in doctor_database.findings(settings)}


def _levels(url: str) -> dict[str, str]:
    return {subject: finding.level for subject, finding in _findings(url).items()}


def _block(after: str) -> list[str]:
    """Return the statements of the recipe's first block of SQL after a text."""
    block = RECIPE.partition(after)[2].partition("```sql\n")[2].partition("```")[0]
    return [line.partition(";")[0] for line in block.splitlines() if line.strip()]


async def _run(url: str, *statements: str) -> None:
    connection = await connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def database_by_the_recipe(postgres_url: str) -> Iterator[str]:
    """A migrated database that was created by the recipe."""
    (create,) = _block("### A new database")
    asyncio.run(_run(postgres_url, create.replace("opentill", "by_recipe")))
    url = database_address(postgres_url, "by_recipe")
    asyncio.run(migrations.migrate(url))
    yield url
    asyncio.run(_run(postgres_url, "drop database by_recipe with (force)"))


async def _sell_in_euro(url: str, age: int) -> None:
    """Sell in euro for a merchant that settles in USD, at rates of ``age`` days ago."""
    connection = await connections.connect(url, prepared=pooler.supports_prepared(url))
    try:
        if not await connection.fetchval("select count(*) from products"):
            shop = await create_merchant(connection)
            await create_product(connection, shop.id, "10.00", "EUR")
        today = clock.now_ms() // DAY * DAY
        day = Day(today - age * DAY, {"USD": Decimal("1.1")})
        sheet = rates.Sheet(base="EUR", days=(day,), skipped=())
        await rates.import_sheet(connection, sheet, today)
    finally:
        await connection.close()


def test_rates_that_are_or_will_soon_be_too_old_are_a_warning(database_by_the_recipe: str) -> None:
    url = database_by_the_recipe
    for age, level, text in (
        (9, "warn", "none that counts from EUR to USD: no session opens without"),
        (5, "warn", "too old within two days: EUR to USD; then no session opens"),
        (0, "ok", "there is one for each currency"),
    ):
        asyncio.run(_sell_in_euro(url, age))
        finding = _findings(url)["rates"]
        assert (finding.level, text in finding.text) == (level, True), finding


def test_a_database_made_by_the_recipe_has_a_stable_collation(
    database_by_the_recipe: str,
) -> None:
    finding = _findings(database_by_the_recipe)["collation"]
    assert (finding.level, "whose order never changes" in finding.text) == ("ok", True)


def test_a_changed_collation_version_is_a_failure_until_a_reindex(
    database_by_the_recipe: str,
) -> None:
    change = "update pg_database set datcollversion = '0' where datname = current_database()"
    asyncio.run(_run(database_by_the_recipe, change))
    finding = _findings(database_by_the_recipe)["collation"]
    assert finding.level == "fail"
    assert "of version 0 when it was made" in finding.text
    assert "docs/recipes/upgrade.md#collation" in finding.text
    repair = [line.replace("opentill", "by_recipe") for line in _block('id="collation"')]
    asyncio.run(_run(database_by_the_recipe, *repair))
    assert _levels(database_by_the_recipe)["collation"] == "ok"


def test_a_changed_collation_of_a_column_is_a_failure(database_by_the_recipe: str) -> None:
    asyncio.run(
        _run(
            database_by_the_recipe,
            "create collation own_order (provider = builtin, locale = 'C.UTF-8')",
            "create table names (name text collate own_order)",
        )
    )
    assert _levels(database_by_the_recipe)["collation"] == "ok"
    change = "update pg_collation set collversion = '0' where collname = 'own_order'"
    asyncio.run(_run(database_by_the_recipe, change))
    finding = _findings(database_by_the_recipe)["collation"]
    assert (finding.level, "the version of own_order" in finding.text) == ("fail", True)
