"""Lists and exports read a streaming replica, and the primary if the replica is not usable."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from opentill import figures, ledger, orders
from opentill.app import OPERATIONS
from opentill.core.settings import Settings
from opentill.db import migrations, replica
from opentill.db.database import Db
from opentill.db.replica import Replica
from opentill.ledger import statement
from opentill.list_counts import FOREVER
from opentill.orders import ExportQuery, OrdersQuery
from opentill.server.embedded.postgres import EmbeddedPostgres
from opentill.server.export_limits import Exports
from support import world
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.people import create_person
from support.standby import Standby, running_standby

T = TypeVar("T")
ALL_TIME = (0, FOREVER)
LAG_S = 30
SOON_S = 0.5
TOKEN = "a token for the metrics"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[str, Standby]]:
    """A primary with OpenTill's schema, and its standby."""
    with (
        tempfile.TemporaryDirectory(prefix="opentill-primary-") as name,
        EmbeddedPostgres.start(Path(name), durable=False) as primary,
    ):
        asyncio.run(migrations.migrate(primary.url))
        with running_standby(primary.url) as standby:
            yield primary.url, standby


@pytest.fixture
def api_server(
    pair: tuple[str, Standby], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ApiServer]:
    """A server that reads from the replica and checks its state often."""
    monkeypatch.setattr(replica, "POLL_S", 0.1)
    settings = Settings(
        database_url=pair[0], database_read_url=pair[1].url, data_dir=tmp_path, read_lag_s=LAG_S,
        limit_ip_per_minute=0, metrics_token=TOKEN, **SECRETS,
    )  # fmt: skip
    with serving(settings) as running:
        yield running
        running.check_books()


def _product_ids(shop: Shop) -> set[str]:
    return {item["id"] for item in shop.data("GET", "/v1/products")["items"]}


def _until(condition: Callable[[], bool], seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _state(api_server: ApiServer) -> str:
    state: str = api_server.http.get("/readyz").json()["replica"]
    return state


def _has_entry(standby: Standby, merchant_id: str) -> bool:
    entries = f"select count(*) from entries where merchant_id = '{merchant_id}'"
    return standby.sql(standby.url, entries).strip() != "0"


def test_lists_come_from_the_replica_while_its_lag_is_small(
    api_server: ApiServer, pair: tuple[str, Standby]
) -> None:
    standby = pair[1]
    _until(lambda: _state(api_server) == "used")
    shop = api_server.create_shop()
    old = shop.create_product()["id"]
    _until(lambda: _product_ids(shop) == {old})
    reader = api_server.app.read_from
    assert isinstance(reader, Replica)
    assert reader.max_lag_s == LAG_S
    standby.sql(standby.url, "select pg_wal_replay_pause()")
    try:
        new = shop.create_product()["id"]
        assert _product_ids(shop) == {old}  # a list may be older by the allowed lag
        # Reads by id always use the primary.
        assert shop.get(f"/v1/products/{new}").status_code == 200
        order = shop.create_paid_order(new)
        for path, query in (
            ("/v1/orders", {"productId": new}),
            ("/v1/disputes", {"orderId": order["id"]}),
            (f"/v1/orders/{order['id']}/refunds", {}),
        ):
            # The replica lacks these ids, so the server reads the primary.
            response = shop.get(path, **query)
            assert response.status_code == 200, response.text
        reader.max_lag_s = SOON_S
        _until(lambda: _state(api_server) == "behind")
        assert _product_ids(shop) == {old, new}
        assert order["id"] in shop.get("/v1/orders/export").text
        assert order["id"] in shop.get("/v1/balance/statement.csv").text
        metrics = api_server.http.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
        assert "\nopentill_replica_usable 0\n" in metrics
        assert float(metrics.split("\nopentill_replica_lag_seconds ")[1].split()[0]) > SOON_S
    finally:
        reader.max_lag_s = LAG_S
        standby.sql(standby.url, "select pg_wal_replay_resume()")
    _until(lambda: _state(api_server) == "used")
    _until(
        lambda: _product_ids(shop) == {old, new}
    )  # the replica is used again while it replays changes


def _create_objects(shop: Shop) -> dict[str, str]:
    """Create an object for each operation that reads one by its id; return the ids by path."""
    paid = shop.create_paid_order()
    refund = shop.refund(paid["id"], amount="1.00")
    endpoint = shop.create_endpoint()["id"]
    event = shop.data("GET", "/v1/events")["items"][0]["id"]
    session = shop.create_session()
    disputed = shop.create_paid_order()["id"]
    return {
        "/v1/products/{id}": shop.create_product()["id"],
        "/v1/checkouts/{id}": session["id"],
        "/v1/payment-links/{id}": shop.data(
            "POST", "/v1/payment-links", json={"productId": shop.create_product()["id"]}
        )["id"],
        "/v1/orders/{id}": paid["id"],
        "/v1/orders/{id}/refunds": paid["id"],
        "/v1/refunds/{id}": refund["id"],
        "/v1/disputes/{id}": shop.open_dispute(disputed).id,
        "/v1/payouts/{id}": shop.create_payout().id,
        "/v1/webhook-endpoints/{id}": endpoint,
        "/v1/webhook-endpoints/{id}/deliveries": endpoint,
        "/v1/events/{id}": event,
    }


def test_reads_by_id_never_come_from_a_replica_that_lags(
    api_server: ApiServer, pair: tuple[str, Standby]
) -> None:
    standby = pair[1]
    _until(lambda: _state(api_server) == "used")
    shop = api_server.create_shop()
    _until(lambda: "id" in shop.create_product())
    standby.sql(standby.url, "select pg_wal_replay_pause()")
    try:
        created = _create_objects(shop)
        assert _state(api_server) == "used"
        for path, id_ in created.items():
            response = shop.get(path.replace("{id}", id_))
            assert response.status_code == 200, path
        refunds = shop.data("GET", f"/v1/orders/{created['/v1/orders/{id}']}/refunds")
        assert [refund["id"] for refund in refunds["items"]] == [created["/v1/refunds/{id}"]]
    finally:
        standby.sql(standby.url, "select pg_wal_replay_resume()")
    by_id = {
        operation.path
        for operation in OPERATIONS
        if operation.method == "GET" and "{" in operation.path
    }
    assert by_id == created.keys()


@asynccontextmanager
async def _new_reader(primary_url: str, replica_url: str) -> AsyncIterator[Replica]:
    """Open the replica like a process that has just started and has not checked it yet."""
    primary = await Db.connect(primary_url, 2, acquire_timeout_s=20)
    settings = Settings(database_url=primary_url, database_read_url=replica_url)
    replica = await Replica.open(primary, settings)
    try:
        yield replica
    finally:
        await replica.close()
        await primary.close()


def _write(standby: Standby, url: str, kilobytes: int = 1) -> None:
    text = f"repeat('x', {kilobytes * 1024})"
    standby.sql(url, f"select pg_logical_emit_message(false, 'test', {text})")
    standby.sql(url, "select pg_switch_wal()")  # flushes the log and sends it to standbys


async def _until_usable(reader: Replica) -> None:
    async with asyncio.timeout(40):
        while not reader.usable:
            await asyncio.sleep(0.05)
            await reader.check()


async def test_a_replica_with_unknown_lag_at_start_is_not_read(
    pair: tuple[str, Standby],
) -> None:
    primary_url, standby = pair
    standby.sql(standby.url, "select pg_wal_replay_pause()")
    try:
        _write(standby, primary_url)  # a newly started process does not know the age of this change
        async with _new_reader(primary_url, standby.url) as reader:
            for _ in range(3):
                await reader.check()
                assert (reader.state, reader.lag_s) == ("behind", None)
            standby.sql(standby.url, "select pg_wal_replay_resume()")
            await _until_usable(reader)
            assert reader.lag_s is not None
    finally:
        standby.sql(standby.url, "select pg_wal_replay_resume()")


async def test_a_replica_with_changes_that_the_primary_lacks_is_not_read(
    pair: tuple[str, Standby],
) -> None:
    former_url, standby = pair
    async with _new_reader(former_url, standby.url) as reader:
        await _until_usable(reader)
        with running_standby(former_url) as promoted:
            promoted.promote()  # the new primary lacks the next two changes
            _write(standby, former_url)
            _write(standby, former_url)
            lsn = standby.sql(former_url, "select pg_current_wal_flush_lsn()").strip()
            replayed = f"select pg_last_wal_replay_lsn() >= '{lsn}'"
            await asyncio.to_thread(
                _until, lambda: standby.sql(standby.url, replayed).strip() == "t"
            )
            await _until_usable(reader)
            async with _new_reader(promoted.url, standby.url) as new_reader:
                primary, reader.primary = reader.primary, new_reader.primary
                for _ in range(2):
                    for each in (reader, new_reader):
                        await each.check()
                        assert (each.state, each.lag_s) == ("away", None)
                for _ in range(4):  # until the new primary's log position is past the replica's
                    _write(standby, promoted.url)
                    for each in (reader, new_reader):
                        await each.check()
                        assert each.state == "away"
                reader.primary = primary


async def test_a_replica_of_another_primary_is_not_read(
    pair: tuple[str, Standby], database_url: str
) -> None:
    async with _new_reader(database_url, pair[1].url) as reader:
        for _ in range(2):
            await reader.check()
            assert (reader.state, reader.lag_s) == ("away", None)


async def test_a_replica_is_read_if_its_role_cannot_read_the_clusters_id(
    pair: tuple[str, Standby],
) -> None:
    primary_url, standby = pair
    standby.sql(primary_url, "create role unprivileged login")
    standby.sql(primary_url, "revoke execute on function pg_control_system() from public")
    urls = [url.replace("//opentill@", "//unprivileged@") for url in (primary_url, standby.url)]
    try:
        async with _new_reader(primary_url, standby.url) as first:
            await _until_usable(first)  # by now the replica has replayed the new role
        async with _new_reader(*urls) as reader:
            await _until_usable(reader)
    finally:
        standby.sql(primary_url, "grant execute on function pg_control_system() to public")
        standby.sql(primary_url, "drop role unprivileged")


def test_pages_of_balances_read_the_primary(
    api_server: ApiServer, pair: tuple[str, Standby]
) -> None:
    standby = pair[1]
    _until(lambda: _state(api_server) == "used")
    for page in ("balance", "payouts"):
        shop = api_server.create_shop()
        owner = create_person(api_server, shop.id, "owner")
        shop.create_paid_order()  # without a worker, the figures lack this order
        _until(partial(_has_entry, standby, shop.id))
        standby.sql(standby.url, "select pg_wal_replay_pause()")
        try:
            shop.create_paid_order()
            response = owner.get(f"/dashboard/{shop.id}/{page}")
        finally:
            standby.sql(standby.url, "select pg_wal_replay_resume()")
        assert response.status_code == 200, page
        assert "$19.18" in response.text, page  # the balance contains both payments
        assert "as of" not in response.text, page
        assert _state(api_server) == "used", page


def test_requests_succeed_while_the_replica_is_stopped(
    api_server: ApiServer, pair: tuple[str, Standby]
) -> None:
    standby = pair[1]
    _until(lambda: _state(api_server) == "used")
    shop = api_server.create_shop()
    order = shop.create_paid_order()
    standby.stop()
    try:
        paths = ("/v1/products", "/v1/orders", "/v1/balance/transactions", "/v1/payouts")
        for path in paths:
            assert shop.data("GET", path)["pagination"]["total"] >= (path != "/v1/payouts")
        assert order["id"] in shop.get("/v1/orders/export").text
        _until(lambda: _state(api_server) == "away")
        assert api_server.http.get("/readyz").status_code == 200
    finally:
        standby.start()
    _until(lambda: _state(api_server) == "used")


def test_a_server_starts_while_the_replica_is_unreachable(
    pair: tuple[str, Standby], tmp_path: Path
) -> None:
    settings = Settings(
        database_url=pair[0], database_read_url="postgresql://opentill@127.0.0.1:1/opentill",
        data_dir=tmp_path, limit_ip_per_minute=0, **SECRETS,
    )  # fmt: skip
    with serving(settings) as api_server:
        assert _state(api_server) == "away"
        assert len(_product_ids(api_server.create_shop())) == 0


@pytest.mark.parametrize("end", ["sslmode=verify-full", "sslmode=foo", f"host={'a' * 64}"])
async def test_a_replica_with_an_invalid_address_is_logged_once_and_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, db: Db, end: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # a directory without root certificates
    monkeypatch.setattr(replica, "POLL_S", 0.01)
    host = "" if end.startswith("host") else "127.0.0.1"
    url = f"postgresql://u:hunter2@{host}/x?{end}"
    with capture_logs() as logged:
        async with replica.open_replica(db, Settings(database_read_url=url)) as other:
            assert other is not None
            assert await other.read(lambda tx: tx.fetchval("select 1")) == 1
            await asyncio.sleep(0.2)
            assert other.state == "away"
            other.lag_s = 0.0  # as if the replica had been usable before
            assert await other.read(lambda tx: tx.fetchval("select 1")) == 1
    assert [line["event"] for line in logged] == ["replica"]
    assert logged[0]["why"]
    assert "hunter2" not in str(logged)


READS: dict[str, Callable[[Db, str], Awaitable[object]]] = {
    "statement": lambda db, shop: _all(statement.lines(db, shop, None, None)),
    "first page": lambda db, shop: ledger.list_entries(db, shop, None, 1, 20, ALL_TIME),
    "page of some days": lambda db, shop: ledger.list_entries(db, shop, None, 1, 20, (1, FOREVER)),
    "search": lambda db, shop: orders.list_page(db, shop, OrdersQuery(query="ann@example.com")),
    "export": lambda db, shop: _all(_exported(db, shop)),
    "customers": lambda db, shop: orders.find_customers(db, shop, "ann@"),
    "customer": lambda db, shop: orders.sums_of_customer(db, shop, "ann@example.com"),
    "sums": lambda db, shop: figures.statements(db, shop, ALL_TIME),
}


async def _all(rows: AsyncIterator[T]) -> list[T]:
    return [row async for row in rows]


async def _exported(db: Db, shop: str) -> AsyncIterator[bytes]:
    resolved_query = await orders.resolve_query(db, shop, ExportQuery(query="ann@example.com"))
    exports = Exports()
    async for chunk in orders.export_csv_limited(exports, db, shop, resolved_query, livemode=False):
        yield chunk


@pytest.mark.parametrize("name", READS)
async def test_reads_that_fail_on_the_replica_run_on_the_primary(
    db: Db, empty_database_url: str, name: str
) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    settings = Settings(database_url=empty_database_url, database_read_url=empty_database_url)
    other = await Replica.open(db, settings)  # a database without tables, so that reads fail
    try:
        other.lag_s = 0.0
        result = await READS[name](other.reading(), order.merchant_id)
        assert not other.usable  # the failed read has made the replica unusable
        assert result == await READS[name](db, order.merchant_id)
        assert result
    finally:
        await other.close()


async def test_a_database_that_replays_nothing_is_not_used_as_a_replica(
    database_url: str, empty_database_url: str
) -> None:
    db = await Db.connect(database_url, 2, acquire_timeout_s=20)
    settings = Settings(database_url=database_url, database_read_url=empty_database_url)
    other = await Replica.open(db, settings)  # this database is a primary, not a replica of ``db``
    try:
        other.lag_s = 0.0
        assert await other.read(lambda tx: tx.fetchval("select count(*) from orders")) == 0
        assert not other.usable
        await other.check()
        assert other.state == "away"
    finally:
        await other.close()
        await db.close()
