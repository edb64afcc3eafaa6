"""When an account is paused by itself: too few successes, slow responses, or an error text.

After the pause one payment at a time tries the account. If it succeeds, the account is used again;
if it fails, the account is paused again. The process that notices it
writes it to the database, which the others poll.
"""

import statistics
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from opentill.gateways.account import Breaker
from opentill.gateways.model import PaymentOutcome
from opentill.gateways.success_rates import EndedAttempt

CALLS: Final = 10  # the median duration of so many calls counts
ATTEMPTS: Final = 20  # the success rate of so many payments counts
_SUCCEEDED: Final = "SUCCEEDED"


class Verdict(msgspec.Struct, frozen=True):
    """What follows from payments: the account is paused because of ``problem``, or is mended."""

    problem: str = ""
    is_mended: bool = False


class Breakers:
    """The recent calls and payments of the accounts, as a process sees them."""

    def __init__(self) -> None:
        """Without calls and payments."""
        self._durations_ms: dict[str, deque[int]] = {}
        self._successes: dict[str, deque[bool]] = {}

    def reset(self, account_id: str) -> None:
        """Forget the calls and payments of an account."""
        self._durations_ms.pop(account_id, None)
        self._successes.pop(account_id, None)

    def judge_call(self, account: Breaker, outcome: PaymentOutcome, duration_ms: int) -> str:
        """Return why a call pauses its account; "" if it does not."""
        if outcome.status in ("DECLINED", "REFUSED", "UNKNOWN", "UNREACHABLE") and (
            problem := _find_text(account, outcome.reason)
        ):
            return problem
        if account.break_slower_ms is None:
            return ""
        durations = self._durations_ms.setdefault(account.id, deque(maxlen=CALLS))
        durations.append(duration_ms)
        median_ms = round(statistics.median(durations))
        is_slow = median_ms > account.break_slower_ms
        if is_slow and (len(durations) == CALLS or account.broken_at is not None):
            return f"responses take {median_ms} ms"
        return ""

    def judge_attempts(self, account: Breaker, attempts: Iterable[EndedAttempt]) -> Verdict:
        """Return what follows from payments that ended since the last call of this function."""
        for attempt in attempts:
            succeeded = attempt.status == _SUCCEEDED
            if not succeeded and (problem := _find_text(account, attempt.reason)):
                return Verdict(problem)
            if account.broken_at is not None:
                if attempt.created_at < account.broken_at:
                    continue
                if succeeded:
                    return Verdict(is_mended=True)
                if account.retry_at is not None and account.retry_at <= time.time() * 1000:
                    return Verdict(f"a payment failed again: {attempt.reason or attempt.status}")
                continue
            if problem := self._judge_rate(account, succeeded=succeeded):
                return Verdict(problem)
        return Verdict()

    def _judge_rate(self, account: Breaker, *, succeeded: bool) -> str:
        if account.break_below_percent is None:
            return ""
        successes = self._successes.setdefault(account.id, deque(maxlen=ATTEMPTS))
        successes.append(succeeded)
        percent = 100 * sum(successes) // len(successes)
        if len(successes) < ATTEMPTS or percent >= account.break_below_percent:
            return ""
        return f"{percent} % of the last {ATTEMPTS} payments succeeded"


def _find_text(account: Breaker, reason: str) -> str:
    reported = reason.lower()
    if reported and any(text.lower() in reported for text in account.break_texts):
        return f"error: {reason}"
    return ""
