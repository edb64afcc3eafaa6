"""OpenTill behind PgBouncer in transaction mode; docs/testing.md runs all tests behind it."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from db.concurrent_posts import assert_concurrent_posts
from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db import connection
from opentill.db.database import Db
from support import pooler
from support.api_server import SECRETS, ApiServer, serving
from support.commands import Commands

pytestmark = pooler.requires_pgbouncer


@pytest.fixture(scope="module")
def pooler_url(postgres_url: str) -> Iterator[Callable[[str], str]]:
    """A function that returns the address behind a pooler, whose four sessions all share."""
    with pooler.running_pooler(postgres_url, sessions=4) as pooled_url:
        yield pooled_url


@pytest.fixture
def api_server(database_url: str, tmp_path: Path) -> Iterator[ApiServer]:
    """A server that connects through the pooler."""
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=100_000,
        db_prepared=False, **SECRETS,
    )  # fmt: skip
    with serving(settings) as running:
        yield running
        running.check_books()


def test_concurrent_requests_succeed_behind_a_pooler(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    product = shop.create_product(price="5.00")
    with ThreadPoolExecutor(12) as threads:
        orders = list(threads.map(lambda _: shop.create_paid_order(product["id"]), range(24)))
        assert_concurrent_posts(shop, threads, orders[0]["id"])
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 24
    assert len(shop.get("/v1/orders/export").text.splitlines()) == 25
    assert shop.get("/v1/balance/statement.csv").status_code == 200


async def test_a_pooler_is_detected(postgres_url: str, pooler_url: Callable[[str], str]) -> None:
    for url, is_pooled in ((pooler_url(postgres_url), True), (postgres_url, False)):
        first = await connection.connect(url, prepared=False)
        assert await connection.loses_statements(url, first) is is_pooled
        process = await first.fetchval("select pg_backend_pid()")
        assert process == first.get_server_pid() or is_pooled
        await first.close()


async def test_prepared_statements_behind_a_pooler_are_refused_with_a_hint(
    postgres_url: str, pooler_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"connection_class": connection.Connection}
    monkeypatch.setattr(connection, "options", lambda *, prepared=True: options)
    db = await Db.connect(pooler_url(postgres_url), 4)
    try:
        with pytest.raises(Unavailable) as refused:
            async with db.connection() as first, db.connection() as other:
                await first.fetchval("select 2")
                # Occupies the session that has prepared the statement.
                async with other.transaction():
                    await other.fetchval("select 1")
                    await first.fetchval("select 2")
        assert refused.value.reason == connection.POOLER_HINT
    finally:
        await db.close()


def test_commands_name_the_setting_for_a_pooler(
    fork_server: object, database_url: str, pooler_url: Callable[[str], str], tmp_path: Path
) -> None:
    commands = Commands(fork_server, pooler_url(database_url), tmp_path)  # type: ignore[arg-type]
    commands.environ["OPENTILL_DB_PREPARED"] = "yes"
    assert "OPENTILL_DB_PREPARED=no" in commands.refusal("merchants", "list")
    findings = json.loads(commands.run("doctor", "--json").stdout)
    assert any("OPENTILL_DB_PREPARED=no" in str(finding) for finding in findings)
    commands.environ["OPENTILL_DB_PREPARED"] = "no"
    assert commands.json("migrate") == {"applied": []}
    merchant = commands.json("merchants", "create", "Tea House")
    assert commands.json("ledger", "check")["violations"] == []
    assert commands.json("audit", "verify")["breaks"] == []
    assert merchant["id"].startswith("mer_")
