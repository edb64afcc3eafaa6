"""The SQL of the figures of deliveries. Each statement reads a bounded number of rows."""

from typing import Final

import msgspec

from opentill.db.query import Query


class Counts(msgspec.Struct, frozen=True):
    """Deliveries of an endpoint on a day; ``day`` 0 is the time before the days.

    Tests count as ``tests`` only; ``retrying`` ones are among those that failed.
    """

    endpoint_id: str
    day: int
    scanned: int
    delivered: int
    failed: int
    retrying: int
    pending: int
    tests: int


class ResponseTime(msgspec.Struct, frozen=True):
    """The median of an endpoint's response times, or of all (None); None without a response."""

    endpoint_id: str | None
    median_ms: int | None


# `:days` are the beginnings of the days. The ids of events sort by time.
COUNTS: Final = Query(
    Counts,
    """
    select w.id as endpoint_id, d.day, d.scanned, d.delivered, d.failed, d.retrying,
        d.pending, d.tests
    from webhook_endpoints w cross join lateral (
        select width_bucket(created_at, :days::bigint[]) as day, count(*) as scanned,
            count(*) filter (where type <> 'webhook.test' and status = 'SUCCEEDED') as delivered,
            count(*) filter (where type <> 'webhook.test'
                and (status = 'FAILED' or status = 'PENDING' and attempts > 0)) as failed,
            count(*) filter (where type <> 'webhook.test' and status = 'PENDING' and attempts > 0)
                as retrying,
            count(*) filter (where type <> 'webhook.test' and status = 'PENDING' and attempts = 0)
                as pending,
            count(*) filter (where type = 'webhook.test') as tests
        from (
            select type, status, attempts, created_at from webhook_deliveries
            where merchant_id = w.merchant_id and endpoint_id = w.id
            order by event_id desc limit :newest
        ) newest
        group by 1
    ) d
    where w.merchant_id = :merchant_id and w.status <> 'DELETED'
        and (:endpoint_id::text is null or w.id = :endpoint_id)
    """,
)
RESPONSE_TIMES: Final = Query(
    ResponseTime,
    """
    select w.id as endpoint_id,
        percentile_disc(0.5) within group (order by a.duration_ms) as median_ms
    from webhook_endpoints w cross join lateral (
        select duration_ms from (
            select at, duration_ms, http_status from delivery_attempts
            where merchant_id = w.merchant_id and endpoint_id = w.id
            order by event_id desc, number desc limit :newest
        ) newest
        where at >= :since and http_status is not null
    ) a
    where w.merchant_id = :merchant_id and w.status <> 'DELETED'
        and (:endpoint_id::text is null or w.id = :endpoint_id)
    group by grouping sets ((w.id), ())
    """,
)
