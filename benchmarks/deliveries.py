"""Measure webhooks: ``opentill worker`` sends due deliveries to a receiver on loopback."""

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from typing import cast

import msgspec
import uvloop

from benchmarks.deployment import ServerProcess, build_environment, find_free_port
from benchmarks.run import BenchDatabase, Run
from opentill.db.clock import now_ms
from opentill.webhooks import service
from opentill.webhooks.service import EndpointFields, UrlCheck

ENDPOINTS = 20
_TIMEOUT_S = 120.0
_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class _Receiver(asyncio.Protocol):
    """Accepts each POST. GET returns the number of POSTs and the time of the last one."""

    count = 0
    last_at = 0.0

    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n") + 4) >= 4:
            head = self._data[:end].lower()
            start = head.find(b"content-length: ") + 16
            size = int(head[start : head.index(b"\r", start)]) if start >= 16 else 0
            if len(self._data) < end + size:
                return
            self._data = self._data[end + size :]
            if head.startswith(b"post"):
                _Receiver.count += 1
                _Receiver.last_at = time.monotonic()
                self._transport.write(_RESPONSE)
            else:
                body = msgspec.json.encode((_Receiver.count, _Receiver.last_at))
                length = b"content-length: %d\r\n\r\n" % len(body)
                self._transport.write(b"HTTP/1.1 200 OK\r\n" + length + body)


def serve_receiver(listener: socket.socket) -> None:
    """Receive deliveries until the process is terminated."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Receiver, sock=listener)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


async def measure(run: Run) -> None:
    """Measure how fast a worker sends due deliveries: to twenty endpoints, and to one."""
    count = 200 if run.options.quick else 10_000
    async with run.create_database("bench_webhooks", ENDPOINTS) as database:
        receiver = ServerProcess(serve_receiver)
        try:
            await create_endpoints(database, receiver.port)
            env = build_environment(
                run.data_dir,
                find_free_port(),
                OPENTILL_DATABASE_URL=database.url,
                OPENTILL_SANDBOX_URL="http://127.0.0.1:9",
                OPENTILL_OUTGOING_HTTP="yes",
                OPENTILL_OUTGOING_ALLOW="127.0.0.0/8",
                OPENTILL_WEBHOOK_HOST_PER_SECOND="0",  # no limit, since all endpoints share a host
            )
            with (run.data_dir / "worker.log").open("ab") as log:
                worker = subprocess.Popen(  # noqa: ASYNC220 - starting a process is quick
                    [sys.executable, "-m", "opentill", "worker"], env=env, stdout=log, stderr=log
                )
            try:
                for endpoints, name in ((ENDPOINTS, "webhooks"), (1, "webhooks, one endpoint")):
                    warm_up_count = max(20, count // 20)
                    await _deliver(database, receiver.port, endpoints, warm_up_count)
                    for _ in range(run.options.rounds):
                        rate = await _deliver(database, receiver.port, endpoints, count)
                        run.record_figure(name, rate)
            finally:
                worker.send_signal(signal.SIGTERM)
                worker.wait(30)
        finally:
            receiver.close()


async def create_endpoints(database: BenchDatabase, port: int) -> None:
    """Create an endpoint of each merchant."""
    check_url = UrlCheck(lambda _url: None)  # accepts loopback URLs, to which the worker may send
    for index, tenant in enumerate(database.seed.merchants):
        fields = EndpointFields(url=f"http://127.0.0.1:{port}/{index}")
        async with database.db.transaction() as tx:
            await service.create(
                tx, tenant.merchant_id, fields, check_url, database.settings.secret_key, now_ms()
            )


async def _deliver(database: BenchDatabase, port: int, endpoints: int, count: int) -> float:
    """Insert events and deliveries, wait until all are received; return the rate per second."""
    before, _ = fetch_received_count(port)
    merchants = [tenant.merchant_id for tenant in database.seed.merchants[:endpoints]]
    async with database.db.transaction() as tx:
        await tx.execute(_EVENTS, merchants, count, now_ms(), os.urandom(5).hex(), timeout=60)
        await tx.execute(_DELIVERIES, timeout=60)
    started = time.monotonic()
    while True:
        received, last_at = fetch_received_count(port)
        if received - before >= count:
            return count / (last_at - started)
        assert time.monotonic() - started < _TIMEOUT_S, f"{received - before} of {count} received"
        await asyncio.sleep(0.05)


def fetch_received_count(port: int) -> tuple[int, float]:
    """Return how many deliveries a receiver has accepted, and the time of the last one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/")
    count, last_at = msgspec.json.decode(connection.getresponse().read())
    connection.close()
    return count, last_at


# $1 merchant ids, $2 number of events, $3 now (Unix ms), $4 text between `evt_` and the number.
_EVENTS = """
insert into events (merchant_id, id, type, body, created_at)
select ($1::text[])[1 + n % cardinality($1::text[])], 'evt_' || $4 || lpad(n::text, 16, '0'),
    'order.paid',
    '{"id":"evt_' || $4 || lpad(n::text, 16, '0') || '","type":"order.paid","created_at":'
        || $3::bigint || ',"data":{"order_id":"order_' || lpad(n::text, 26, '0')
        || '","amount":"9.99","currency":"USD","net_amount":"9.59"}}',
    $3::bigint
from generate_series(1, $2::bigint) n
"""
_DELIVERIES = """
insert into webhook_deliveries (merchant_id, endpoint_id, event_id, type, status, attempts, step,
    try_at, created_at, updated_at)
select e.merchant_id, w.id, e.id, e.type, 'PENDING', 0, 0, e.created_at, e.created_at,
    e.created_at
from events e join webhook_endpoints w using (merchant_id)
where not exists (select from webhook_deliveries d where d.merchant_id = e.merchant_id
    and d.endpoint_id = w.id and d.event_id = e.id)
"""
