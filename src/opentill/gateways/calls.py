"""Calling a gateway so that it can be seen from outside: counted, timed and traced."""

import time
from collections.abc import Awaitable
from typing import Literal, TypeVar

from opentill.core import metrics, tracing
from opentill.gateways.model import PaymentOutcome, RefundOutcome

Operation = Literal["pay", "find_payment", "expire", "refund"]
Outcome = TypeVar("Outcome", PaymentOutcome, RefundOutcome)


async def observed(gateway: str, operation: Operation, call: Awaitable[Outcome]) -> Outcome:
    """Return the outcome of a call to a gateway; its status and duration are counted.

    The span has the gateway, the operation and the status, and nothing of the payment.
    """
    started = time.perf_counter()
    status = "error"  # an adapter that raises is a defect
    with tracing.span(f"gateway {operation}", {"opentill.gateway": gateway}) as span:
        try:
            outcome = await call
            status = outcome.status
            return outcome
        finally:
            span.set_attribute("opentill.outcome", status.lower())
            seconds = time.perf_counter() - started
            metrics.count_gateway_call(gateway, operation, status, seconds)
