"""Metrics and traces of gateway calls."""

import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final, Literal, TypeVar, get_args

from opentill.core import metrics, tracing
from opentill.core.money import EXPONENTS
from opentill.gateways.model import (
    Gateway,
    PaymentOutcome,
    PaymentStatus,
    RefundOutcome,
    RefundStatus,
)
from opentill.gateways.registry import BUILT_IN
from opentill.gateways.routing import methods_of

Operation = Literal["pay", "find_payment", "expire", "refund"]
Outcome = TypeVar("Outcome", PaymentOutcome, RefundOutcome)


# The status in metrics if the adapter raised an exception, which is a defect.
_ERROR: Final = "error"


def initialize_metrics(
    gateways: Mapping[str, Gateway], ends: Iterable[str], only: Iterable[str] | None = None
) -> None:
    """Initialize the metrics of gateways to 0; ``ends`` are the final statuses of an attempt.

    ``only``: the accounts whose metrics are initialized; None for all.
    """
    metrics.start_gateway_series(
        {
            name: {
                method for currency in EXPONENTS for method in methods_of(gateways, name, currency)
            }
            for name in (gateways if only is None else only)
        },
        ends,
        {
            operation: (
                *get_args(RefundStatus if operation == "refund" else PaymentStatus),
                _ERROR,
            )
            for operation in get_args(Operation)
        },
        BUILT_IN,
    )


async def observe_call(gateway: str, operation: Operation, call: Awaitable[Outcome]) -> Outcome:
    """Await a gateway call, record its status and duration, and return its outcome.

    The span has the gateway, the operation and the status, but no data of the payment.
    """
    started = time.perf_counter()
    status = _ERROR
    with tracing.span(f"gateway {operation}", {"opentill.gateway": gateway}) as span:
        try:
            outcome = await call
            status = outcome.status
            return outcome
        finally:
            span.set_attribute("opentill.outcome", status.lower())
            seconds = time.perf_counter() - started
            metrics.count_gateway_call(gateway, operation, status, seconds)
