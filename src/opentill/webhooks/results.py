"""Write the results of attempts in batches, and disable endpoints that fail for too long."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from opentill import merchants
from opentill.db.database import Db, Tx
from opentill.db.query import columns
from opentill.webhooks import dispatch_queries, queries, schedule
from opentill.webhooks.leases import EndpointLease, key_columns
from opentill.webhooks.model import KEPT_ATTEMPTS, DeliveryAttempt, DeliveryStatus, DueDelivery, Key

_MAX_ADVANCED: Final = 1000  # at most this many deliveries of an endpoint are advanced at once
_log: Final = structlog.get_logger()


class Result(msgspec.Struct, frozen=True):
    """An attempt and the state in which it leaves its delivery."""

    attempt: DeliveryAttempt
    step: int
    status: DeliveryStatus
    try_at: int | None


def result_of(due: DueDelivery, attempt: DeliveryAttempt, now: int) -> Result:
    """Return the result of an attempt: succeeded, to be retried, or failed for good.

    A test is attempted once: whoever asked for it looks at its result, and can send another one.
    """
    if attempt.outcome == "delivered":
        return Result(attempt, due.step + 1, "SUCCEEDED", None)
    is_test = due.body is None
    next_try_at = None if is_test else schedule.next_try(due.step + 1, now)
    return Result(
        attempt, due.step + 1, "FAILED" if next_try_at is None else "PENDING", next_try_at
    )


class Results:
    """The results of one dispatcher that are not written yet."""

    def __init__(self, db: Db, clock: Callable[[], int]) -> None:
        """``clock`` returns business time, Unix ms."""
        self._db = db
        self._clock = clock
        self._unwritten: list[Result] = []

    def add(self, result: Result) -> None:
        """Add a result, to be written with the next ones."""
        self._unwritten.append(result)

    async def write(self, leases: Mapping[Key, EndpointLease]) -> None:
        """Write the results and ``failing_since`` of endpoints. After an error, call it again."""
        results = list(self._unwritten)
        if not results:
            return
        failing = [lease for lease in leases.values() if lease.changed]
        since = [lease.failing_since for lease in failing]
        recovered = [lease for lease in leases.values() if lease.recovered]

        async def work(tx: Tx) -> int:
            await _record(tx, results)
            if failing:
                await dispatch_queries.SET_FAILING.run(tx, **key_columns(failing), since=since)
            return await self._advance(tx, recovered)

        advanced = await self._db.run(work)
        for lease in recovered:
            lease.follow_advanced(has_more=advanced >= _MAX_ADVANCED)
        del self._unwritten[: len(results)]
        for lease, written in zip(failing, since, strict=True):
            lease.failing_written = written
        for result in results:
            attempt = result.attempt
            if (owner := leases.get(attempt.key)) is not None:
                owner.unwritten.discard(attempt.event_id)
            if result.status == "FAILED":
                ids = {"merchant": attempt.merchant_id, "endpoint": attempt.endpoint_id}
                _log.warning("webhook delivery failed", event_id=attempt.event_id, **ids)
        await self._disable(results, leases)

    async def _advance(self, tx: Tx, recovered: list[EndpointLease]) -> int:
        """Make the pending deliveries of endpoints that work again due; return the number."""
        if not recovered:
            return 0
        keys, now = key_columns(recovered), self._clock()
        return await dispatch_queries.ADVANCE.get(tx, **keys, now=now, limit=_MAX_ADVANCED) or 0

    async def _disable(self, results: list[Result], leases: Mapping[Key, EndpointLease]) -> None:
        """Disable the endpoints that responded 410 Gone or have failed for too long."""
        reasons: dict[Key, tuple[str, int]] = {}
        for attempt in (result.attempt for result in results):
            lease = leases.get(attempt.key)
            if attempt.outcome == "delivered" or lease is None:
                continue
            since = attempt.at if lease.failing_since is None else lease.failing_since
            cause = schedule.disabled_reason(attempt.http_status, since, attempt.at)
            if cause is not None:
                _, latest = reasons.get(attempt.key, ("", attempt.at))
                reasons[attempt.key] = cause, max(latest, attempt.at)
        for key, (reason, attempted_at) in reasons.items():
            now = self._clock()
            await self._db.run(lambda tx: _disable(tx, key, reason, attempted_at, now))  # noqa: B023 - awaited before the variables change
            leases[key].queue.clear()


async def _record(tx: Tx, results: list[Result]) -> None:
    """Write attempts and the deliveries that they change."""
    await dispatch_queries.RECORD.run(tx, **_rows(results))
    resent = [result for result in results if result.attempt.number > KEPT_ATTEMPTS]
    if resent:
        await dispatch_queries.FORGET_ATTEMPTS.run(tx, **_deliveries(resent), kept=KEPT_ATTEMPTS)


async def _disable(tx: Tx, key: Key, reason: str, attempted_at: int, now: int) -> None:
    """Disable an endpoint, unless it was changed after the attempt began."""
    merchant_id, endpoint_id = key
    disabled = await queries.DISABLE.run(
        tx, merchant_id=merchant_id, id=endpoint_id, disabled_reason=reason, now=now,
        attempted_at=attempted_at,
    )  # fmt: skip
    if not disabled:
        return
    actor = merchants.Actor("opentill", reason)
    await merchants.record_audit(tx, actor, "webhooks disable", merchant_id, endpoint_id, now)
    _log.error(
        "webhook endpoint disabled", reason=reason, merchant=merchant_id, endpoint=endpoint_id
    )


def _deliveries(results: list[Result]) -> dict[str, list[Any]]:
    """Return the deliveries of results and the numbers of their attempts, as columns."""
    names = ("merchant_id", "endpoint_id", "event_id", "number")
    return {name: [getattr(result.attempt, name) for result in results] for name in names}


def _rows(results: list[Result]) -> dict[str, list[Any]]:
    """Return the columns of ``dispatch_queries.RECORD``."""
    return {
        **columns(DeliveryAttempt, (result.attempt for result in results)),
        "step": [result.step for result in results],
        "status": [result.status for result in results],
        "try_at": [result.try_at for result in results],
    }
