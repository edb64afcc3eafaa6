"""The retry schedule of deliveries (contract.md#event-retries)."""

import secrets
from typing import Final

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
# The waits before the second and each later attempt. If the attempt after the last wait fails, the
# delivery fails.
WAITS_MS: Final = (
    1 * _MINUTE_MS,
    5 * _MINUTE_MS,
    30 * _MINUTE_MS,
    2 * _HOUR_MS,
    5 * _HOUR_MS,
    10 * _HOUR_MS,
    14 * _HOUR_MS,
    20 * _HOUR_MS,
    24 * _HOUR_MS,
)
SPREAD: Final = 10  # a wait is longer or shorter by up to this percentage, at random
DISABLE_AFTER_MS: Final = 5 * 24 * _HOUR_MS
GONE: Final = 410
REASON_GONE: Final = "it responded with 410 Gone"
REASON_FAILING: Final = "five days without a success"


def next_try(failed: int, now: int) -> int | None:
    """Return the time of the next attempt after ``failed`` failures, Unix ms; None: give up."""
    if failed > len(WAITS_MS):
        return None
    wait = WAITS_MS[failed - 1]
    widest = wait * SPREAD // 100
    return now + wait - widest + secrets.randbelow(2 * widest + 1)


def disabled_reason(http_status: int | None, failing_since: int, now: int) -> str | None:
    """Return the reason for which a failed attempt disables its endpoint; None if it does not."""
    if http_status == GONE:
        return REASON_GONE
    if now - failing_since >= DISABLE_AFTER_MS:
        return REASON_FAILING
    return None
