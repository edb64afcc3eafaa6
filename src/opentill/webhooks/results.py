"""What is written of attempts, many at a time."""

from typing import Any

import msgspec

from opentill.db.query import columns
from opentill.webhooks import schedule
from opentill.webhooks.model import DeliveryAttempt, Due


class Result(msgspec.Struct, frozen=True):
    """What is to be written of an attempt."""

    attempt: DeliveryAttempt
    step: int
    status: str
    try_at: int | None


def result_of(due: Due, made: DeliveryAttempt, now: int) -> Result:
    """Return what an attempt comes to: delivered, tried again later, or failed."""
    if made.outcome == "delivered":
        return Result(made, due.step + 1, "SUCCEEDED", None)
    again = schedule.next_try(due.step + 1, now)
    return Result(made, due.step + 1, "FAILED" if again is None else "PENDING", again)


def rows(results: list[Result]) -> dict[str, list[Any]]:
    """Return the columns of ``queries.RECORD``."""
    return {
        **columns(DeliveryAttempt, (result.attempt for result in results)),
        "step": [result.step for result in results],
        "status": [result.status for result in results],
        "try_at": [result.try_at for result in results],
    }
