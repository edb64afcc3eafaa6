"""All SQL about events, endpoints and deliveries.

A delivery waits while it has a ``try_at``. To send it, a worker first takes the endpoint's lane: a
lease that makes it the only one to send there, so that an endpoint's limit holds over all workers
and a delivery needs no claim of its own. A worker that dies loses its lanes when the lease is over.
"""

from typing import Final

from opentill.core.db import Command, Query, Value
from opentill.webhooks.model import (
    Attempt,
    Delivery,
    Due,
    Endpoint,
    Host,
    Lane,
    NumberedEvent,
    Resent,
    Taken,
)

# Write events, and a delivery of each for every endpoint that wants it. Arrays: $1 merchants,
# $2 ids, $3 types, $4 bodies, $5 times.
EMIT = Command(
    """
    with event as (
        insert into events (merchant_id, id, type, body, created_at)
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[])
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

# ── the order of events ────────────────────────────────────────────────────────────────────────
# Ids are made before the commit, so that their order is not the order in which events appear. A
# number is given after it, under the lock of the merchant's head: whatever appears later gets a
# later number, and who has read up to a number has missed nothing.

OPEN_HEAD = Command(
    """
    insert into event_heads (merchant_id, number) values ($1, 0)
    on conflict (merchant_id) do nothing
    """,
)
LOCK_HEAD = Value(int, "select number from event_heads where merchant_id = $1 for update")
# In a statement after the one that locks, so that it sees what was numbered before. $2 at most.
NUMBER = Value(
    int,
    """
    with fresh as (
        select id, row_number() over (order by id) as place from (
            select id from events where merchant_id = $1 and number is null order by id limit $2
        ) waiting
    ), numbered as (
        update events e set number = h.number + fresh.place
        from fresh, event_heads h
        where e.merchant_id = $1 and e.id = fresh.id and h.merchant_id = $1
    )
    update event_heads h set number = h.number + (select count(*) from fresh)
    where merchant_id = $1
    returning number
    """,
)
HAS_UNNUMBERED = Value(
    bool, "select exists (select from events where merchant_id = $1 and number is null)"
)
HEAD = Value(int, "select number from event_heads where merchant_id = $1")
# $2 after which number, $3 up to which, $4 a type or null, $5 how many.
EVENTS = Query(
    NumberedEvent,
    """
    select id, number, body from events
    where merchant_id = $1 and number > $2 and number <= $3 and ($4::text is null or type = $4)
    order by number limit $5
    """,
)
EVENT = Value(str, "select body from events where merchant_id = $1 and id = $2")

# ── endpoints ──────────────────────────────────────────────────────────────────────────────────

LOCK_MERCHANT = Value(str, "select id from merchants where id = $1 for no key update")
COUNT_ENDPOINTS = Value(
    int, "select count(*) from webhook_endpoints where merchant_id = $1 and status <> 'DELETED'"
)
# $7: now.
INSERT_ENDPOINT = Query(
    Endpoint,
    """
    with endpoint as (
        insert into webhook_endpoints (merchant_id, id, url, description, types, status,
            disabled_reason, secret, created_at, updated_at)
        values ($1, $2, $3, $4, $5, 'ENABLED', '', $6, $7, $7)
        returning *
    ), lane as (
        insert into webhook_lanes (merchant_id, endpoint_id, owner, until)
        select merchant_id, id, '', 0 from endpoint
    )
    select * from endpoint
    """,
)
ENDPOINT = Query(
    Endpoint,
    "select * from webhook_endpoints where merchant_id = $1 and id = $2 and status <> 'DELETED'",
)
LOCKED = Query(
    Endpoint,
    """
    select * from webhook_endpoints where merchant_id = $1 and id = $2 and status <> 'DELETED'
    for update
    """,
)
# For the operator, who has only the endpoint's id: one look into the index for each merchant.
ANYWHERE = Query(
    Endpoint,
    """
    select w.* from merchants m cross join lateral (
        select * from webhook_endpoints
        where merchant_id = m.id and id = $1 and status <> 'DELETED') w
    """,
)
ENDPOINTS = Query(
    Endpoint,
    """
    select * from webhook_endpoints where merchant_id = $1 and status <> 'DELETED'
    order by created_at desc, id desc limit $2 offset $3
    """,
)
SEARCH = Query(
    Endpoint,
    """
    select * from webhook_endpoints
    where ($1::text is null or merchant_id = $1) and status <> 'DELETED'
    order by created_at desc, id desc limit $2
    """,
)
# $3 url, $4 description, $5 types, $6 status, $7 why it is disabled, $8 now.
UPDATE = Query(
    Endpoint,
    """
    update webhook_endpoints set url = $3, description = $4, types = $5, status = $6,
        disabled_reason = $7, updated_at = greatest(updated_at, $8)
    where merchant_id = $1 and id = $2
    returning *
    """,
)
FORGIVE = Command(
    "update webhook_lanes set failing_since = null where merchant_id = $1 and endpoint_id = $2"
)
# $3 the new secret, $4 until when the old ones sign along, $5 now, $6 the old ones.
ROTATE = Query(
    Endpoint,
    """
    update webhook_endpoints set old_secret = $6, old_secret_until = $4, secret = $3,
        updated_at = greatest(updated_at, $5)
    where merchant_id = $1 and id = $2
    returning *
    """,
)
# $3 why, $4 now, $5 when the attempt began: older than the last change it says nothing any more.
DISABLE = Command(
    """
    update webhook_endpoints set status = 'DISABLED', disabled_reason = $3,
        updated_at = greatest(updated_at, $4)
    where merchant_id = $1 and id = $2 and status = 'ENABLED' and updated_at <= $5
    """,
)

# ── sending ────────────────────────────────────────────────────────────────────────────────────

# The endpoints that have deliveries waiting, and since or until when the first of them does: one
# step in the index for each.
_WAITING_LANES: Final = """with recursive waiting as (
        (select merchant_id, endpoint_id, try_at from webhook_deliveries
            where try_at is not null order by merchant_id, endpoint_id, try_at limit 1)
        union all
        select n.merchant_id, n.endpoint_id, n.try_at from waiting w cross join lateral (
            select merchant_id, endpoint_id, try_at from webhook_deliveries d
            where try_at is not null
                and (d.merchant_id, d.endpoint_id) > (w.merchant_id, w.endpoint_id)
            order by merchant_id, endpoint_id, try_at limit 1
        ) n
    )"""
# The host of an endpoint (addresses are vetted to be in plain form): in lower case, without port.
_HOST: Final = r"lower(substring(e.url from '://(\[[^]]*\]|[^/:?#]*)'))"
_LEASED: Final = "between $2::bigint + 1 and $2::bigint + 600000"
# Take the lanes of endpoints with deliveries that are due, those that do not fail before those that
# do, the longest waiting first, and their hosts: nobody else sends there then. $1 business time, $2
# real time, $3 who, $4 until when, $5 how many, $6 how many of them may be failing, $7 hosts with
# lanes enough, $8 how many lanes of a host. A lease ten minutes ahead is from before the clock was
# set back, of a worker that is no more: those that are renew theirs.
TAKE_LANES = Query(
    Taken,
    f"""
    {_WAITING_LANES}, ranked as (
        select w.merchant_id, w.endpoint_id, at.host, l.failing_since is not null as failing,
            row_number() over (partition by l.failing_since is null order by w.try_at) as place,
            row_number() over (partition by at.host order by l.failing_since is not null, w.try_at)
                as there
        from waiting w
        join webhook_endpoints e on e.merchant_id = w.merchant_id and e.id = w.endpoint_id
        join webhook_lanes l on l.merchant_id = w.merchant_id and l.endpoint_id = w.endpoint_id
        cross join lateral (select {_HOST} as host) at
        left join webhook_hosts h on h.host = at.host
        where w.try_at <= $1 and e.status = 'ENABLED' and l.until not {_LEASED}
            and (h.host is null or h.owner = $3 or h.until not {_LEASED}) and at.host <> all ($7)
    ), picked as (
        select * from ranked where (not failing or place <= $6::int) and there <= $8::int
        order by failing, place limit $5
    ), hosts as (
        insert into webhook_hosts as h (host, owner, until)
        select distinct host, $3, $4::bigint from picked order by host
        on conflict (host) do update set owner = $3, until = $4
            where h.owner = $3 or h.until not {_LEASED} returning h.host
    ), free as (
        select l.merchant_id, l.endpoint_id, p.host from picked p
        join hosts on hosts.host = p.host
        join webhook_lanes l on l.merchant_id = p.merchant_id and l.endpoint_id = p.endpoint_id
        where l.until not {_LEASED} for update of l skip locked
    )
    update webhook_lanes l set owner = $3, until = $4 from free f
    where l.merchant_id = f.merchant_id and l.endpoint_id = f.endpoint_id
    returning l.merchant_id, l.endpoint_id, l.failing_since, f.host
    """,  # noqa: S608 - constants of ours
)
# Keep hosts, as lanes are kept. Arrays: $1 hosts, $2 until when; $3 who.
KEEP_HOSTS = Query(
    Host,
    """
    update webhook_hosts h set until = mine.until
    from unnest($1::text[], $2::bigint[]) as mine (host, until)
    where h.host = mine.host and h.owner = $3
    returning h.host
    """,
)
# Keep lanes, and say which are still ours. Arrays: $1 merchants, $2 endpoints, $4 until when; $3
# who. A time that is over gives them back.
KEEP_LANES = Query(
    Lane,
    """
    update webhook_lanes l set until = mine.until
    from unnest($1::text[], $2::text[], $4::bigint[]) as mine (merchant_id, endpoint_id, until)
    where l.merchant_id = mine.merchant_id and l.endpoint_id = mine.endpoint_id and l.owner = $3
    returning l.merchant_id, l.endpoint_id, l.failing_since
    """,
)
# What is due on lanes that are ours. Arrays: $1 merchants, $2 endpoints, $3 their hosts, $4 how
# many; $5 business time, $6 what is being sent, as endpoint and event in one word. Not of an
# endpoint that has moved to another host.
DUE = Query(
    Due,
    f"""
    select d.merchant_id, d.endpoint_id, d.event_id, d.attempts, d.step, v.body, e.url, e.secret,
        e.old_secret, e.old_secret_until, l.failing_since
    from unnest($1::text[], $2::text[], $3::text[], $4::int[]) lane (merchant_id, endpoint_id, host,
        room)
    join webhook_endpoints e on e.merchant_id = lane.merchant_id and e.id = lane.endpoint_id
        and {_HOST} = lane.host
    join webhook_lanes l on l.merchant_id = e.merchant_id and l.endpoint_id = e.id
    cross join lateral (
        select * from webhook_deliveries d
        where d.merchant_id = lane.merchant_id and d.endpoint_id = lane.endpoint_id
            and d.try_at <= $5 and not (d.endpoint_id || d.event_id = any ($6::text[]))
        order by d.try_at, d.event_id limit lane.room
    ) d
    join events v on v.merchant_id = d.merchant_id and v.id = d.event_id
    where e.status = 'ENABLED'
    """,  # noqa: S608 - constants of ours
)
# What became of attempts. Arrays: $1 merchants, $2 endpoints, $3 events, $4 numbers, $5 steps,
# $6 statuses, $7 next tries or null, $8 times, $9 durations, $10 outcomes, $11 HTTP statuses or
# null, $12 requests, $13 answers, $14 errors. An attempt that somebody else made meanwhile, because
# our lease was over, stays as it is.
RECORD = Command(
    """
    with result as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::text[],
                $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::int[], $12::text[],
                $13::text[], $14::text[])
            as r (merchant_id, endpoint_id, event_id, number, step, status, try_at, at, duration_ms,
                outcome, http_status, request, answer, error)
    ), moved as (
        update webhook_deliveries d set status = r.status, attempts = r.number, step = r.step,
            try_at = r.try_at, updated_at = greatest(d.updated_at, r.at)
        from result r
        where d.merchant_id = r.merchant_id and d.endpoint_id = r.endpoint_id
            and d.event_id = r.event_id and d.attempts = r.number - 1 and d.status = 'PENDING'
        returning d.merchant_id, d.endpoint_id, d.event_id
    )
    insert into webhook_attempts (merchant_id, endpoint_id, event_id, number, at, duration_ms,
        outcome, http_status, request, answer, error)
    select r.merchant_id, r.endpoint_id, r.event_id, r.number, r.at, r.duration_ms, r.outcome,
        r.http_status, r.request, r.answer, r.error
    from result r join moved m on m.merchant_id = r.merchant_id
        and m.endpoint_id = r.endpoint_id and m.event_id = r.event_id
    """,
)
# Whether endpoints fail. Arrays: $1 merchants, $2 endpoints, $3 since when or null.
SET_FAILING = Command(
    """
    update webhook_lanes l set failing_since = f.since
    from unnest($1::text[], $2::text[], $3::bigint[]) as f (merchant_id, endpoint_id, since)
    where l.merchant_id = f.merchant_id and l.endpoint_id = f.endpoint_id
    """,
)

# ── deliveries ─────────────────────────────────────────────────────────────────────────────────

# Newest first: event ids sort by time. $3 status, $4 type, $5 event: null for any.
DELIVERIES = Query(
    Delivery,
    """
    select * from webhook_deliveries
    where merchant_id = $1 and endpoint_id = $2 and ($3::text is null or status = $3)
        and ($4::text is null or type = $4) and ($5::text is null or event_id = $5)
    order by event_id desc limit $6 offset $7
    """,
)
COUNT_DELIVERIES = Value(
    int,
    """
    select count(*) from webhook_deliveries
    where merchant_id = $1 and endpoint_id = $2 and ($3::text is null or status = $3)
        and ($4::text is null or type = $4) and ($5::text is null or event_id = $5)
    """,
)
ATTEMPTS = Query(
    Attempt,
    """
    select * from webhook_attempts
    where merchant_id = $1 and endpoint_id = $2 and event_id = any ($3::text[])
    order by event_id, number
    """,
)
# Send an event again, or for the first time, whatever became of it. $3 event, $4 now.
RESEND = Query(
    Delivery,
    """
    insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status, attempts,
        step, try_at, created_at, updated_at)
    select merchant_id, $2, id, type, 'PENDING', 0, 0, $4, $4, $4 from events
    where merchant_id = $1 and id = $3
    on conflict (merchant_id, endpoint_id, event_id) do update
        set status = 'PENDING', step = 0, try_at = $4, updated_at = greatest(d.updated_at, $4)
    returning d.*
    """,
)
# Send a batch of a range again, in the order of events: $3 after which event, $4 since and $5 until
# when they happened, $6 types (none: all), $7 only what has failed, $8 how many, $9 now. Those that
# wait anyway only lose their wait.
RESEND_RANGE = Query(
    Resent,
    """
    with chosen as (
        select v.id, v.type from events v
        left join webhook_deliveries d on d.merchant_id = v.merchant_id and d.endpoint_id = $2
            and d.event_id = v.id
        where v.merchant_id = $1 and v.id > $3 and v.created_at between $4 and $5
            and ($6::text[] = '{}' or v.type = any ($6::text[]))
            and (not $7::bool or d.status = 'FAILED')
        order by v.id limit $8
    ), sent as (
        insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status,
            attempts, step, try_at, created_at, updated_at)
        select $1, $2, id, type, 'PENDING', 0, 0, $9, $9, $9 from chosen
        on conflict (merchant_id, endpoint_id, event_id) do update
            set status = 'PENDING', step = 0, try_at = $9,
                updated_at = greatest(d.updated_at, $9)
    )
    select count(*) as count, max(id) as last from chosen
    """,
)
WAKE = Command("update webhook_deliveries set try_at = $1 where try_at > $1")

# ── keeping ────────────────────────────────────────────────────────────────────────────────────

# Batches of what is old, by ids, which begin with their time: $1 the first id to keep, $2 how many
# of each merchant. Of deliveries $3 since when one that was touched is kept all the same, such as
# one sent again, and $4 the first event that is there. Deliveries of deleted endpoints go at once.
PRUNE_ATTEMPTS = Command(
    """
    delete from webhook_attempts where (merchant_id, endpoint_id, event_id, number) in (
        select a.* from webhook_endpoints e cross join lateral (
            select merchant_id, endpoint_id, event_id, number from webhook_attempts
            where merchant_id = e.merchant_id and endpoint_id = e.id
                and (event_id < $1 and (at < $3 or event_id < $4) or e.status = 'DELETED')
            order by event_id limit $2
        ) a)
    """,
)
PRUNE_DELIVERIES = Command(
    """
    delete from webhook_deliveries where (merchant_id, endpoint_id, event_id) in (
        select d.* from webhook_endpoints e cross join lateral (
            select merchant_id, endpoint_id, event_id from webhook_deliveries
            where merchant_id = e.merchant_id and endpoint_id = e.id
                and (event_id < $1 and (updated_at < $3 or event_id < $4) or e.status = 'DELETED')
            order by event_id limit $2
        ) d)
    """,
)
# Deleted endpoints of which nothing is left, with their sealed secrets. $1: deleted before when.
PRUNE_ENDPOINTS = Command(
    """
    with gone as (
        select merchant_id, id from webhook_endpoints e
        where status = 'DELETED' and updated_at < $1
            and not exists (select from webhook_deliveries
                where merchant_id = e.merchant_id and endpoint_id = e.id)
            and not exists (select from webhook_attempts
                where merchant_id = e.merchant_id and endpoint_id = e.id)
    ), lanes as (
        delete from webhook_lanes l using gone g
        where l.merchant_id = g.merchant_id and l.endpoint_id = g.id
    )
    delete from webhook_endpoints e using gone g
    where e.merchant_id = g.merchant_id and e.id = g.id
    """,
)
PRUNE_HOSTS = Command("delete from webhook_hosts where until < $1")
PRUNE_EVENTS = Command(
    """
    delete from events where (merchant_id, id) in (
        select v.* from merchants m cross join lateral (
            select merchant_id, id from events
            where merchant_id = m.id and id < $1 order by id limit $2
        ) v)
    """,
)
# For metrics: how many wait, up to 10,000, and since when the longest of those that are due to an
# endpoint that is enabled. $1 business time.
WAITING = Value(
    int,
    "select count(*) from (select from webhook_deliveries where try_at is not null limit 10000) w",
)
OLDEST = Value(
    int,
    f"""
    {_WAITING_LANES}
    select min(w.try_at) from waiting w
    join webhook_endpoints e on e.merchant_id = w.merchant_id and e.id = w.endpoint_id
    where w.try_at <= $1 and e.status = 'ENABLED'
    """,  # noqa: S608 - a constant of ours
)
