"""Metrics for Prometheus: requests, jobs and deliveries, of one process or several.

With several processes each writes to files in ``PROMETHEUS_MULTIPROC_DIR``, which the supervisor
sets for its children before they import this module, and any of them renders the sum. The library
is imported on first use: most commands do not need it.
"""

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from opentill.core.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

PORT_SETTING: Final = "OPENTILL_METRICS_PORT"
VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
JOB_BUCKETS_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)


@functools.cache
def _registry() -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry

    return CollectorRegistry(auto_describe=True)


class _Measured(NamedTuple):
    """Something that is counted and timed: both series by name, help and labels."""

    counter: tuple[str, str, tuple[str, ...]]
    histogram: tuple[str, str, tuple[str, ...]]
    buckets_s: tuple[float, ...]


_REQUESTS: Final = _Measured(
    ("opentill_requests", "Requests that got a response", ("route", "method", "status")),
    (
        "opentill_request_seconds",
        "From the last byte of a request's headers to the last byte of its response",
        ("route", "method"),
    ),
    REQUEST_BUCKETS_S,
)
_JOBS: Final = _Measured(
    ("opentill_jobs", "Jobs that the worker ran", ("kind", "outcome")),
    ("opentill_job_seconds", "Run time", ("kind",)),
    JOB_BUCKETS_S,
)
_DELIVERIES: Final = _Measured(
    ("opentill_webhook_deliveries", "Attempts to deliver an event", ("outcome",)),
    ("opentill_webhook_delivery_seconds", "How long an endpoint took", ()),
    JOB_BUCKETS_S,
)


@functools.cache
def _series(measured: _Measured) -> "tuple[Counter, Histogram]":
    from prometheus_client import Counter, Histogram

    registry = _registry()
    return Counter(*measured.counter, registry=registry), Histogram(
        *measured.histogram, buckets=measured.buckets_s, registry=registry
    )


@functools.cache
def _foreign_gateway_event() -> "Counter":
    from prometheus_client import Counter

    return Counter(
        "opentill_foreign_gateway_events",
        "What a gateway said of another gateway's payment, and what therefore did not count",
        ("gateway", "owner"),
        registry=_registry(),
    )


@functools.lru_cache(4096)
def _request_series(route: str, method: str, status: int) -> "tuple[Counter, Histogram]":
    counter, histogram = _series(_REQUESTS)
    return counter.labels(route, method, str(status)), histogram.labels(route, method)


def count_request(route: str, method: str, status: int, seconds: float) -> None:
    """Count one request; ``route`` is the template (``/v1/orders/{id}``), never a path."""
    counter, histogram = _request_series(route, method, status)
    counter.inc()
    histogram.observe(seconds)


def count_job(kind: str, outcome: str, seconds: float) -> None:
    """Count one run of a job; ``outcome`` such as ``done``, ``retry``, ``failed``."""
    counter, histogram = _series(_JOBS)
    counter.labels(kind, outcome).inc()
    histogram.labels(kind).observe(seconds)


def count_delivery(outcome: str, seconds: float) -> None:
    """Count one attempt to deliver an event; ``outcome`` such as ``delivered``, ``no_answer``."""
    counter, histogram = _series(_DELIVERIES)
    counter.labels(outcome).inc()
    histogram.observe(seconds)


def count_foreign_gateway_event(gateway: str, owner: str) -> None:
    """Count an event of ``gateway`` about a payment that went through ``owner``."""
    _foreign_gateway_event().labels(gateway, owner).inc()


def render(gauges: Mapping[str, float] | None = None) -> bytes:
    """Return all metrics as Prometheus text (``CONTENT_TYPE``), summed over the processes.

    ``gauges`` are current values that the caller measured, such as the length of a queue.
    """
    import prometheus_client as prometheus
    from prometheus_client import multiprocess, values

    registry = _registry()
    for measured in (_REQUESTS, _JOBS, _DELIVERIES):
        _series(measured)
    _foreign_gateway_event()
    if values.ValueClass is not values.MutexValue:
        registry = prometheus.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # of theirs
    text = prometheus.generate_latest(registry)
    for name, value in (gauges or {}).items():
        text += f"# TYPE {name} gauge\n{name} {value:.17g}\n".encode()
    return text


@contextmanager
def listening(port: int) -> Iterator[None]:
    """Serve the metrics to scrapers on this machine at ``127.0.0.1:port``, in a thread.

    Raises ``ConfigurationError`` if the port is taken.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = render()
            self.send_response(200)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its names
            """Say nothing."""

    try:
        httpd = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        message = f"cannot listen on 127.0.0.1 port {port} ({error.strerror}); set {PORT_SETTING}"
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
    """Make the directory for several processes' files, without those of an earlier run.

    Without a data directory it is a temporary one.
    """
    if data_dir is None:
        with TemporaryDirectory(prefix="opentill-metrics-") as name:
            yield Path(name)
        return
    directory = data_dir / "metrics"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for rest in directory.glob("*.db"):
        rest.unlink(missing_ok=True)
    yield directory
