"""All SQL about events, endpoints and deliveries."""

from opentill.core.db import Command

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
