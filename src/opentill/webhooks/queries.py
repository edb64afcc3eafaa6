"""The SQL about events, endpoints and deliveries.

That of the dispatcher is in ``dispatch_queries``, that of resends in ``resend_queries``.
"""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.webhooks.model import (
    Delivery,
    DeliveryAttempt,
    Endpoint,
    EndpointActivity,
    EventDelivery,
    OrderEvent,
    StoredEvent,
)

# Write events, and a delivery of each to every endpoint that subscribes to its type. One plan
# serves any number of events (decision 0111).
EMIT = Command(
    """
    with event as (
        insert into events (merchant_id, id, type, body, created_at)
        select * from unnest((select :merchant_id::text[]), :id::text[], :type::text[],
            :body::text[], :created_at::bigint[])
        returning merchant_id, id, type, created_at
    )
    insert into webhook_deliveries (merchant_id, endpoint_id, event_id, type, status, attempts,
        step, try_at, created_at, updated_at)
    select e.merchant_id, w.id, e.id, e.type, 'PENDING', 0, 0, e.created_at, e.created_at,
        e.created_at
    from event e join webhook_endpoints w on w.merchant_id = e.merchant_id
    where w.status = 'ENABLED' and (w.types = '{}' or e.type = any (w.types))
    """,
)

# ── events ─────────────────────────────────────────────────────────────────────────────────────

EVENT = Value(str, "select body from events where merchant_id = :merchant_id and id = :id")
# Find the events about an order in ranges of ids. In each range, at most `:max_scanned` rows are
# read and at most `expected` events returned (`order_events.py`).
OF_ORDER = Query(
    OrderEvent,
    """
    select distinct on (found.id) found.*
    from unnest(:since::text[], :until::text[], :expected::bigint[])
        as range (since, until, expected)
    cross join lateral (
        select near.id, near.type, near.created_at from (
            select id, type, created_at, body from events
            where merchant_id = :merchant_id and id >= range.since and id < range.until
            order by id limit :max_scanned
        ) near
        where strpos(near.body, :order_id) > 0
            and near.body::json -> 'data' ->> 'order_id' = :order_id
        order by near.id limit range.expected
    ) found
    order by found.id
    """,
)

# ── endpoints ──────────────────────────────────────────────────────────────────────────────────

_ENDPOINTS: Final = (
    "from webhook_endpoints where merchant_id = :merchant_id and status <> 'DELETED'"
)
COUNT_ENDPOINTS = Value(int, f"select count(*) {_ENDPOINTS}")
INSERT_ENDPOINT = Query(
    Endpoint,
    """
    with endpoint as (
        insert into webhook_endpoints (merchant_id, id, url, description, types, status,
            disabled_reason, secret, created_at, updated_at)
        values (:merchant_id, :id, :url, :description, :types, 'ENABLED', '', :secret, :now, :now)
        returning *
    ), lease as (
        insert into endpoint_leases (merchant_id, endpoint_id, owner, until)
        select merchant_id, id, '', 0 from endpoint
    )
    select * from endpoint
    """,
)
_ENDPOINT: Final = """
    select * from webhook_endpoints
    where merchant_id = :merchant_id and id = :id and status <> 'DELETED'
"""
ENDPOINT = Query(Endpoint, _ENDPOINT)
LOCKED = Query(Endpoint, f"{_ENDPOINT} for update")
# For the operator, who has only the endpoint's id: one index lookup per merchant.
ANYWHERE = Query(
    Endpoint,
    """
    select w.* from merchants m cross join lateral (
        select * from webhook_endpoints
        where merchant_id = m.id and id = :id and status <> 'DELETED') w
    """,
)
ENDPOINTS = Query(
    Endpoint,
    f"select * {_ENDPOINTS} order by created_at desc, id desc limit :limit offset :offset",
)
SEARCH = Query(
    Endpoint,
    """
    select * from webhook_endpoints
    where (:merchant_id::text is null or merchant_id = :merchant_id) and status <> 'DELETED'
    order by created_at desc, id desc limit :limit
    """,
)
# Disabled endpoints of all merchants, most recently changed first.
DISABLED = Query(
    Endpoint,
    """
    select * from webhook_endpoints where status = 'DISABLED'
    order by updated_at desc, id desc limit :limit
    """,
)
UPDATE = Query(
    Endpoint,
    """
    update webhook_endpoints set url = :url, description = :description, types = :types,
        status = :status, disabled_reason = :disabled_reason,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
CLEAR_FAILING = Command(
    """
    update endpoint_leases set failing_since = null
    where merchant_id = :merchant_id and endpoint_id = :endpoint_id
    """,
)
# `:old_secret_until` is the time at which the last of the old secrets stops signing.
ROTATE = Query(
    Endpoint,
    """
    update webhook_endpoints set old_secret = :old_secret, old_secret_until = :old_secret_until,
        secret = :secret, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# Disable an endpoint, unless it was changed after the failed attempt began.
DISABLE = Command(
    """
    update webhook_endpoints set status = 'DISABLED', disabled_reason = :disabled_reason,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'ENABLED'
        and updated_at <= :attempted_at
    """,
)

# ── deliveries ─────────────────────────────────────────────────────────────────────────────────

# A null `:status`, `:type` or `:event_id` matches any.
_LISTED: Final = """
    from webhook_deliveries where merchant_id = :merchant_id and endpoint_id = :endpoint_id
        and (:status::text is null or status = :status) and (:type::text is null or type = :type)
        and (:event_id::text is null or event_id = :event_id)
"""
# The ``DeliveryState`` of a delivery.
_STATE: Final = "(case when status = 'PENDING' and attempts > 0 then 'RETRYING' else status end)"
# Deliveries, newest first: the ids of events sort by time.
DELIVERIES = Query(
    Delivery,
    f"select * {_LISTED} order by event_id desc limit :limit offset :offset",
)
# The newest `:newest` deliveries of each endpoint: how many there are, how many failed, finally or
# until the next attempt, and which failed last. The ids of events sort by time. An endpoint fails
# if the last result of an event is a failure and nothing was delivered after it, no test either; an
# event that is being resent has none until then. If no event was attempted yet, as behind many
# others that wait for a failing endpoint, its lease says whether it fails.
ACTIVITY = Query(
    EndpointActivity,
    f"""
    select w.id as endpoint_id, d.deliveries, d.failed, d.last_at, d.last_state, d.last_type,
        d.failed_event, case when d.failed_at is not null then d.failed_at >= d.delivered_at
            else not d.attempted and l.failing_since is not null and d.deliveries > 0 end
            as is_failing
    from webhook_endpoints w
    join endpoint_leases l on l.merchant_id = w.merchant_id and l.endpoint_id = w.id
    cross join lateral (
        select count(*) filter (where type <> 'webhook.test') as deliveries,
            max(updated_at) as last_at,
            (array_agg({_STATE} order by updated_at desc, event_id desc))[1] as last_state,
            (array_agg(type order by updated_at desc, event_id desc))[1] as last_type,
            count(*) filter (where type <> 'webhook.test'
                and {_STATE} in ('FAILED', 'RETRYING')) as failed,
            (array_agg(event_id order by updated_at desc, event_id desc)
                filter (where event_failed))[1] as failed_event,
            max(updated_at) filter (where event_failed) as failed_at,
            coalesce(max(updated_at) filter (where status = 'SUCCEEDED'), 0) as delivered_at,
            coalesce(bool_or(type <> 'webhook.test' and status = 'SUCCEEDED'), false) as attempted
        from (
            select event_id, status, attempts, updated_at, type, type <> 'webhook.test'
                    and (status = 'FAILED' or status = 'PENDING' and step > 0) as event_failed
            from webhook_deliveries
            where merchant_id = w.merchant_id and endpoint_id = w.id
            order by event_id desc limit :newest
        ) newest
    ) d
    where w.merchant_id = :merchant_id and w.status <> 'DELETED' and d.last_at is not null
    """,  # noqa: S608 - interpolates constants of this program only
)
COUNT_DELIVERIES = Value(int, f"select count(*) {_LISTED}")
# The newest `:kept` attempts of each delivery, oldest first.
ATTEMPTS = Query(
    DeliveryAttempt,
    """
    select a.* from unnest(:event_id::text[]) as d (event_id)
    cross join lateral (
        select merchant_id, endpoint_id, event_id, number, at, duration_ms, outcome, http_status,
            request, answer as response, error, fault
        from delivery_attempts
        where merchant_id = :merchant_id and endpoint_id = :endpoint_id and event_id = d.event_id
        order by number desc limit :kept
    ) a
    order by a.event_id, a.number
    """,
)
# Pages for people, newest first. A page scans at most `:max_scanned` rows before `:before` and
# returns those that match, so that its cost is bounded; a rare filter may need several pages.
DELIVERIES_BEFORE = Query(
    Delivery,
    f"""
    select * from (
        select * from webhook_deliveries
        where merchant_id = :merchant_id and endpoint_id = :endpoint_id and event_id < :before
        order by event_id desc limit :max_scanned
    ) d
    where (:state::text is null or {_STATE} = :state) and (:type::text is null or type = :type)
        and created_at between :since and :until
    order by event_id desc limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
# The deliveries of these events to an endpoint, newest first.
DELIVERIES_AMONG = Query(
    Delivery,
    """
    select * from webhook_deliveries
    where merchant_id = :merchant_id and endpoint_id = :endpoint_id
        and event_id = any (:event_ids::text[])
    order by event_id desc
    """,
)
DELIVERIES_SCANNED_TO = Value(
    str,
    """
    select event_id from webhook_deliveries
    where merchant_id = :merchant_id and endpoint_id = :endpoint_id and event_id < :before
    order by event_id desc limit 1 offset :max_scanned - 1
    """,
)
EVENTS_BEFORE = Query(
    StoredEvent,
    """
    select id, type, body, created_at from (
        select * from events where merchant_id = :merchant_id and id < :before
        order by id desc limit :max_scanned
    ) v
    where (:type::text is null or type = :type) and created_at between :since and :until
    order by id desc limit :limit
    """,
)
EVENTS_SCANNED_TO = Value(
    str,
    """
    select id from events where merchant_id = :merchant_id and id < :before
    order by id desc limit 1 offset :max_scanned - 1
    """,
)
KEPT_EVENTS = Query(
    StoredEvent,
    """
    select id, type, body, created_at from events
    where merchant_id = :merchant_id and id = any (:ids::text[])
    """,
)
# The deliveries of one event to the endpoints that still exist.
DELIVERIES_OF_EVENT = Query(
    Delivery,
    """
    select d.* from webhook_endpoints e join webhook_deliveries d
        on d.merchant_id = e.merchant_id and d.endpoint_id = e.id and d.event_id = :event_id
    where e.merchant_id = :merchant_id and e.status <> 'DELETED'
    """,
)
ATTEMPTS_OF_EVENT = Query(
    DeliveryAttempt,
    """
    select a.* from webhook_endpoints w
    cross join lateral (
        select merchant_id, endpoint_id, event_id, number, at, duration_ms, outcome, http_status,
            request, answer as response, error, fault
        from delivery_attempts
        where merchant_id = :merchant_id and endpoint_id = w.id and event_id = :event_id
        order by number desc limit :kept
    ) a
    where w.merchant_id = :merchant_id and w.status <> 'DELETED'
    order by a.endpoint_id, a.number
    """,
)
# Deliveries of events, each with its last attempt.
OF_EVENTS = Query(
    EventDelivery,
    """
    select d.event_id, d.endpoint_id, w.url, d.status, d.attempts, d.try_at, a.at, a.outcome,
        a.http_status, a.error, a.fault
    from webhook_endpoints w
    join webhook_deliveries d on d.merchant_id = :merchant_id and d.endpoint_id = w.id
        and d.event_id = any (:event_ids::text[])
    left join lateral (
        select at, outcome, http_status, error, fault from delivery_attempts
        where merchant_id = :merchant_id and endpoint_id = d.endpoint_id
            and event_id = d.event_id
        order by number desc limit 1
    ) a on true
    where w.merchant_id = :merchant_id
    order by d.event_id, w.created_at, w.id
    """,
)
# A test is a delivery without an event. Somebody looks for its result, so it is due before all that
# is pending for the endpoint already.
INSERT_TEST = Query(
    Delivery,
    """
    insert into webhook_deliveries (merchant_id, endpoint_id, event_id, type, status, attempts,
        step, try_at, created_at, updated_at)
    select :merchant_id, :endpoint_id, :event_id, 'webhook.test', 'PENDING', 0, 0,
        least(:now, (
            select min(try_at) - 1 from webhook_deliveries
            where merchant_id = :merchant_id and endpoint_id = :endpoint_id and try_at is not null
        )), :now, :now
    returning *
    """,
)
MAKE_DUE = Command("update webhook_deliveries set try_at = :now where try_at > :now")
# Fail the pending deliveries of all merchants after a restore: they may have been sent already.
SKIP_WAITING = Command(
    """
    update webhook_deliveries set status = 'FAILED', try_at = null,
        updated_at = greatest(updated_at, :now)
    where try_at is not null
    """
)

# ── pruning ────────────────────────────────────────────────────────────────────────────────────

# Delete old rows of each merchant in batches, by ids, which begin with their creation time. A
# delivery that was updated since `:kept_since`, such as a resent one, stays unless its event is
# deleted too (before `:first_event`). Deliveries of deleted endpoints are deleted at once.
PRUNE_ATTEMPTS = Command(
    """
    delete from delivery_attempts where (merchant_id, endpoint_id, event_id, number) in (
        select a.* from webhook_endpoints e cross join lateral (
            select merchant_id, endpoint_id, event_id, number from delivery_attempts
            where merchant_id = e.merchant_id and endpoint_id = e.id
                and (event_id < :keep_from and (at < :kept_since or event_id < :first_event)
                    or e.status = 'DELETED')
            order by event_id limit :limit
        ) a)
    """,
)
PRUNE_DELIVERIES = Command(
    """
    delete from webhook_deliveries where (merchant_id, endpoint_id, event_id) in (
        select d.* from webhook_endpoints e cross join lateral (
            select merchant_id, endpoint_id, event_id from webhook_deliveries
            where merchant_id = e.merchant_id and endpoint_id = e.id
                and (event_id < :keep_from and (updated_at < :kept_since or event_id < :first_event)
                    or e.status = 'DELETED')
            order by event_id limit :limit
        ) d)
    """,
)
# Remove the rows of deleted endpoints, which contain encrypted secrets, once no deliveries remain.
PRUNE_ENDPOINTS = Command(
    """
    with deleted as (
        select merchant_id, id from webhook_endpoints e
        where status = 'DELETED' and updated_at < :before
            and not exists (select from webhook_deliveries
                where merchant_id = e.merchant_id and endpoint_id = e.id)
            and not exists (select from delivery_attempts
                where merchant_id = e.merchant_id and endpoint_id = e.id)
    ), leases as (
        delete from endpoint_leases l using deleted d
        where l.merchant_id = d.merchant_id and l.endpoint_id = d.id
    )
    delete from webhook_endpoints e using deleted d
    where e.merchant_id = d.merchant_id and e.id = d.id
    """,
)
# The numbers of resends begin with their time (``catchup.number_at``).
PRUNE_RESENDS = Command(
    """
    delete from event_resends where (merchant_id, number) in (
        select r.* from merchants m cross join lateral (
            select merchant_id, number from event_resends
            where merchant_id = m.id and number < :before order by number limit :limit
        ) r)
    """,
)
PRUNE_HOSTS = Command("delete from host_leases where until < :before")
PRUNE_EVENTS = Command(
    """
    delete from events where (merchant_id, id) in (
        select v.* from merchants m cross join lateral (
            select merchant_id, id from events
            where merchant_id = m.id and id < :keep_from order by id limit :limit
        ) v)
    """,
)
