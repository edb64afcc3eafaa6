"""The dispatcher's SQL: leases, due deliveries and the results of attempts.

A delivery is due at its ``try_at``. A worker first takes the lease of the endpoint, which excludes
other workers: an endpoint's limit thus holds across workers, and a delivery needs no lease. The
leases of a worker that dies expire.
"""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.webhooks.model import DueDelivery, HostRow, LeaseRow, TakenLease

# The endpoints with pending deliveries and the earliest `try_at` of each: a loose index scan.
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
# The host of an endpoint in lower case and without port. The URL was validated when it was stored.
_HOST: Final = r"lower(substring(e.url from '://(\[[^]]*\]|[^/:?#]*)'))"
_LEASED: Final = "between :real_now::bigint + 1 and :real_now::bigint + 600000"
# Take the leases of endpoints with due deliveries and of their hosts: healthy endpoints first, then
# those that have been due longest. Whether deliveries are due depends on business time (`:now`),
# whether leases have ended on real time (`:real_now`). A lease that ends in more than ten minutes
# was taken before the clock was set back, by a worker that has ended: a running one renews leases.
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
    """,  # noqa: S608 - interpolates constants of this program only
)
# Renew leases of hosts; return those that this worker still owns.
RENEW_HOSTS = Query(
    HostRow,
    """
    update host_leases h set until = mine.until
    from unnest(:host::text[], :until::bigint[]) as mine (host, until)
    where h.host = mine.host and h.owner = :owner
    returning h.host
    """,
)
# Renew leases of endpoints; return those that this worker still owns. An end in the past releases
# the lease.
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
# Due deliveries of held leases, at most `room` per lease. `:sending` excludes the deliveries that
# are being sent, as concatenated ids of endpoint and event. Endpoints whose URL has moved to
# another host are excluded. A test delivery has no event (``endpoint_test.py``).
DUE = Query(
    DueDelivery,
    f"""
    select d.merchant_id, d.endpoint_id, d.event_id, d.attempts, d.step, d.created_at, v.body,
        e.url, e.secret, e.old_secret, e.old_secret_until, l.failing_since
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
    left join events v on v.merchant_id = d.merchant_id and v.id = d.event_id
    where e.status = 'ENABLED' and (v.id is not null or d.type = 'webhook.test')
    """,  # noqa: S608 - interpolates constants of this program only
)
# Write the results of attempts. A delivery that another worker sent after our lease had expired is
# not changed. A delivery that was resent during an attempt that then failed stays due, because its
# schedule began anew.
RECORD = Command(
    """
    with result as (
        select * from unnest(:merchant_id::text[], :endpoint_id::text[], :event_id::text[],
                :number::int[], :step::int[], :status::text[], :try_at::bigint[], :at::bigint[],
                :duration_ms::bigint[], :outcome::text[], :http_status::int[], :request::text[],
                :response::text[], :error::text[], :fault::text[])
            as r (merchant_id, endpoint_id, event_id, number, step, status, try_at, at, duration_ms,
                outcome, http_status, request, response, error, fault)
    ), moved as (
        update webhook_deliveries d set attempts = r.number,
            updated_at = greatest(d.updated_at, r.at),
            status = case when r.status <> 'SUCCEEDED' and d.step < r.step - 1
                then d.status else r.status end,
            step = case when r.status <> 'SUCCEEDED' and d.step < r.step - 1
                then d.step else r.step end,
            try_at = case when r.status <> 'SUCCEEDED' and d.step < r.step - 1
                then d.try_at else r.try_at end
        from result r
        where d.merchant_id = r.merchant_id and d.endpoint_id = r.endpoint_id
            and d.event_id = r.event_id and d.attempts = r.number - 1 and d.status = 'PENDING'
        returning d.merchant_id, d.endpoint_id, d.event_id
    )
    insert into delivery_attempts (merchant_id, endpoint_id, event_id, number, at, duration_ms,
        outcome, http_status, request, answer, error, fault)
    select r.merchant_id, r.endpoint_id, r.event_id, r.number, r.at, r.duration_ms, r.outcome,
        r.http_status, r.request, r.response, r.error, r.fault
    from result r join moved m on m.merchant_id = r.merchant_id
        and m.endpoint_id = r.endpoint_id and m.event_id = r.event_id
    """,
)
# Keep the newest `:kept` attempts of each delivery and delete the older ones.
FORGET_ATTEMPTS = Command(
    """
    with result as (
        select * from unnest(:merchant_id::text[], :endpoint_id::text[], :event_id::text[],
            :number::int[]) as r (merchant_id, endpoint_id, event_id, number)
    )
    delete from delivery_attempts a using result r
    where a.merchant_id = r.merchant_id and a.endpoint_id = r.endpoint_id
        and a.event_id = r.event_id and a.number <= r.number - :kept
    """,
)
# Store since when endpoints have been failing; null for healthy ones.
SET_FAILING = Command(
    """
    update endpoint_leases l set failing_since = f.since
    from unnest(:merchant_id::text[], :endpoint_id::text[], :since::bigint[])
        as f (merchant_id, endpoint_id, since)
    where l.merchant_id = f.merchant_id and l.endpoint_id = f.endpoint_id
    """,
)
# Make the pending deliveries of endpoints that work again due before all that is due already, the
# oldest `:limit` of each: each delivery once after each of its failures. The failure before is no
# longer counted, so that another one does not shorten the schedule. Deliveries that are being sent
# were due, and are not chosen.
ADVANCE = Value(
    int,
    """
    with chosen as (
        select d.merchant_id, d.endpoint_id, d.event_id, due.first from unnest(
            :merchant_id::text[], :endpoint_id::text[]) as lease (merchant_id, endpoint_id)
        cross join lateral (
            select least(:now::bigint, min(try_at) - 1) as first from webhook_deliveries
            where merchant_id = lease.merchant_id and endpoint_id = lease.endpoint_id
                and try_at is not null
        ) due
        cross join lateral (
            select merchant_id, endpoint_id, event_id from webhook_deliveries
            where merchant_id = lease.merchant_id and endpoint_id = lease.endpoint_id
                and try_at > :now and step > 0 and sent_early_failures is distinct from step
            order by event_id limit :limit
        ) d
    ), advanced as (
        update webhook_deliveries d set try_at = chosen.first, step = d.step - 1,
            sent_early_failures = d.step
        from chosen
        where d.merchant_id = chosen.merchant_id and d.endpoint_id = chosen.endpoint_id
            and d.event_id = chosen.event_id and d.status = 'PENDING'
        returning 1
    )
    select count(*) from advanced
    """,
)
# For metrics: WAITING counts the pending deliveries, up to 10,000. OLDEST is the earliest due time
# among enabled, healthy endpoints: deliveries to failing ones wait, however many workers run.
WAITING = Value(
    int,
    """
    select count(*) from (
        select 1 from webhook_deliveries where try_at is not null limit 10000
    ) w
    """,
)
OLDEST = Value(
    int,
    f"""
    {_TO_SEND}
    select min(w.try_at) from waiting w
    join webhook_endpoints e on e.merchant_id = w.merchant_id and e.id = w.endpoint_id
    join endpoint_leases l on l.merchant_id = w.merchant_id and l.endpoint_id = w.endpoint_id
    where w.try_at <= :now and e.status = 'ENABLED' and l.failing_since is null
    """,  # noqa: S608 - interpolates constants of this program only
)
