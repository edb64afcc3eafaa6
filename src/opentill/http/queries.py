"""SQL for idempotency keys, refused requests and ignored fields."""

from typing import Final

import msgspec

from opentill.db.query import Command, Query, Value


class Stored(msgspec.Struct, frozen=True):
    """The stored response to the request with this fingerprint: HTTP status and body."""

    fingerprint: bytes
    status: int
    body: bytes


class RefusedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's request that was refused, and its error response."""

    merchant_id: str
    at: int  # Unix ms
    id: str  # the value of x-request-id
    key_id: str
    method: str
    path: str  # with the names of query parameters but without their values
    status: int
    code: int  # the business code of the response, such as 40001
    field: str  # the refused field, "" if the response names none
    reason: str  # why the field was refused, "" if the response does not say
    ignored: str  # ignored fields of the body, as ``ignored.py`` lists them


class IgnoredFields(msgspec.Struct, frozen=True, kw_only=True):
    """Ignored fields in a merchant's accepted requests to one route."""

    merchant_id: str
    method: str
    route: str  # such as /v1/products/{id}
    fields: str  # names of the ignored fields, as ``ignored.py`` lists them
    requests: int  # number of requests that had them
    last_at: int  # Unix ms
    last_id: str  # the x-request-id of the last request
    key_id: str  # the API key of the last request


CLAIM: Final = Value(
    bool,
    """
    insert into idempotency_keys as k (merchant_id, key, fingerprint, created_at)
    values (:merchant_id, :key, :fingerprint, :now)
    on conflict (merchant_id, key) do update
        set fingerprint = excluded.fingerprint, status = null, body = null,
            created_at = excluded.created_at
        where k.created_at < :now - 604800000
    returning true
    """,
)
STORED: Final = Query(
    Stored,
    """
    select fingerprint, status, body from idempotency_keys
    where merchant_id = :merchant_id and key = :key
    """,
)
STORE: Final = Command(
    """
    update idempotency_keys set status = :status, body = :body
    where merchant_id = :merchant_id and key = :key
    """,
)
PRUNE: Final = Command(
    """
    delete from idempotency_keys where created_at < :before and (merchant_id, key) in (
        select merchant_id, key from idempotency_keys where created_at < :before
        order by created_at limit 1000 for update skip locked)
    """,
)

INSERT_REFUSED: Final = Command(
    """
    insert into refused_requests (merchant_id, at, id, key_id, method, path, status, code, field,
        reason, ignored)
    select * from unnest(:merchant_id::text[], :at::bigint[], :id::text[], :key_id::text[],
        :method::text[], :path::text[], :status::int[], :code::int[], :field::text[],
        :reason::text[], :ignored::text[])
    on conflict do nothing
    """,
)
# Delete all but the newest `:most` rows of each of these merchants.
TRIM_REFUSED: Final = Command(
    """
    delete from refused_requests r using (
        select older.merchant_id, older.at, older.id
        from unnest(:merchant_id::text[]) as merchants (merchant_id)
        cross join lateral (
            select merchant_id, at, id from refused_requests
            where merchant_id = merchants.merchant_id
            order by at desc, id desc offset :most
        ) older
    ) beyond
    where r.merchant_id = beyond.merchant_id and r.at = beyond.at and r.id = beyond.id
    """,
)
NEWEST_REFUSED: Final = Query(
    RefusedRequest,
    """
    select * from refused_requests where merchant_id = :merchant_id and at > :after
    order by at desc, id desc limit :limit
    """,
)
PRUNE_REFUSED: Final = Command(
    """
    delete from refused_requests where (merchant_id, at, id) in (
        select merchant_id, at, id from refused_requests where at <= :until
        order by at limit 1000 for update skip locked)
    """,
)

# The rows are in key order, so that processes that upsert the same rows cannot deadlock.
UPSERT_IGNORED: Final = Command(
    """
    insert into ignored_fields as existing (merchant_id, method, route, fields, requests, last_at,
        last_id, key_id)
    select * from unnest(:merchant_id::text[], :method::text[], :route::text[], :fields::text[],
        :requests::bigint[], :last_at::bigint[], :last_id::text[], :key_id::text[])
    on conflict (merchant_id, method, route, fields) do update
        set requests = existing.requests + excluded.requests,
            last_at = excluded.last_at, last_id = excluded.last_id, key_id = excluded.key_id
    """,
)
# Delete all but the newest `:most` rows of each of these merchants.
TRIM_IGNORED: Final = Command(
    """
    delete from ignored_fields i using (
        select older.*
        from unnest(:merchant_id::text[]) as merchants (merchant_id)
        cross join lateral (
            select merchant_id, method, route, fields from ignored_fields
            where merchant_id = merchants.merchant_id
            order by last_at desc, last_id desc offset :most
        ) older
    ) beyond
    where i.merchant_id = beyond.merchant_id and i.method = beyond.method
        and i.route = beyond.route and i.fields = beyond.fields
    """,
)
NEWEST_IGNORED: Final = Query(
    IgnoredFields,
    """
    select * from ignored_fields where merchant_id = :merchant_id and last_at > :after
    order by last_at desc, last_id desc limit :limit
    """,
)
PRUNE_IGNORED: Final = Command(
    """
    delete from ignored_fields where last_at <= :until and (merchant_id, method, route, fields) in (
        select merchant_id, method, route, fields from ignored_fields where last_at <= :until
        order by last_at limit 1000 for update skip locked)
    """,
)
