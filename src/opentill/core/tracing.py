"""Traces by OpenTelemetry: off, and not even imported, unless its standard variables are set.

Spans name what was done and how it ended. They never hold a value of a statement, an address that a
merchant gave, a text of an error, or anything of a payment (decision 0094).
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
# What a statement does, and to which table first: writing counts before reading, also in a `with`.
_WRITES: Final = re.compile(
    r"\b(?P<verb>insert|delete|(?<!for )(?<!do )(?<!key )update)"
    r"\s+(?:into\s+|from\s+)?(?P<table>[a-z_]+)"
)
_READS: Final = re.compile(r"\b(?P<verb>select)\b.*?\bfrom\s+(?P<table>[a-z_]+)", re.DOTALL)
_FIRST_WORD: Final = re.compile(r"\s*(?P<verb>[a-z]*)(?P<table>)")
_TRACED: Final = b"traceparent"
_log: Final = structlog.get_logger()


class Span(Protocol):
    """What can be said of something while it is done."""

    def set_attribute(self, key: str, value: Value) -> None:
        """Add an attribute, or replace it."""


class _Nothing:
    """The span of what is not traced."""

    def set_attribute(self, key: str, value: Value) -> None:
        """Do nothing."""


_OFF: Final = nullcontext(_Nothing())
_tracer: "Tracer | None" = None  # of this process, while traces are on


def is_on() -> bool:
    """Return whether this process traces."""
    return _tracer is not None


def span(
    name: str, attributes: Mapping[str, Value] = {}, *, kind: Kind = "INTERNAL"
) -> AbstractContextManager[Span]:
    """Return the span of a block; without traces it does nothing."""
    return _OFF if _tracer is None else _spanned(_tracer, name, attributes, kind, None)


def request_span(headers: Sequence[tuple[bytes, bytes]]) -> AbstractContextManager[Span]:
    """Return the span of a request that came in, of its client's trace (W3C Trace Context).

    ``describe_request`` names it, once its route is known.
    """
    if _tracer is None:
        return _OFF
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    given = [value.decode("latin-1") for name, value in headers if name == _TRACED]
    carrier = {"traceparent": given[0]} if len(given) == 1 else {}
    context = TraceContextTextMapPropagator().extract(carrier)
    return _spanned(_tracer, "request", {}, "SERVER", context)


def describe_request(
    route: str, method: str, status: int, request_id: str, merchant_id: str | None
) -> None:
    """Say what the request was whose span is the current one."""
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
    """Return the current trace's id as W3C writes it; None outside one."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def headers() -> dict[str, str]:
    """Return the header by which another server goes on with the current trace.

    Only ``traceparent``, which is random numbers: what else a client sent stays here.
    """
    if _tracer is None:
        return {}
    from opentelemetry import trace

    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    flags = int(context.trace_flags)
    return {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"}


def note_statement(record: Any) -> None:
    """Add the span of a statement that has ended, as asyncpg reports it, to the current trace.

    It has the statement as it stands in the code, with ``$1`` for each value. Outside a trace it is
    left out: a worker asks for what is due several times a second.
    """
    from opentelemetry import trace

    # The current one may have ended: asyncpg reports in the loop's next turn.
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
    made = _tracer.start_span(
        summary, kind=trace.SpanKind.CLIENT, attributes=attributes, start_time=begin
    )
    if record.exception is not None:
        made.set_attribute("error.type", type(record.exception).__qualname__)
        made.set_status(trace.StatusCode.ERROR)
    made.end(end)


@functools.lru_cache(1024)
def _summary(sql: str) -> str:
    text = sql.lower()
    found = _WRITES.search(text) or _READS.search(text) or _FIRST_WORD.match(text)
    return " ".join(filter(None, (found["verb"], found["table"]))) if found else "statement"


@contextmanager
def _spanned(
    tracer: "Tracer",
    name: str,
    attributes: Mapping[str, Value],
    kind: Kind,
    context: "Context | None",
) -> Iterator[Span]:
    """Make a span current; of an error it says the type only, since texts may quote anything."""
    from opentelemetry import trace

    with tracer.start_as_current_span(
        name,
        context=context,
        kind=trace.SpanKind[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        try:
            yield made
        except BaseException as error:
            made.set_attribute("error.type", type(error).__qualname__)
            made.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def running(*, wanted: bool, refused: str = "") -> Iterator[None]:
    """Trace this process while the block runs, if that is wanted; then send what is left.

    ``refused`` says why what the variables ask for cannot be had: a line in the log, as where the
    packages are missing. Payments do not stop for traces.
    """
    global _tracer  # noqa: PLW0603 - one for each process, as the log
    if refused:
        _log.warning(_NO_TRACES, reason=refused)
    provider = _provider() if wanted and _tracer is None else None
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
    """Return what sends spans by OTLP over HTTP, as the variables say.

    None, and a line in the log, where it is missing or refuses a value of theirs.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        ours = Resource({"service.name": "opentill", "service.version": __version__})
        provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ImportError:
        _log.warning(MISSING)
        return None
    except Exception as error:  # noqa: BLE001 - some variables are read when it is imported
        _log.warning(_NO_TRACES, reason=f"{_REFUSED_VALUE}: {error}")
        return None
    return provider
