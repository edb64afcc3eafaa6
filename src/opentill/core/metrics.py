"""Metrics for Prometheus: counters of the processes, and readings of the database.

Counters (requests, jobs, deliveries, gateway calls, payment attempts) start at 0 with the process;
money and queues are read from the database at each scrape (decision 0093). No label has a value
that a client can choose.

Several processes write to files in ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor sets for its
children before they import this module, and any of them renders the sum. The library is imported on
first use, because most commands do not need it.
"""

import functools
import hmac
import json
import os
import platform
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from opentill import __version__
from opentill.core.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

PORT_SETTING: Final = "OPENTILL_METRICS_PORT"
VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
JOB_BUCKETS_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)
_IDLE_S: Final = 10.0  # an idle scraper's connection is closed after this time
GATEWAY_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_METHODS: Final = frozenset(("GET", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "PUT"))


class Reading(NamedTuple):
    """A metric that is read at the time of a scrape, with a sample per combination of labels."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]
    kind: Literal["gauge", "counter"] = "gauge"


Read = Callable[[], Sequence[Reading]]
# The type of the function that reads a file of prometheus_client; the library declares none.
_ReadFile = Callable[[str], Iterator[tuple[str, float, float, int]]]


@functools.cache
def _registry() -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry

    return CollectorRegistry(auto_describe=True)


class _CounterOptions(NamedTuple):
    """A counter's name, help text and labels."""

    name: str
    help: str
    labels: tuple[str, ...]


class _Measured(NamedTuple):
    """A counter and a histogram of the same operation."""

    counter: _CounterOptions
    histogram: _CounterOptions
    buckets_s: tuple[float, ...]


_REQUESTS: Final = _Measured(
    _CounterOptions(
        "opentill_requests", "Requests that got a response", ("route", "method", "status")
    ),
    _CounterOptions(
        "opentill_request_seconds",
        "From the last byte of a request's headers to the last byte of its response",
        ("route", "method"),
    ),
    REQUEST_BUCKETS_S,
)
_JOBS: Final = _Measured(
    _CounterOptions("opentill_jobs", "Jobs that the worker ran", ("kind", "outcome")),
    _CounterOptions("opentill_job_seconds", "How long a job ran", ("kind",)),
    JOB_BUCKETS_S,
)
_DELIVERIES: Final = _Measured(
    _CounterOptions("opentill_webhook_deliveries", "Attempts to deliver an event", ("outcome",)),
    _CounterOptions("opentill_webhook_delivery_seconds", "How long an endpoint took", ()),
    JOB_BUCKETS_S,
)
_GATEWAY_CALLS: Final = _Measured(
    _CounterOptions(
        "opentill_gateway_calls",
        "Requests to gateways by what their response says",
        ("gateway", "operation", "outcome"),
    ),
    _CounterOptions(
        "opentill_gateway_call_seconds", "How long a gateway took", ("gateway", "operation")
    ),
    GATEWAY_BUCKETS_S,
)
MEASURED: Final = (_REQUESTS, _JOBS, _DELIVERIES, _GATEWAY_CALLS)
_STARTED_ATTEMPTS: Final = _CounterOptions(
    "opentill_payment_attempts_started",
    "Payment attempts that were committed before their gateway was called",
    ("gateway", "method"),
)
_ENDED_ATTEMPTS: Final = _CounterOptions(
    "opentill_payment_attempts",
    "Payment attempts that came to an end: succeeded, declined, refused, voided, or paid twice",
    ("gateway", "method", "outcome"),
)
_FOREIGN_EVENTS: Final = _CounterOptions(
    "opentill_foreign_gateway_events",
    "What a gateway said of another gateway's payment, and what therefore did not count",
    ("gateway", "owner"),
)
_UNREADABLE_ACCOUNTS: Final = _CounterOptions(
    "opentill_gateway_account_failures",
    "Times that a process could not load a gateway account, which then takes no payments",
    ("account",),
)
COUNTERS: Final = (_STARTED_ATTEMPTS, _ENDED_ATTEMPTS, _FOREIGN_EVENTS, _UNREADABLE_ACCOUNTS)


@functools.cache
def _series(measured: _Measured) -> "tuple[Counter, Histogram]":
    from prometheus_client import Histogram

    histogram = Histogram(*measured.histogram, buckets=measured.buckets_s, registry=_registry())
    return _counter(measured.counter), histogram


@functools.cache
def _counter(counted: _CounterOptions) -> "Counter":
    from prometheus_client import Counter

    return Counter(*counted, registry=_registry())


@functools.lru_cache(4096)
def _child(counted: _CounterOptions, *labels: str) -> "Counter":
    return _counter(counted).labels(*labels)


@functools.lru_cache(4096)
def _request_series(route: str, method: str, status: int) -> "tuple[Counter, Histogram]":
    counter, histogram = _series(_REQUESTS)
    method = method if method in _METHODS else "other"
    return counter.labels(route, method, str(status)), histogram.labels(route, method)


def start_gateway_series(
    methods: Mapping[str, Iterable[str]],
    ends: Iterable[str],
    operations: Mapping[str, Iterable[str]],
    owners: Iterable[str],
) -> None:
    """Start the series of gateways at 0.

    Prometheus computes neither the increase at the first sample of a series nor a ratio with a
    missing series. ``methods`` maps each configured gateway to its methods. ``ends`` are the final
    statuses of attempts. ``operations`` maps each operation to its outcomes. ``owners`` are the
    gateways on whose payments other gateways may report.
    """
    ends, owners = list(ends), set(owners) | set(methods)
    for gateway, gateway_methods in methods.items():
        for method in gateway_methods:
            _child(_STARTED_ATTEMPTS, gateway, method)
            for end in ends:
                _child(_ENDED_ATTEMPTS, gateway, method, end.lower())
        for owner in owners - {gateway}:
            _child(_FOREIGN_EVENTS, gateway, owner)
        calls, seconds = _series(_GATEWAY_CALLS)
        for operation, outcomes in operations.items():
            seconds.labels(gateway, operation)
            for outcome in outcomes:
                calls.labels(gateway, operation, outcome.lower())


def start_job_series(
    kinds: Iterable[str], outcomes: Iterable[str], deliveries: Iterable[str]
) -> None:
    """Start the series of a worker at 0, like ``start_gateway_series``."""
    counter, seconds = _series(_JOBS)
    outcomes = list(outcomes)
    for kind in kinds:
        seconds.labels(kind)
        for outcome in outcomes:
            counter.labels(kind, outcome)
    counter, _ = _series(_DELIVERIES)
    for outcome in deliveries:
        counter.labels(outcome)


def count_request(route: str, method: str, status: int, seconds: float) -> None:
    """Count a request; ``route`` is the template (``/v1/orders/{id}``), never a path."""
    counter, histogram = _request_series(route, method, status)
    counter.inc()
    histogram.observe(seconds)


def count_job(kind: str, outcome: str, seconds: float) -> None:
    """Count a run of a job; ``outcome`` is ``done``, ``retry``, ``failed`` or similar."""
    counter, histogram = _series(_JOBS)
    counter.labels(kind, outcome).inc()
    histogram.labels(kind).observe(seconds)


def count_delivery(outcome: str, seconds: float) -> None:
    """Count a delivery attempt; ``outcome`` is ``delivered``, ``no_answer`` or similar."""
    counter, histogram = _series(_DELIVERIES)
    counter.labels(outcome).inc()
    histogram.observe(seconds)


def count_gateway_call(gateway: str, operation: str, outcome: str, seconds: float) -> None:
    """Count a request to a gateway; ``outcome`` is a status of ``gateways/model.py``."""
    counter, histogram = _series(_GATEWAY_CALLS)
    counter.labels(gateway, operation, outcome.lower()).inc()
    histogram.labels(gateway, operation).observe(seconds)


def count_started_attempt(gateway: str, method: str) -> None:
    """Count a payment attempt whose intent is committed."""
    _child(_STARTED_ATTEMPTS, gateway, method).inc()


def count_ended_attempt(gateway: str, method: str, outcome: str) -> None:
    """Count a payment attempt whose end is committed; ``outcome`` is its final status."""
    _child(_ENDED_ATTEMPTS, gateway, method, outcome.lower()).inc()


def count_foreign_gateway_event(gateway: str, owner: str) -> None:
    """Count an event of ``gateway`` about a payment that went through ``owner``."""
    _child(_FOREIGN_EVENTS, gateway, owner).inc()


def count_unreadable_account(account: str) -> None:
    """Count a gateway account that this process could not load."""
    _child(_UNREADABLE_ACCOUNTS, account).inc()


def render(readings: Sequence[Reading] = ()) -> bytes:
    """Return all metrics as Prometheus text (``CONTENT_TYPE``), summed over the processes.

    ``readings`` are current values, such as the age of a queue.
    """
    import prometheus_client as prometheus

    text: bytes = prometheus.generate_latest(_combined_registry())
    return text + "".join(map(_text, (_build(), *readings))).encode()


def _combined_registry() -> "CollectorRegistry":
    """Return a registry of all series, summed over the processes."""
    import prometheus_client as prometheus
    from prometheus_client import multiprocess, values

    for measured in MEASURED:
        _series(measured)
    for counted in COUNTERS:
        _counter(counted)
    if values.ValueClass is values.MutexValue:
        return _registry()
    registry = prometheus.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # the library has no types
    return registry


def gateway_calls() -> dict[tuple[str, str], tuple[int, float]]:
    """Return the number and total seconds of calls by gateway and operation.

    Calls are counted since the processes started. Unlike ``render``, this reads no other series.
    """
    calls, seconds = dict[tuple[str, str], int](), dict[tuple[str, str], float]()
    for kind, labels, value in _read_histogram(_GATEWAY_CALLS):
        key = labels["gateway"], labels["operation"]
        if kind == "sum":
            seconds[key] = seconds.get(key, 0) + value
        else:
            calls[key] = calls.get(key, 0) + int(value)
    return {key: (number, seconds[key]) for key, number in calls.items()}


def _read_histogram(measured: _Measured) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield the sums and counts of a histogram: "sum" or "count", the labels and the value.

    Several processes have a sum and a count each, which the caller adds up.
    """
    from prometheus_client import values

    _, histogram = _series(measured)
    name = measured.histogram.name
    if values.ValueClass is values.MutexValue:
        for metric in histogram.collect():
            for sample in metric.samples:
                kind = sample.name.removeprefix(f"{name}_")
                if kind in {"sum", "count"}:
                    yield kind, sample.labels, sample.value
        return
    from prometheus_client.mmap_dict import MmapedDict

    # prometheus_client writes one file of histograms for each process.
    library: Any = MmapedDict  # the library has no types
    read: _ReadFile = library.read_all_values_from_file
    for path in Path(os.environ[VARIABLE]).glob("histogram_*.db"):
        for key, value, _, _ in read(str(path)):
            if key.startswith(f'["{name}",'):
                _, sample_name, labels, _ = json.loads(key)
                yield sample_name.removeprefix(f"{name}_"), labels, value


def _build() -> Reading:
    labels = {"version": __version__, "python": platform.python_version()}
    return Reading("opentill_build_info", "The version that serves", [(labels, 1)])


def _text(reading: Reading) -> str:
    """Format a reading in Prometheus' text format 0.0.4."""
    lines = [f"# HELP {reading.name} {reading.help}", f"# TYPE {reading.name} {reading.kind}"]
    for labels, value in reading.samples:
        label_text = ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items())
        lines.append(
            f"{reading.name}{{{label_text}}} {value:.17g}"
            if label_text
            else f"{reading.name} {value:.17g}"
        )
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextmanager
def listening(host: str, port: int, read: Read, token: str | None = None) -> Iterator[None]:
    """Serve the metrics at a separate address, in a thread.

    ``read`` returns the current readings and is called in that thread. With a ``token``, only its
    bearer gets the metrics. Raises ``ConfigurationError`` if the port is in use.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    expected = None if token is None else f"Bearer {token}".encode()

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_S

        def do_GET(self) -> None:
            credentials = self.headers.get("authorization", "").encode("latin-1", "replace")
            if expected is not None and not hmac.compare_digest(credentials, expected):
                self._send(401, b"Unauthorized\n")
            else:
                self._send(200, render(read()))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Log nothing."""

    try:
        httpd = Server((host, port), Handler)
    except OSError as error:
        message = f"cannot listen on {host} port {port} ({error.strerror}); set {PORT_SETTING}"
        raise ConfigurationError(message) from None
    thread = threading.Thread(target=httpd.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        httpd.shutdown()
        httpd.server_close()


@contextmanager
def shared_directory(data_dir: Path | None) -> Iterator[Path]:
    """Create the directory for the processes' files, and delete the files of an earlier run.

    Without a data directory, the directory is temporary.
    """
    if data_dir is None:
        with TemporaryDirectory(prefix="opentill-metrics-") as name:
            yield Path(name)
        return
    directory = data_dir / "metrics"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old_file in directory.glob("*.db"):
        old_file.unlink(missing_ok=True)
    yield directory
