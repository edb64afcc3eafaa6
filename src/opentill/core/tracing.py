"""Traces by OpenTelemetry, which is only imported if its standard variables are set.

Spans name an action and its result. They never contain values of statements, addresses of
merchants, texts of errors or data of a payment (decision 0094).
"""

import functools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import structlog

from opentill import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

Value = str | int
Kind = Literal["INTERNAL", "SERVER", "CLIENT"]
MISSING: Final = (
    "OTEL_… asks for traces, and the packages for them are not installed: pip install"
    " 'opentill[opentelemetry]'; OpenTill runs without them"
)
_NO_TRACES: Final = "no traces are sent"
_REFUSED_VALUE: Final = "OpenTelemetry refuses a value of its variables (OTEL_…)"
_NS: Final = 1_000_000_000
# The verb and first table of a statement; writes take precedence over reads, also inside `with`.
_WRITES: Final = re.compile(
    r"\b(?P<verb>insert|delete|(?<!for )(?<!do )(?<!key )update)"
    r"\s+(?:into\s+|from\s+)?(?P<table>[a-z_]+)"
)
_READS: Final = re.compile(r"\b(?P<verb>select)\b.*?\bfrom\s+(?P<table>[a-z_]+)", re.DOTALL)
_FIRST_WORD: Final = re.compile(r"\s*(?P<verb>[a-z]*)(?P<table>)")
_TRACED: Final = b"traceparent"
_log: Final = structlog.get_logger()


class Span(Protocol):
    """A span that is in progress."""

    def set_attribute(self, key: str, value: Value) -> None:
        """Add or replace an attribute."""


class _NoSpan:
    """The span that is used while tracing is off."""

    def set_attribute(self, key: str, value: Value) -> None:
        """Do nothing."""


_OFF: Final = nullcontext(_NoSpan())
_tracer: "Tracer | None" = None  # this process's tracer, None while tracing is off


def is_on() -> bool:
    """Whether tracing is on in this process."""
    return _tracer is not None


def span(
    name: str, attributes: Mapping[str, Value] = {}, *, kind: Kind = "INTERNAL"
) -> AbstractContextManager[Span]:
    """Return the span of a block; it does nothing while tracing is off."""
    return _OFF if _tracer is None else _record_span(_tracer, name, attributes, kind, None)


def request_span(headers: Sequence[tuple[bytes, bytes]]) -> AbstractContextManager[Span]:
    """Return the span of an incoming request, in its client's trace (W3C Trace Context).

    ``describe_request`` names it once its route is known.
    """
    if _tracer is None:
        return _OFF
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    values = [value.decode("latin-1") for name, value in headers if name == _TRACED]
    carrier = {"traceparent": values[0]} if len(values) == 1 else {}
    context = TraceContextTextMapPropagator().extract(carrier)
    return _record_span(_tracer, "request", {}, "SERVER", context)


def describe_request(
    route: str, method: str, status: int, request_id: str, merchant_id: str | None
) -> None:
    """Set the name and the attributes of the current span, which must be a request's span."""
    from opentelemetry import trace

    current = trace.get_current_span()
    current.update_name(f"{method} {route}")
    current.set_attribute("http.request.method", method)
    current.set_attribute("http.route", route)
    current.set_attribute("http.response.status_code", status)
    current.set_attribute("opentill.request_id", request_id)
    if merchant_id is not None:
        current.set_attribute("opentill.merchant", merchant_id)


def trace_id() -> str | None:
    """Return the current trace's id in W3C form, None outside a trace."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def headers() -> dict[str, str]:
    """Return the headers that continue the current trace at another server.

    The only one is ``traceparent``, which contains random numbers; other headers of the client are
    not passed.
    """
    if _tracer is None:
        return {}
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    flags = int(context.trace_flags)
    return {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"}


def record_statement(record: Any) -> None:
    """Add the span of a finished statement, as asyncpg reports it, to the current trace.

    It contains the statement with placeholders instead of values. Statements outside a trace are
    omitted, because workers poll several times a second.
    """
    from opentelemetry import trace

    # The current span may have ended, because asyncpg reports a statement only in the next
    # iteration of the event loop.
    context = trace.get_current_span().get_span_context()
    if _tracer is None or not (context.is_valid and context.trace_flags.sampled):
        return
    end = time.time_ns()
    summary = _summary(record.query)
    attributes = {
        "db.system.name": "postgresql",
        "db.query.summary": summary,
        "db.query.text": record.query,
    }
    begin = end - int(record.elapsed * _NS)
    statement_span = _tracer.start_span(
        summary, kind=trace.SpanKind.CLIENT, attributes=attributes, start_time=begin
    )
    if record.exception is not None:
        statement_span.set_attribute("error.type", type(record.exception).__qualname__)
        statement_span.set_status(trace.StatusCode.ERROR)
    statement_span.end(end)


@functools.lru_cache(1024)
def _summary(sql: str) -> str:
    text = sql.lower()
    match = _WRITES.search(text) or _READS.search(text) or _FIRST_WORD.match(text)
    return " ".join(filter(None, (match["verb"], match["table"]))) if match else "statement"


@contextmanager
def _record_span(
    tracer: "Tracer",
    name: str,
    attributes: Mapping[str, Value],
    kind: Kind,
    context: "Context | None",
) -> Iterator[Span]:
    """Make a span current. It records only an error's type: the text may contain private data."""
    from opentelemetry import trace

    with tracer.start_as_current_span(
        name,
        context=context,
        kind=trace.SpanKind[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span_in_progress:
        try:
            yield span_in_progress
        except BaseException as error:
            span_in_progress.set_attribute("error.type", type(error).__qualname__)
            span_in_progress.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def trace_process(*, enabled: bool, refused: str = "") -> Iterator[None]:
    """Trace this process while the block runs, if ``enabled``; then send the remaining spans.

    ``refused`` says why the requested tracing is impossible. It is only logged, as missing packages
    are: payments continue without traces.
    """
    global _tracer  # noqa: PLW0603 - one for each process, like the log
    if refused:
        _log.warning(_NO_TRACES, reason=refused)
    provider = _provider() if enabled and _tracer is None else None
    if provider is None:
        yield
        return
    _tracer = provider.get_tracer("opentill", __version__)
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def _provider() -> "TracerProvider | None":
    """Return the provider that sends spans by OTLP over HTTP, as the variables say.

    Logs and returns None if the packages are missing or refuse a value of the variables.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        defaults = Resource({"service.name": "opentill", "service.version": __version__})
        provider = TracerProvider(resource=defaults.merge(OTELResourceDetector().detect()))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ImportError:
        _log.warning(MISSING)
        return None
    except Exception as error:  # noqa: BLE001 - some variables are read on import
        _log.warning(_NO_TRACES, reason=f"{_REFUSED_VALUE}: {error}")
        return None
    return provider
