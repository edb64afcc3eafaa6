"""What is written of attempts, many at a time."""

import msgspec

from opentill.webhooks import schedule
from opentill.webhooks.model import Attempt, Due


class Result(msgspec.Struct, frozen=True):
    """What is to be written of an attempt."""

    attempt: Attempt
    step: int
    status: str
    try_at: int | None


def result_of(due: Due, made: Attempt, now: int) -> Result:
    """Return what an attempt comes to: delivered, tried again later, or failed."""
    if made.outcome == "delivered":
        return Result(made, due.step + 1, "SUCCEEDED", None)
    again = schedule.next_try(due.step + 1, now)
    return Result(made, due.step + 1, "FAILED" if again is None else "PENDING", again)


def rows(results: list[Result]) -> list[list[object]]:
    """Return the columns of ``queries.RECORD``."""
    made = (
        (
            result.attempt.merchant_id,
            result.attempt.endpoint_id,
            result.attempt.event_id,
            result.attempt.number,
            result.step,
            result.status,
            result.try_at,
            result.attempt.at,
            result.attempt.duration_ms,
            result.attempt.outcome,
            result.attempt.http_status,
            result.attempt.request,
            result.attempt.answer,
            result.attempt.error,
        )
        for result in results
    )
    return [list(column) for column in zip(*made, strict=True)]
