"""Success rates of accounts by payment method, from recent attempts, in the memory of a process.

An account that is not used is forgotten by half in half an hour, and every attempt counts 5 % less
than the next one. Without attempts a rate is 100 %, so new and forgotten accounts are tried.
"""

import math
import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

_FADING: Final = 0.95  # the weight of an attempt, compared with the next one
_HALF_LIFE_S: Final = 1800.0
# As many imaginary attempts, all successful, are part of each rate: one failure says little.
_PRIOR: Final = 2.0
_MOST_REMEMBERED: Final = 10_000  # attempts that are not counted again


class EndedAttempt(msgspec.Struct, frozen=True):
    """An attempt of an account that succeeded or failed, at ``updated_at`` (Unix ms)."""

    id: str
    gateway: str
    method: str
    status: str
    reason: str
    created_at: int
    updated_at: int


class _Count(msgspec.Struct):
    """Faded numbers of attempts, of which some succeeded, at a monotonic time in seconds.

    That time is before the start of the machine, thus negative, if the attempts are that old.
    """

    succeeded: float = 0.0
    attempts: float = 0.0
    at: float = -math.inf

    def fade(self, now: float) -> None:
        factor = 0.5 ** (max(now - self.at, 0.0) / _HALF_LIFE_S)
        self.succeeded *= factor
        self.attempts *= factor
        self.at = max(now, self.at)


class SuccessRates:
    """The success rates of a process."""

    def __init__(self) -> None:
        """Without attempts."""
        self._counts: dict[tuple[str, str], _Count] = {}
        self._counted: dict[str, None] = {}  # ids of attempts, the oldest first

    def count(self, attempts: Iterable[EndedAttempt], now_ms: int) -> list[EndedAttempt]:
        """Count attempts, the oldest first, and return those that were not counted before.

        ``now_ms`` is the time (Unix ms) of their clock.
        """
        counted: list[EndedAttempt] = []
        for attempt in attempts:
            if attempt.id in self._counted:
                continue
            self._counted[attempt.id] = None
            age_s = max(now_ms - attempt.updated_at, 0) / 1000
            succeeded = attempt.status == "SUCCEEDED"
            self.record(attempt.gateway, attempt.method, succeeded=succeeded, age_s=age_s)
            counted.append(attempt)
        while len(self._counted) > _MOST_REMEMBERED:
            del self._counted[next(iter(self._counted))]
        return counted

    def record(
        self,
        account: str,
        method: str,
        *,
        succeeded: bool,
        age_s: float = 0.0,
    ) -> None:
        """Count one attempt that ended ``age_s`` seconds ago."""
        count = self._counts.setdefault((account, method), _Count())
        count.fade(time.monotonic() - age_s)
        count.succeeded = count.succeeded * _FADING + succeeded
        count.attempts = count.attempts * _FADING + 1

    def rate(self, account: str, method: str) -> float:
        """Return the success rate of an account, from 0 to 1."""
        count = self._counts.get((account, method))
        if count is None:
            return 1.0
        count.fade(time.monotonic())
        return (count.succeeded + _PRIOR) / (count.attempts + _PRIOR)

    def all_rates(self) -> Iterator[tuple[str, str, float]]:
        """Yield the account, the method and the rate of every count."""
        for account, method in self._counts:
            yield account, method, self.rate(account, method)
