"""The worker's queues of all features: their lengths and ages.

Metrics use the ages (``health.py``), the console's page the lengths too (decision 0100).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from opentill import figures, mail
from opentill.checkouts import jobs as checkout_jobs
from opentill.db.database import Db, Tx
from opentill.epay import jobs as epay_jobs
from opentill.orders import jobs as order_jobs
from opentill.refunds import jobs as refund_jobs
from opentill.webhooks import jobs as webhook_jobs

MOST: Final = 10_000  # the rows of a queue are counted only up to this number


class Source(NamedTuple):
    """Functions that read a queue: its earliest due time (Unix ms), and how many rows are due."""

    oldest: Callable[[Tx], Awaitable[int | None]]
    waiting: Callable[[Tx, int], Awaitable[int]]


class Queue(NamedTuple):
    """The length of a queue, ``MOST`` at most, and how long its oldest row has been due.

    ``age_ms`` is 0 if nothing is due, None if the queue has no times.
    """

    name: str
    waiting: int
    age_ms: int | None


QUEUES: Final[Mapping[str, Source]] = {
    "payment_checks": Source(order_jobs.oldest_check, order_jobs.count_due),
    "refunds": Source(refund_jobs.oldest_try, refund_jobs.count_due),
    "settlements": Source(order_jobs.oldest_settlement, order_jobs.count_settlements),
    "reserve_releases": Source(order_jobs.oldest_release, order_jobs.count_releases),
    "session_expiries": Source(checkout_jobs.oldest_expiry, checkout_jobs.count_expired),
    "epay_notifications": Source(epay_jobs.oldest_notice, epay_jobs.count_notices),
}


def age(due: int | None, now: int) -> int:
    """Return how many ms ago ``due`` was, 0 for None or the future."""
    return 0 if due is None else max(0, now - due)


async def read(db: Db, now: int) -> list[Queue]:
    """Return all queues; each length and time is read from an index."""
    async with db.connection() as tx:
        deliveries, oldest_ms = await webhook_jobs.measure_backlog(tx, now)
        mails = await mail.queue_state(tx, now)
        all_queues = [
            Queue("webhooks", deliveries, max(0, oldest_ms)),
            Queue("mail", mails.waiting, age(mails.oldest, now)),
            *[
                Queue(name, await source.waiting(tx, now), age(await source.oldest(tx), now))
                for name, source in QUEUES.items()
            ],
            Queue("search", await order_jobs.count_to_index(tx), None),
        ]
    return [
        *all_queues,
        Queue("figures", min(MOST, await figures.count_uncounted_entries(db)), None),
    ]
