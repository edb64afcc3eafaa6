"""All SQL about events, endpoints and deliveries.

A delivery with a ``try_at`` is to be sent then. A worker first takes the lease of its endpoint,
which makes it the only one to send there: an endpoint's limit thus holds over all workers, and a
delivery needs no lease of its own. A worker that dies loses its leases when they end.
"""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.webhooks.model import (
    Delivery,
    DeliveryAttempt,
    Due,
    Endpoint,
    HostRow,
    LeaseRow,
    NumberedEvent,
    Resent,
    TakenLease,
)

# Write events, and a delivery of each for every endpoint that subscribes to its type.
EMIT = Command(
    """
    with event as (
        insert into events (merchant_id, id, type, body, created_at)
        select * from unnest(:merchant_id::text[], :id::text[], :type::text[], :body::text[],
            :created_at::bigint[])
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
# Ids are made before the commit, so that their order is not the order in which events appear.
# Numbers are given after it, under the lock of the merchant's head: what appears later gets a later
# number, so that a reader who has read up to a number has missed nothing.

OPEN_HEAD = Command(
    """
    insert into event_heads (merchant_id, number) values (:merchant_id, 0)
    on conflict (merchant_id) do nothing
    """,
)
LOCK_HEAD = Value(int, "select number from event_heads where merchant_id = :merchant_id for update")
# A statement of its own after the one that locks, so that it sees the numbers given before.
NUMBER = Value(
    int,
    """
    with fresh as (
        select id, row_number() over (order by id) as place from (
            select id from events where merchant_id = :merchant_id and number is null
            order by id limit :limit
        ) waiting
    ), numbered as (
        update events e set number = h.number + fresh.place
        from fresh, event_heads h
        where e.merchant_id = :merchant_id and e.id = fresh.id and h.merchant_id = :merchant_id
    )
    update event_heads h set number = h.number + (select count(*) from fresh)
    where merchant_id = :merchant_id
    returning number
    """,
)
HAS_UNNUMBERED = Value(
    bool, "select exists (select from events where merchant_id = :merchant_id and number is null)"
)
HEAD = Value(int, "select number from event_heads where merchant_id = :merchant_id")
# With a number after `:after` and up to `:last`; of one type if given.
EVENTS = Query(
    NumberedEvent,
    """
    select id, number, body from events
    where merchant_id = :merchant_id and number > :after and number <= :last
        and (:type::text is null or type = :type)
    order by number limit :limit
    """,
)
EVENT = Value(str, "select body from events where merchant_id = :merchant_id and id = :id")

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
# For the operator, who has only the endpoint's id: one index lookup for each merchant.
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
# The old secrets go on signing until `:old_secret_until`.
ROTATE = Query(
    Endpoint,
    """
    update webhook_endpoints set old_secret = :old_secret, old_secret_until = :old_secret_until,
        secret = :secret, updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id
    returning *
    """,
)
# Not by an attempt that began before the last change of the endpoint.
DISABLE = Command(
    """
    update webhook_endpoints set status = 'DISABLED', disabled_reason = :disabled_reason,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'ENABLED'
        and updated_at <= :attempted_at
    """,
)

# ── sending ────────────────────────────────────────────────────────────────────────────────────

# The endpoints that have deliveries to send, and when the first one is due: one index lookup each.
_TO_SEND: Final = """with recursive waiting as (
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
# The host of an endpoint, whose URL was checked, in lower case and without port.
_HOST: Final = r"lower(substring(e.url from '://(\[[^]]*\]|[^/:?#]*)'))"
_LEASED: Final = "between :real_now::bigint + 1 and :real_now::bigint + 600000"
# Take the leases of endpoints with due deliveries, and of their hosts: endpoints that do not fail
# first, then the longest due first. Deliveries are due by `:now`, business time; leases end by
# `:real_now`. A lease of more than ten minutes is from before the clock was set back, and of a
# worker that has ended: one that runs renews its leases.
TAKE_LEASES = Query(
    TakenLease,
    f"""
    {_TO_SEND}, ranked as (
        select w.merchant_id, w.endpoint_id, at.host, l.failing_since is not null as failing,
            row_number() over (partition by l.failing_since is null order by w.try_at) as place,
            row_number() over (partition by at.host order by l.failing_since is not null, w.try_at)
                as there
        from waiting w
        join webhook_endpoints e on e.merchant_id = w.merchant_id and e.id = w.endpoint_id
        join endpoint_leases l on l.merchant_id = w.merchant_id and l.endpoint_id = w.endpoint_id
        cross join lateral (select {_HOST} as host) at
        left join host_leases h on h.host = at.host
        where w.try_at <= :now and e.status = 'ENABLED' and l.until not {_LEASED}
            and (h.host is null or h.owner = :owner or h.until not {_LEASED})
            and at.host <> all (:full_hosts)
    ), picked as (
        select * from ranked
        where (not failing or place <= :failing_limit::int) and there <= :per_host::int
        order by failing, place limit :limit
    ), hosts as (
        insert into host_leases as h (host, owner, until)
        select distinct host, :owner, :until::bigint from picked order by host
        on conflict (host) do update set owner = :owner, until = :until
            where h.owner = :owner or h.until not {_LEASED} returning h.host
    ), free as (
        select l.merchant_id, l.endpoint_id, p.host from picked p
        join hosts on hosts.host = p.host
        join endpoint_leases l on l.merchant_id = p.merchant_id and l.endpoint_id = p.endpoint_id
        where l.until not {_LEASED} for update of l skip locked
    )
    update endpoint_leases l set owner = :owner, until = :until from free f
    where l.merchant_id = f.merchant_id and l.endpoint_id = f.endpoint_id
    returning l.merchant_id, l.endpoint_id, l.failing_since, f.host
    """,  # noqa: S608 - constants of ours
)
# Renew the leases of hosts, and return those that are still ours.
RENEW_HOSTS = Query(
    HostRow,
    """
    update host_leases h set until = mine.until
    from unnest(:host::text[], :until::bigint[]) as mine (host, until)
    where h.host = mine.host and h.owner = :owner
    returning h.host
    """,
)
# Renew leases, and return those that are still ours. An end in the past gives them back.
RENEW_LEASES = Query(
    LeaseRow,
    """
    update endpoint_leases l set until = mine.until
    from unnest(:merchant_id::text[], :endpoint_id::text[], :until::bigint[])
        as mine (merchant_id, endpoint_id, until)
    where l.merchant_id = mine.merchant_id and l.endpoint_id = mine.endpoint_id and l.owner = :owner
    returning l.merchant_id, l.endpoint_id, l.failing_since
    """,
)
# Due deliveries of leases that are ours: of each as many as it has room for, and none that is under
# way, which `:sending` names by the concatenated ids of endpoint and event. None of an endpoint
# whose URL has another host by now.
DUE = Query(
    Due,
    f"""
    select d.merchant_id, d.endpoint_id, d.event_id, d.attempts, d.step, v.body, e.url, e.secret,
        e.old_secret, e.old_secret_until, l.failing_since
    from unnest(:merchant_id::text[], :endpoint_id::text[], :host::text[], :room::int[])
        as lease (merchant_id, endpoint_id, host, room)
    join webhook_endpoints e on e.merchant_id = lease.merchant_id and e.id = lease.endpoint_id
        and {_HOST} = lease.host
    join endpoint_leases l on l.merchant_id = e.merchant_id and l.endpoint_id = e.id
    cross join lateral (
        select * from webhook_deliveries d
        where d.merchant_id = lease.merchant_id and d.endpoint_id = lease.endpoint_id
            and d.try_at <= :now and not (d.endpoint_id || d.event_id = any (:sending::text[]))
        order by d.try_at, d.event_id limit lease.room
    ) d
    join events v on v.merchant_id = d.merchant_id and v.id = d.event_id
    where e.status = 'ENABLED'
    """,  # noqa: S608 - constants of ours
)
# The results of attempts. A delivery that another worker has sent meanwhile, because our lease had
# ended, stays as it is.
RECORD = Command(
    """
    with result as (
        select * from unnest(:merchant_id::text[], :endpoint_id::text[], :event_id::text[],
                :number::int[], :step::int[], :status::text[], :try_at::bigint[], :at::bigint[],
                :duration_ms::bigint[], :outcome::text[], :http_status::int[], :request::text[],
                :response::text[], :error::text[])
            as r (merchant_id, endpoint_id, event_id, number, step, status, try_at, at, duration_ms,
                outcome, http_status, request, response, error)
    ), moved as (
        update webhook_deliveries d set status = r.status, attempts = r.number, step = r.step,
            try_at = r.try_at, updated_at = greatest(d.updated_at, r.at)
        from result r
        where d.merchant_id = r.merchant_id and d.endpoint_id = r.endpoint_id
            and d.event_id = r.event_id and d.attempts = r.number - 1 and d.status = 'PENDING'
        returning d.merchant_id, d.endpoint_id, d.event_id
    )
    insert into delivery_attempts (merchant_id, endpoint_id, event_id, number, at, duration_ms,
        outcome, http_status, request, answer, error)
    select r.merchant_id, r.endpoint_id, r.event_id, r.number, r.at, r.duration_ms, r.outcome,
        r.http_status, r.request, r.response, r.error
    from result r join moved m on m.merchant_id = r.merchant_id
        and m.endpoint_id = r.endpoint_id and m.event_id = r.event_id
    """,
)
# Since when endpoints fail; null where they do not.
SET_FAILING = Command(
    """
    update endpoint_leases l set failing_since = f.since
    from unnest(:merchant_id::text[], :endpoint_id::text[], :since::bigint[])
        as f (merchant_id, endpoint_id, since)
    where l.merchant_id = f.merchant_id and l.endpoint_id = f.endpoint_id
    """,
)

# ── deliveries ─────────────────────────────────────────────────────────────────────────────────

# A status, type or event of null is any.
_LISTED: Final = """
    from webhook_deliveries where merchant_id = :merchant_id and endpoint_id = :endpoint_id
        and (:status::text is null or status = :status) and (:type::text is null or type = :type)
        and (:event_id::text is null or event_id = :event_id)
"""
# Newest first: event ids sort by time.
DELIVERIES = Query(
    Delivery,
    f"select * {_LISTED} order by event_id desc limit :limit offset :offset",
)
COUNT_DELIVERIES = Value(int, f"select count(*) {_LISTED}")
ATTEMPTS = Query(
    DeliveryAttempt,
    """
    select merchant_id, endpoint_id, event_id, number, at, duration_ms, outcome, http_status,
        request, answer as response, error
    from delivery_attempts
    where merchant_id = :merchant_id and endpoint_id = :endpoint_id
        and event_id = any (:event_ids::text[])
    order by event_id, number
    """,
)
# Make the delivery of an event due now, whether or not there was one.
RESEND = Query(
    Delivery,
    """
    insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status, attempts,
        step, try_at, created_at, updated_at)
    select merchant_id, :endpoint_id, id, type, 'PENDING', 0, 0, :now, :now, :now from events
    where merchant_id = :merchant_id and id = :event_id
    on conflict (merchant_id, endpoint_id, event_id) do update
        set status = 'PENDING', step = 0, try_at = :now, updated_at = greatest(d.updated_at, :now)
    returning d.*
    """,
)
# Make a batch of a range due now, in the order of events, after one event; no types mean all.
RESEND_RANGE = Query(
    Resent,
    """
    with chosen as (
        select v.id, v.type from events v
        left join webhook_deliveries d on d.merchant_id = v.merchant_id
            and d.endpoint_id = :endpoint_id and d.event_id = v.id
        where v.merchant_id = :merchant_id and v.id > :after
            and v.created_at between :since and :until
            and (:types::text[] = '{}' or v.type = any (:types::text[]))
            and (not :failed_only::bool or d.status = 'FAILED')
        order by v.id limit :limit
    ), sent as (
        insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status,
            attempts, step, try_at, created_at, updated_at)
        select :merchant_id, :endpoint_id, id, type, 'PENDING', 0, 0, :now, :now, :now from chosen
        on conflict (merchant_id, endpoint_id, event_id) do update
            set status = 'PENDING', step = 0, try_at = :now,
                updated_at = greatest(d.updated_at, :now)
    )
    select count(*) as count, max(id) as last from chosen
    """,
)
MAKE_DUE = Command("update webhook_deliveries set try_at = :now where try_at > :now")

# ── pruning ────────────────────────────────────────────────────────────────────────────────────

# Batches of old rows of each merchant, by ids, which begin with their time. A delivery that was
# updated since `:kept_since`, such as one that was resent, stays unless its event is removed, which
# is before `:first_event`. Deliveries of deleted endpoints are removed at once.
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
# Deleted endpoints without deliveries, with their encrypted secrets.
PRUNE_ENDPOINTS = Command(
    """
    with gone as (
        select merchant_id, id from webhook_endpoints e
        where status = 'DELETED' and updated_at < :before
            and not exists (select from webhook_deliveries
                where merchant_id = e.merchant_id and endpoint_id = e.id)
            and not exists (select from delivery_attempts
                where merchant_id = e.merchant_id and endpoint_id = e.id)
    ), leases as (
        delete from endpoint_leases l using gone g
        where l.merchant_id = g.merchant_id and l.endpoint_id = g.id
    )
    delete from webhook_endpoints e using gone g
    where e.merchant_id = g.merchant_id and e.id = g.id
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
# For metrics: how many deliveries are to be sent, up to 10,000, and since when the oldest one to an
# enabled endpoint is due.
WAITING = Value(
    int,
    "select count(*) from (select from webhook_deliveries where try_at is not null limit 10000) w",
)
OLDEST = Value(
    int,
    f"""
    {_TO_SEND}
    select min(w.try_at) from waiting w
    join webhook_endpoints e on e.merchant_id = w.merchant_id and e.id = w.endpoint_id
    where w.try_at <= :now and e.status = 'ENABLED'
    """,  # noqa: S608 - a constant of ours
)
