"""Requests get 503 quickly while PostgreSQL is unavailable, and succeed again without a restart."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import asyncpg
import httpx2
import pytest

from opentill import health
from opentill.merchants import service
from support import pooler
from support.api_server import TEA, ApiServer, Shop, serving

_UNAVAILABLE: Final = {"code": 50301, "message": "Service unavailable"}


class DatabaseProxy:
    """A proxy to PostgreSQL that can close its connections or stop forwarding."""

    def __init__(self, target: tuple[str, str]) -> None:
        """Forward to ``target``: a host or the folder of a socket, and a port."""
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_closed = self.is_silent = False

    @contextlib.contextmanager
    def open(self, path: Path) -> Iterator[None]:
        """Listen at ``path`` while the block runs."""
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_unix_server(self._connected, str(path)), self._loop
        ).result(5)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._end(server), self._loop).result(5)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def set_closed(self, *, closed: bool) -> None:
        """Abort all connections and accept no new ones, or accept them again."""
        self.is_closed = closed
        if closed:
            self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self, server: asyncio.Server) -> None:
        server.close()
        self._abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if self.is_closed:
            writer.transport.abort()
            return
        host, port = self._target
        server_reader, server_writer = await (
            asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            if host.startswith("/")
            else asyncio.open_connection(host, int(port))
        )
        self._writers.add(server_writer)
        for source, target in ((reader, server_writer), (server_reader, writer)):
            task = self._loop.create_task(self._forward(source, target))
            self._tasks.add(task)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(65536):
                while self.is_silent:
                    await asyncio.sleep(0.02)
                target.write(chunk)
                await target.drain()
        target.transport.abort()


@pytest.fixture
def proxied(
    api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DatabaseProxy, ApiServer]]:
    """A server with its database behind a `DatabaseProxy`."""
    url = api_server.settings.database_url or ""
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    proxy = DatabaseProxy((query["host"], query["port"]))
    folder = tmp_path_factory.mktemp("pg")
    with proxy.open(folder / f".s.PGSQL.{query['port']}"):
        proxied_url = url.split("?")[0] + "?" + urlencode(query | {"host": str(folder)})
        with serving(
            api_server.settings, database_url=proxied_url, limit_ip_per_minute=10_000
        ) as running:
            yield proxy, running


def _assert_unavailable(response: httpx2.Response) -> None:
    assert (response.status_code, response.json()) == (503, _UNAVAILABLE)
    assert int(response.headers["retry-after"]) >= 1


def _check_timeouts(api_server: ApiServer) -> None:
    """Check the configured timeouts: on a busy machine, measured times are not exact enough."""
    assert api_server.app.db._acquire_timeout_s <= 2
    assert service._CONNECTION_TIMEOUT_S <= 2
    assert health._TIMEOUT_S <= 2


def _allowance_s(api_server: ApiServer) -> float:
    """Return the seconds that a busy machine may need in addition; 0 on an idle machine."""
    started = time.monotonic()
    for _ in range(10):
        assert api_server.http.get("/healthz").status_code == 200
    return max(0.0, (time.monotonic() - started) * 10 - 0.5)


def _wait_until_recovered(shop: Shop, within_s: float) -> None:
    end = time.monotonic() + within_s + _allowance_s(shop.api_server)
    while True:
        statuses = {shop.get(path).status_code for path in ("/v1/products", "/readyz")}
        if statuses == {200}:
            return
        assert statuses <= {200, 503}
        assert time.monotonic() < end, "the server has not recovered"
        time.sleep(0.05)


def test_closed_database_connections_are_503_and_recover(
    proxied: tuple[DatabaseProxy, ApiServer],
) -> None:
    database, api_server = proxied
    _check_timeouts(api_server)
    shop = api_server.create_shop()
    order = shop.create_paid_order()
    calls = (
        ("GET", "/v1/products", None),
        ("POST", "/v1/products", TEA),
        ("POST", f"/v1/orders/{order['id']}/refunds", {}),
        ("GET", "/v1/config/legal/merchant-services-agreement", None),
    )
    database.set_closed(closed=True)
    for method, path, body in calls:
        for key in (None, "key"):
            started = time.monotonic()
            _assert_unavailable(
                shop.call(method, path, json=body, headers={"idempotency-key": key})
            )
            assert time.monotonic() - started < 10 + _allowance_s(api_server)
    assert api_server.http.get("/readyz").status_code == 503
    assert api_server.http.get("/healthz").status_code == 200
    database.set_closed(closed=False)
    _wait_until_recovered(shop, 5)
    # The server has not stored the 503 under this key.
    response = shop.post(calls[2][1], {}, key="key")
    assert response.status_code == 201
    assert "idempotent-replayed" not in response.headers


def test_a_silent_database_is_503_within_two_seconds_and_recovers(
    proxied: tuple[DatabaseProxy, ApiServer],
) -> None:
    database, api_server = proxied
    _check_timeouts(api_server)
    shop = api_server.create_shop()
    shop.create_product()
    database.is_silent = True
    for path in ("/readyz", "/v1/products", "/v1/config/legal/merchant-services-agreement"):
        started = time.monotonic()
        assert api_server.http.get(path, headers={"x-api-key": shop.key}).status_code == 503
        assert time.monotonic() - started < 10 + _allowance_s(api_server), path
    database.is_silent = False
    _wait_until_recovered(shop, 5)


async def _set_read_only(url: str, setting: str) -> None:
    writable = {"default_transaction_read_only": "off"}
    connection = await asyncpg.connect(url, server_settings=writable)
    name = await connection.fetchval("select quote_ident(current_database())")
    await connection.execute(f"alter database {name} {setting}")
    await connection.close()


@pooler.skip_if_pooled("sessions of a pooler keep the setting")
def test_a_server_with_a_read_only_database_is_not_ready(
    proxied: tuple[DatabaseProxy, ApiServer],
) -> None:
    database, api_server = proxied
    shop = api_server.create_shop()
    url = api_server.settings.database_url or ""
    asyncio.run(_set_read_only(url, "set default_transaction_read_only = on"))
    try:
        database.set_closed(closed=True)  # only new sessions of the database get the setting
        database.set_closed(closed=False)
        end = time.monotonic() + 10 + _allowance_s(api_server)
        while api_server.http.get("/readyz").status_code != 503:
            _assert_unavailable(shop.call("POST", "/v1/products", json=TEA))
            assert time.monotonic() < end
        assert "takes no writes" in api_server.http.get("/readyz").json()["reason"]
        assert api_server.http.get("/healthz").status_code == 200
    finally:
        asyncio.run(_set_read_only(url, "reset default_transaction_read_only"))
    _wait_until_recovered(shop, 5)
    assert shop.call("POST", "/v1/products", json=TEA).status_code == 201
