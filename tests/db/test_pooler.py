"""PgBouncer in transaction mode between us and PostgreSQL. The whole suite: see docs/testing.md."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opentill.core.errors import Unavailable
from opentill.core.settings import Settings
from opentill.db import connection
from opentill.db.database import Db
from support import pooler
from support.api_server import SECRETS, ApiServer, serving
from support.commands import Commands

pytestmark = pooler.needed


@pytest.fixture(scope="module")
def through(postgres_url: str) -> Iterator[Callable[[str], str]]:
    """Four sessions of PostgreSQL for everybody, so that they must be shared."""
    with pooler.running(postgres_url, sessions=4) as lead:
        yield lead


@pytest.fixture
def api_server(database_url: str, tmp_path: Path) -> Iterator[ApiServer]:
    """A server whose database is behind the pooler."""
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, limit_ip_per_minute=100_000,
        db_prepared=False, **SECRETS,
    )  # fmt: skip
    with serving(settings) as running:
        yield running
        running.check_books()


def test_a_shop_lives_behind_a_pooler(api_server: ApiServer) -> None:
    shop = api_server.shop()
    product = shop.product(price="5.00")
    with ThreadPoolExecutor(12) as many:
        paid = list(many.map(lambda _: shop.paid(product["id"]), range(24)))
        order = paid[0]["id"]
        path = f"/v1/orders/{order}/refunds"
        answers = list(
            many.map(lambda _: shop.post_until_decided(path, {"amount": "0.10"}), range(60))
        )
        keyed = list(
            many.map(
                lambda _: shop.post_until_decided("/v1/products", product_body(), "k"), range(20)
            )
        )
    assert sorted(answer.status_code for answer in answers) == [201] * 50 + [400] * 10
    assert {answer.status_code for answer in keyed} <= {201, 409}
    assert len({answer.content for answer in keyed if answer.status_code == 201}) == 1
    assert shop.data("GET", "/v1/orders")["pagination"]["total"] == 24
    assert len(shop.get("/v1/orders/export").text.splitlines()) == 25
    assert shop.get("/v1/balance/statement.csv").status_code == 200


def product_body() -> dict[str, str]:
    return {"name": "Tea", "price": "9.99", "currency": "USD"}


async def test_a_pooler_is_noticed(postgres_url: str, through: Callable[[str], str]) -> None:
    for url, loses in ((through(postgres_url), True), (postgres_url, False)):
        first = await connection.connect(url, prepared=False)
        assert await connection.loses_statements(url, first) is loses
        assert await first.fetchval("select pg_backend_pid()") == first.get_server_pid() or loses
        await first.close()


async def test_prepared_statements_behind_a_pooler_are_refused_with_what_to_do(
    postgres_url: str, through: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {"connection_class": connection.Connection}
    monkeypatch.setattr(connection, "options", lambda *, prepared=True: plain)  # as by default
    db = await Db.connect(through(postgres_url), 4)
    try:
        with pytest.raises(Unavailable) as refused:
            async with db.connection() as first, db.connection() as other:
                await first.fetchval("select 2")
                async with other.transaction():  # takes the session where that is prepared
                    await other.fetchval("select 1")
                    await first.fetchval("select 2")
        assert refused.value.reason == connection.POOLER_HINT
    finally:
        await db.close()


def test_commands_say_what_to_do(
    fork_server: object, database_url: str, through: Callable[[str], str], tmp_path: Path
) -> None:
    commands = Commands(fork_server, through(database_url), tmp_path)  # type: ignore[arg-type]
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
