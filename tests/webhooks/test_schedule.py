"""Retries follow the schedule; an endpoint that keeps failing is disabled, with the reason."""

import pytest

from opentill.webhooks import schedule

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_737_000_000_000
WAITS = (
    # Each row: number of the failed attempt, ms until the next attempt.
    (1, MINUTE),
    (2, 5 * MINUTE),
    (3, 30 * MINUTE),
    (4, 2 * HOUR),
    (5, 5 * HOUR),
    (6, 10 * HOUR),
    (7, 14 * HOUR),
    (8, 20 * HOUR),
    (9, 24 * HOUR),
)


@pytest.mark.parametrize(("attempt", "wait"), WAITS)
def test_a_retry_is_within_ten_percent_of_the_schedule(attempt: int, wait: int) -> None:
    moments = [schedule.next_try(attempt, NOW) or 0 for _ in range(200)]
    assert all(abs(moment - NOW - wait) <= wait // 10 for moment in moments)
    assert len(set(moments)) > 100  # the times are random, so that retries are spread


def test_no_retry_follows_the_last_attempt() -> None:
    assert schedule.next_try(len(WAITS) + 1, NOW) is None


@pytest.mark.parametrize(
    ("http_status", "failing_ms", "reason"),
    [
        (500, 0, None),
        (None, 5 * DAY - 1, None),
        (None, 5 * DAY, "five days without a success"),
        (302, 6 * DAY, "five days without a success"),
        (410, 0, "it responded with 410 Gone"),
        (404, 0, None),
    ],
)
def test_a_failing_endpoint_is_disabled_for_a_reason(
    http_status: int | None, failing_ms: int, reason: str | None
) -> None:
    assert schedule.disabled_reason(http_status, NOW - failing_ms, NOW) == reason
