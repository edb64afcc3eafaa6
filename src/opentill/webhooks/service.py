"""What can be done with endpoints and their deliveries."""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import UNSET, UnsetType

from opentill import merchants
from opentill.core.encryption import WrongKey, decrypt, encrypt
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id, new_id
from opentill.db.database import Db, Tx
from opentill.http import inputs
from opentill.merchants import OPENTILL, Actor
from opentill.outgoing.client import Forbidden
from opentill.webhooks import queries, signing
from opentill.webhooks.model import TYPES, Delivery, DeliveryAttempt, Endpoint, Resent, Status, Type
from opentill.webhooks.sending import OldSecret, open_old, purpose, seal_old

MOST_ENDPOINTS: Final = 16
MOST_RESENT: Final = 1000  # of one call
OVERLAP_MS: Final = 24 * 3_600_000  # an old secret signs along
PAUSED: Final = "switched off"
_MOST_OLD: Final = 4  # secrets that sign along
_MAX_DESCRIPTION: Final = 255
_EVER: Final = 2**62
_log: Final = structlog.get_logger()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as it is asked for; UNSET stays as it is."""

    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    types: Sequence[str] | UnsetType = UNSET
    status: Status | UnsetType = UNSET


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to send again; times in Unix ms, ``after`` where the call before ended."""

    since: int = 0
    until: int = _EVER
    type: Type | None = None
    failed_only: bool = False
    after: str = ""


class Vet:
    """Whether an address may be an endpoint: the form first, then what the deployment allows."""

    def __init__(self, check: Callable[[str], None]) -> None:
        """``check`` raises Forbidden for an address that is refused by its form alone."""
        self._check = check

    def __call__(self, url: str) -> str:
        """Return an address that may be one. Raises Invalid on ``url``."""
        inputs.web_address("url", url)
        if "#" in url:
            raise Invalid("url", "url must be without a fragment")
        try:
            self._check(url)
        except Forbidden as refusal:
            raise Invalid("url", f"url must be a public https address: {refusal}") from None
        return url


async def create(
    tx: Tx,
    merchant_id: str,
    wanted: Wanted,
    vet: Vet,
    secret_key: str,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> tuple[Endpoint, str]:
    """Make an endpoint; returns it and its secret, which is not shown again. Raises Invalid."""
    if wanted.url is UNSET:
        raise Invalid("url", "url is required: where events are to be sent")
    await merchants.lock(tx, merchant_id)
    if (await queries.COUNT_ENDPOINTS.get(tx, merchant_id=merchant_id) or 0) >= MOST_ENDPOINTS:
        reason = f"url must be one of at most {MOST_ENDPOINTS} endpoints: delete another first"
        raise Invalid("url", reason)
    endpoint_id, secret = new_id("whe"), signing.new_secret()
    endpoint = await queries.INSERT_ENDPOINT.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=vet(wanted.url),
        description=_description("" if wanted.description is UNSET else wanted.description),
        types=_types([] if wanted.types is UNSET else wanted.types),
        secret=encrypt(secret_key, purpose(merchant_id, endpoint_id), secret),
        now=now,
    )
    await _record(tx, actor, "webhooks add", endpoint, _site(endpoint.url), now)
    return endpoint, secret


async def _record(
    tx: Tx, actor: Actor, action: str, endpoint: Endpoint, what: str, now: int
) -> None:
    subject = f"{endpoint.id} {what}".strip()
    await merchants.record_audit_by(tx, actor, action, endpoint.merchant_id, subject, now)


def _site(url: str) -> str:
    """Return an address without its path and query, which may hold a receiver's secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _changes(old: Endpoint, new: Endpoint) -> str:
    """Say what became another, for the audit log."""
    changed = {
        f"url {_site(new.url)}": old.url != new.url,
        "description": old.description != new.description,
        f"events {' '.join(new.types) or 'all'}": old.types != new.types,
        f"status {new.status}": old.status != new.status,
    }
    return ", ".join(text for text, other in changed.items() if other)


def _description(text: str) -> str:
    if len(text) > _MAX_DESCRIPTION:
        reason = f"description must be text of at most {_MAX_DESCRIPTION} characters"
        raise Invalid("description", reason)
    return text.strip()


def _types(wanted: Sequence[str]) -> list[str]:
    """Return the types in the order of the table, each once; none of them means all."""
    if unknown := [name for name in wanted if name not in TYPES]:
        odd = unknown[0][:64]
        raise Invalid("events", f"events must be some of {', '.join(TYPES)}, not {odd}")
    return [name for name in TYPES if name in wanted]


async def find(tx: Tx, merchant_id: str, endpoint_id: str) -> Endpoint:
    """Return an endpoint. Raises NotFound."""
    endpoint = await queries.ENDPOINT.first(tx, merchant_id=merchant_id, id=endpoint_id)
    if endpoint is None:
        raise NotFound
    return endpoint


async def find_anywhere(tx: Tx, endpoint_id: str) -> Endpoint:
    """Return an endpoint of whichever merchant, for the operator. Raises NotFound."""
    endpoint = await queries.ANYWHERE.first(tx, id=endpoint_id)
    if endpoint is None:
        raise NotFound(reason=f"there is no webhook endpoint {endpoint_id}")
    return endpoint


async def _lock(tx: Tx, merchant_id: str, endpoint_id: str) -> Endpoint:
    endpoint = await queries.LOCKED.first(tx, merchant_id=merchant_id, id=endpoint_id)
    if endpoint is None:
        raise NotFound
    return endpoint


async def change(
    tx: Tx,
    merchant_id: str,
    endpoint_id: str,
    wanted: Wanted,
    vet: Vet,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> Endpoint:
    """Change what is given. Raises NotFound and Invalid.

    While an endpoint is DISABLED it gets no new deliveries, and those that wait go on waiting. What
    waited is sent when it is ENABLED again, and it has five days anew.
    """
    old = await _lock(tx, merchant_id, endpoint_id)
    status = old.status if wanted.status is UNSET else wanted.status
    if status == "DELETED":
        raise Invalid("status", "status must be ENABLED or DISABLED")
    why = old.disabled_reason if status == old.status else PAUSED
    new = await queries.UPDATE.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=old.url if wanted.url is UNSET else vet(wanted.url),
        description=old.description
        if wanted.description is UNSET
        else _description(wanted.description),
        types=old.types if wanted.types is UNSET else _types(wanted.types),
        status=status,
        disabled_reason=why if status == "DISABLED" else "",
        now=now,
    )
    if status == "ENABLED" and old.status != "ENABLED":
        await queries.FORGIVE.run(tx, merchant_id=merchant_id, endpoint_id=endpoint_id)
    if changes := _changes(old, new):
        await _record(tx, actor, "webhooks set", new, changes, now)
    return new


async def delete(
    tx: Tx, merchant_id: str, endpoint_id: str, now: int, *, actor: Actor = OPENTILL
) -> None:
    """Delete an endpoint: nothing is sent there any more. Raises NotFound.

    Its row stays until the worker has removed its deliveries, and is shown to nobody.
    """
    old = await _lock(tx, merchant_id, endpoint_id)
    await queries.UPDATE.one(
        tx, merchant_id=merchant_id, id=endpoint_id, url=old.url, description=old.description,
        types=old.types, status="DELETED", disabled_reason="", now=now,
    )  # fmt: skip
    await _record(tx, actor, "webhooks remove", old, _site(old.url), now)


async def rotate(
    tx: Tx,
    merchant_id: str,
    endpoint_id: str,
    secret_key: str,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> tuple[Endpoint, str]:
    """Give an endpoint a new secret; the one before signs along for 24 hours. Raises NotFound.

    So does one that was rotated less than 24 hours ago, for the rest of its own. Secrets that
    cannot be opened any more, since the deployment's key is another, do not.
    """
    old = await _lock(tx, merchant_id, endpoint_id)
    own, secret = purpose(merchant_id, endpoint_id), signing.new_secret()
    until, along = now + OVERLAP_MS, list[OldSecret]()
    try:
        along = [OldSecret(decrypt(secret_key, own, old.secret), until)]
        if old.old_secret is not None:
            along += open_old(secret_key, own, old.old_secret, now)
    except WrongKey:
        until = until if along else now
    new = await queries.ROTATE.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        secret=encrypt(secret_key, own, secret),
        old_secret_until=until,
        old_secret=seal_old(secret_key, own, along[:_MOST_OLD]),
        now=now,
    )
    await _record(tx, actor, "webhooks rotate", new, "", now)
    return new, secret


async def resend(tx: Tx, merchant_id: str, endpoint_id: str, event_id: str, now: int) -> Delivery:
    """Send one event again, whatever became of it before. Raises NotFound and Invalid."""
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_sends(endpoint)
    delivery = None
    if is_id(event_id):
        delivery = await queries.RESEND.first(
            tx, merchant_id=merchant_id, endpoint_id=endpoint_id, event_id=event_id, now=now
        )
    if delivery is None:
        raise Invalid("eventId", "eventId must be the id of one of your events")
    return delivery


async def resend_range(
    tx: Tx, merchant_id: str, endpoint_id: str, which: Range, now: int
) -> Resent:
    """Send up to 1,000 events again, oldest first. Raises NotFound and Invalid.

    ``last`` of the answer is the ``after`` of the next call, None if there are no more.
    """
    endpoint = await find(tx, merchant_id, endpoint_id)
    _check_sends(endpoint)
    types = [which.type] if which.type else endpoint.types
    sent = await queries.RESEND_RANGE.one(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, after=which.after,
        since=which.since, until=which.until, types=types, failed_only=which.failed_only,
        limit=MOST_RESENT, now=now,
    )  # fmt: skip
    return sent if sent.count == MOST_RESENT else Resent(sent.count, None)


async def resend_all(
    db: Db,
    merchant_id: str,
    endpoint_id: str,
    which: Range,
    now: int,
    report: Callable[[int, str | None], None],
) -> int:
    """Send all events of a range again, batch by batch, and return how many.

    ``report`` hears of each batch how many it had and after which event the next one begins: where
    to go on if this breaks off. Raises NotFound and Invalid.
    """
    total, rest = 0, which
    while True:
        batch = rest
        sent = await db.run(lambda tx: resend_range(tx, merchant_id, endpoint_id, batch, now))  # noqa: B023 - run before the next round
        total += sent.count
        report(sent.count, sent.last)
        if sent.last is None:
            return total
        rest = msgspec.structs.replace(rest, after=sent.last)


async def deliveries(
    tx: Tx, endpoint: Endpoint, status: str | None, limit: int
) -> tuple[list[Delivery], list[DeliveryAttempt]]:
    """Return an endpoint's latest deliveries, newest first, and all their attempts."""
    merchant_id, endpoint_id = endpoint.merchant_id, endpoint.id
    found = await queries.DELIVERIES.all(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, status=status, type=None,
        event_id=None, limit=limit, offset=0,
    )  # fmt: skip
    return found, await queries.ATTEMPTS.all(
        tx,
        merchant_id=merchant_id,
        endpoint_id=endpoint_id,
        event_ids=[one.event_id for one in found],
    )


def _check_sends(endpoint: Endpoint) -> None:
    if endpoint.status != "ENABLED":
        raise Invalid("id", "id must be an endpoint that is ENABLED: enable it first")


async def search(tx: Tx, merchant_id: str | None, limit: int = 500) -> list[Endpoint]:
    """Return endpoints of one merchant or all, newest first."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, limit=limit)
