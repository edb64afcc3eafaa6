"""All SQL about idempotency keys."""

from typing import Final

import msgspec

from opentill.db.query import Command, Query, Value


class Stored(msgspec.Struct, frozen=True):
    """A stored response: HTTP status and body bytes of the request with this fingerprint."""

    fingerprint: bytes
    status: int
    body: bytes


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
    delete from idempotency_keys where (merchant_id, key) in (
        select merchant_id, key from idempotency_keys where created_at < :before
        order by created_at limit 1000 for update skip locked)
    """,
)
