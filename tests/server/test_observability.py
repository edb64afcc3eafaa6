"""The metrics, log lines and traces of a deployment.

The main test pays an order in a deployment of real processes and receives its traces.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from opentill import health
from opentill.core import tracing
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.figures.jobs import count_all
from server.trace_receiver import Span, TraceReceiver, receiving_traces
from support import pooler
from support.cluster import CARD, DECLINED, Client, Cluster, create_shop, eventually
from support.commands import ForkServer, without_settings
from support.ports import free_port
from support.webhook_receiver import Receiver, receiving

TOKEN: Final = "a token for the metrics"
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = "b7ad6b7169203331"
SERVER, CLIENT = 2, 3  # OTLP gives these numbers to the kinds of spans


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceReceiver]:
    with receiving_traces() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "till")
        yield receiver


@pytest.fixture
def worker_metrics() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def db(module_database_url: str) -> AsyncIterator[Db]:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    yield db
    await db.close()


@pytest.fixture
def cluster(
    tmp_path: Path,
    module_database_url: str,
    fork_server: ForkServer,
    traces: TraceReceiver,
    worker_metrics: str,
) -> Iterator[Cluster]:
    cluster = Cluster(
        tmp_path,
        module_database_url,
        1,
        fork_server,
        METRICS_TOKEN=TOKEN,
        LOG_LEVEL="info",
        OUTGOING_HTTP="yes",
        OUTGOING_ALLOW="127.0.0.0/8",
    )
    cluster.worker._env["OPENTILL_METRICS_PORT"] = worker_metrics.rpartition(":")[2]
    try:
        yield cluster.start()
    finally:
        cluster.stop()


class Figures:
    """Metrics, parsed by Prometheus' library."""

    def __init__(self, text: str) -> None:
        """Parse a page of metrics."""
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the series with these labels, 0 if there is none."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


async def read_metrics(cluster: Cluster) -> Figures:
    async with httpx2.AsyncClient(trust_env=False) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        page = await client.get(f"{cluster.servers[0].url}/metrics", headers=headers)
        assert page.status_code == 200
        return Figures(page.text)


async def test_a_payment_appears_in_metrics_log_and_traces(
    cluster: Cluster, db: Db, traces: TraceReceiver, hook: Receiver, worker_metrics: str
) -> None:
    shop = await create_shop(db)
    async with await cluster.client(shop.key) as client:
        endpoint = await client.call("POST", "/v1/webhook-endpoints", {"url": f"{hook.url}/in"})
        assert endpoint.status_code == 201, endpoint.text
        client.http.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
        order_id = await client.create_paid_order(shop.product_id)
        session_id, _ = await client.open_session(shop.product_id)
        declined = await client.start_payment(session_id)
        assert declined is not None
        await client.type_card(declined, DECLINED)
        await client.return_from_bank(session_id, declined)
        refund = await client.call("POST", f"/v1/orders/{order_id}/refunds", {"amount": "1.25"})
        assert refund.status_code == 201, refund.text
        await _check_metrics(cluster, db, worker_metrics)
        await _check_traces(client, traces, hook)
    output = cluster.servers[0].output.splitlines()
    lines = [json.loads(line) for line in output if line.startswith("{")]
    api_line = next(line for line in lines if line.get("route") == "/v1/checkouts")
    assert (api_line["merchant"], api_line["trace_id"]) == (shop.id, TRACE)
    page_line = next(line for line in lines if line.get("route") == "/checkout/{session}")
    assert page_line["merchant"] == shop.id


BY_CARD: Final = {"gateway": "sandbox", "method": "CREDIT_CARD"}
EXPECTED: Final[list[tuple[str, dict[str, str], float]]] = [
    ("opentill_money_refunded_minor", {"currency": "USD"}, 125),
    ("opentill_payment_attempts_started_total", BY_CARD, 2),
    ("opentill_payment_attempts_total", BY_CARD | {"outcome": "succeeded"}, 1),
    ("opentill_payment_attempts_total", BY_CARD | {"outcome": "declined"}, 1),
    ("opentill_money_confirmed_minor_total", {"currency": "USD"}, 500),
    ("opentill_payments_confirmed_total", {"currency": "USD"}, 1),
    ("opentill_gateway_call_seconds_count", {"gateway": "sandbox", "operation": "pay"}, 2),
    ("opentill_database_up", {}, 1),
    ("opentill_build_info", {}, 1),
]


async def _check_metrics(cluster: Cluster, db: Db, worker_metrics: str) -> None:
    figures = Figures("")

    async def server_has_counted() -> bool:
        nonlocal figures
        await count_all(db)  # the worker itself counts only every 30 s
        figures = await read_metrics(cluster)
        return all(figures.value(name, **labels) == value for name, labels, value in EXPECTED)

    assert await eventually(server_has_counted), [
        (name, labels, figures.value(name, **labels)) for name, labels, _ in EXPECTED
    ]
    assert all(family.documentation for family in figures.families.values())
    ages = figures.families["opentill_queue_age_seconds"].samples
    assert {sample.labels["queue"] for sample in ages} >= {"refunds", "webhooks", "settlements"}

    async def worker_has_counted() -> bool:
        async with httpx2.AsyncClient(trust_env=False) as client:
            worker = Figures((await client.get(f"{worker_metrics}/metrics")).text)
        return (
            worker.value("opentill_gateway_calls_total", operation="refund") >= 1
            and worker.value("opentill_money_confirmed_minor_total", currency="USD") == 500
        )

    assert await eventually(worker_has_counted)


async def _check_traces(client: Client, traces: TraceReceiver, hook: Receiver) -> None:
    async def find_spans() -> tuple[Span, ...] | None:
        """Return the spans to check, None until all of them have arrived."""
        spans = {span.id: span for span in traces.spans}
        try:
            opened = traces.find("POST /v1/checkouts")[0]
            paid, _ = traces.find("gateway pay")[0], traces.find("gateway refund")[0]
            inserted = next(s for s in spans.values() if s.parent == opened.id and _is_insert(s))
            request = next(span for span in spans.values() if span.parent == paid.id)
            hook_call = spans[hook.accepted[0].headers["traceparent"].split("-")[2]]
            return (
                opened,
                inserted,
                paid,
                spans[paid.parent],
                request,
                hook_call,
                spans[hook_call.parent],
            )
        except (StopIteration, KeyError, IndexError):
            return None

    received = await eventually(find_spans)
    assert received, [span.name for span in traces.spans]
    opened, _, paid, page, request, hook_call, delivery = received
    assert (opened.trace, opened.parent, opened.kind) == (TRACE, PARENT, SERVER)
    assert opened.service == "till"
    assert paid.attributes["opentill.gateway"] == "sandbox"
    assert page.name == "POST /checkout/{session}"
    assert (request.name, request.kind) == ("POST", CLIENT)
    assert hook.accepted[0].headers["traceparent"].split("-")[:2] == ["00", hook_call.trace]
    assert delivery.name == "webhook delivery"
    _check_no_secrets(traces.spans, [client.key, "ann@example.com", "Ann", CARD, hook.url])


def _is_insert(span: Span) -> bool:
    return span.attributes.get("db.query.summary", "").startswith("insert")


def _check_no_secrets(spans: list[Span], secrets: list[str]) -> None:
    text = json.dumps([(span.name, span.attributes) for span in spans])
    assert [secret for secret in secrets if secret in text] == []


OFF: Final = """
import sys, time
import opentill.app, opentill.worker
from opentill import health
from opentill.core import tracing
from opentill.core.settings import Settings
with tracing.trace_process(enabled=False):
    assert not [name for name in sys.modules if name.startswith("opentelemetry")]
    begin = time.process_time()
    for _ in range(100_000):
        with tracing.span("gateway pay", {"opentill.gateway": "sandbox"}) as span:
            span.set_attribute("opentill.outcome", "succeeded")
        tracing.headers()
    print((time.process_time() - begin) / 100_000)
"""


def test_without_its_variables_opentelemetry_is_not_imported_and_spans_cost_little() -> None:
    process = subprocess.run(
        [sys.executable, "-c", OFF], capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr
    assert float(process.stdout) < 20e-6  # a span usually takes 1 µs, and a payment has two


def test_missing_packages_are_logged_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, missing, None)
    with tracing.trace_process(enabled=True):
        assert not tracing.is_on()
    assert "opentill[opentelemetry]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9999"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x"),
    ],
)
def test_a_value_that_opentelemetry_refuses_disables_only_the_traces(
    variable: str, value: str
) -> None:
    environ = {**without_settings(os.environ), variable: value}
    process = subprocess.run(
        [sys.executable, "-c", _REFUSED], env=environ, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout == "it runs\n"
    line = json.loads(process.stderr.splitlines()[-1])
    assert (line["event"], line["level"]) == ("no traces are sent", "warning")
    assert line["reason"].startswith("OpenTelemetry refuses a value of its variables (OTEL_…): ")


_REFUSED: Final = """
from opentill.core import log, tracing
log.configure()
with tracing.trace_process(enabled=True):
    assert not tracing.is_on()
    with tracing.request_span([]):
        print("it runs")
"""


STATEMENTS: Final[list[tuple[str, str]]] = [
    ("select * from orders where id = $1", "select orders"),
    ("\n    insert into entries (a) values ($1)", "insert entries"),
    ("update orders set a = $1", "update orders"),
    ("BEGIN;", "begin"),
    ("select * from refunds where id = $1 for update", "select refunds"),
    ("with x as (select 1), y as (insert into events (a) values ($1)) select 1", "insert events"),
    ("insert into figures (a) values ($1) on conflict (a) do update set a = 1", "insert figures"),
]


@pytest.mark.parametrize(("sql", "summary"), STATEMENTS)
def test_the_span_of_a_statement_has_its_verb_and_table_as_name(sql: str, summary: str) -> None:
    assert tracing._summary(sql) == summary


async def test_the_metrics_of_a_worker_report_an_unreachable_database(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    port = free_port()
    environ = without_settings(os.environ) | {
        "OPENTILL_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x",
        "OPENTILL_SECRET_KEY": "k" * 32,
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_METRICS_PORT": str(port),
    }
    with (tmp_path / "log").open("w") as log:
        process = fork_server.start(["worker"], environ, tmp_path, log.fileno())

    async def reports_no_database() -> bool:
        try:
            async with httpx2.AsyncClient(trust_env=False) as client:
                page = await client.get(f"http://127.0.0.1:{port}/metrics")
        except httpx2.TransportError:
            return False
        return "opentill_database_up 0" in page.text

    try:
        assert await eventually(reports_no_database)
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)
        if process.stdout is not None:
            process.stdout.close()


@pooler.skip_if_pooled("a replica is compared by its position in the log")
async def test_metrics_on_the_separate_port_include_the_state_of_the_replica(
    module_database_url: str,
) -> None:
    def read(read_url: str) -> dict[str, float]:
        reader = health.Reader(
            Settings(database_url=module_database_url, database_read_url=read_url)
        )
        reader.read()
        return {reading.name: reading.samples[0][1] for reading in reader.read() if reading.samples}

    values = await asyncio.to_thread(read, "postgresql://nobody@127.0.0.1:1/x")
    assert (values["opentill_replica_usable"], values["opentill_database_up"]) == (0, 1)
