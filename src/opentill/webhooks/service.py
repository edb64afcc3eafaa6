"""What can be done with endpoints."""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import UNSET, UnsetType

from opentill import merchants
from opentill.core import hostnames
from opentill.core.encryption import WrongKey, decrypt, encrypt
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.merchants import OPENTILL, Actor
from opentill.outgoing.client import Forbidden
from opentill.webhooks import queries, signing
from opentill.webhooks.endpoint_secrets import OldSecret, decrypt_old, encrypt_old, purpose
from opentill.webhooks.looking import attempts_of
from opentill.webhooks.model import TYPES, Delivery, DeliveryAttempt, Endpoint, Status

MOST_ENDPOINTS: Final = 16
OVERLAP_MS: Final = 24 * 3_600_000  # for which an old secret goes on signing
PAUSED: Final = "switched off"
_MOST_OLD: Final = 4  # secrets that go on signing
_MAX_DESCRIPTION: Final = 255
_log: Final = structlog.get_logger()


class EndpointFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an endpoint to set; an UNSET one stays as it is."""

    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    types: Sequence[str] | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    seen_at: int | None = None  # ``updated_at`` as whoever sets them has seen it


class Stale(Invalid):
    """An endpoint is no longer as whoever changes it has seen it."""


class UrlCheck:
    """Checks whether an address may be an endpoint: its form, then the deployment's policy."""

    def __init__(self, check: Callable[[str], None]) -> None:
        """``check`` raises Forbidden for an address that is refused by its form alone."""
        self._check = check

    def __call__(self, url: str) -> str:
        """Return the address with its host in ASCII. Raises Invalid for ``url``."""
        inputs.check_url("url", url)
        url = hostnames.with_ascii_host(url)
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
    wanted: EndpointFields,
    check_url: UrlCheck,
    secret_key: str,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> tuple[Endpoint, str]:
    """Make an endpoint; return it and its secret, which is shown only now. Raises Invalid."""
    if wanted.url is UNSET:
        raise Invalid("url", "url is required: where events are to be sent")
    await _lock_open(tx, merchant_id)
    if (await queries.COUNT_ENDPOINTS.get(tx, merchant_id=merchant_id) or 0) >= MOST_ENDPOINTS:
        reason = f"url must be one of at most {MOST_ENDPOINTS} endpoints: delete another first"
        raise Invalid("url", reason)
    endpoint_id, secret = new_id("whe"), signing.new_secret()
    endpoint = await queries.INSERT_ENDPOINT.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=check_url(wanted.url),
        description=_description("" if wanted.description is UNSET else wanted.description),
        types=_types([] if wanted.types is UNSET else wanted.types),
        secret=encrypt(secret_key, purpose(merchant_id, endpoint_id), secret),
        now=now,
    )
    await _record(tx, actor, "webhooks add", endpoint, _site(endpoint.url), now)
    return endpoint, secret


async def _lock_open(tx: Tx, merchant_id: str) -> None:
    """Lock a merchant. Raises NotFound, and Invalid for one that is CLOSED."""
    await merchants.lock(tx, merchant_id)
    if (await merchants.find(tx, merchant_id)).status == "CLOSED":
        raise Invalid("merchant", "merchant must not be CLOSED: nothing is sent to it any more")


async def _record(
    tx: Tx, actor: Actor, action: str, endpoint: Endpoint, what: str, now: int
) -> None:
    subject = f"{endpoint.id} {what}".strip()
    await merchants.record_audit(tx, actor, action, endpoint.merchant_id, subject, now)


def _site(url: str) -> str:
    """Return an address without its path and query, which may hold a receiver's secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _changes(old: Endpoint, new: Endpoint) -> str:
    """Return what changed, for the audit log."""
    changed = {
        f"url {_site(new.url)}": old.url != new.url,
        "description": old.description != new.description,
        f"events {' '.join(new.types) or 'all'}": old.types != new.types,
        f"status {new.status}": old.status != new.status,
    }
    return ", ".join(text for text, is_changed in changed.items() if is_changed)


def _description(text: str) -> str:
    if len(text) > _MAX_DESCRIPTION:
        reason = f"description must be text of at most {_MAX_DESCRIPTION} characters"
        raise Invalid("description", reason)
    return text.strip()


def _types(wanted: Sequence[str]) -> list[str]:
    """Return the types in the order of the table, each once; none of them means all."""
    if unknown := [name for name in wanted if name not in TYPES]:
        first = unknown[0][:64]
        raise Invalid("events", f"events must be some of {', '.join(TYPES)}, not {first}")
    return [name for name in TYPES if name in wanted]


async def find(tx: Tx, merchant_id: str, endpoint_id: str) -> Endpoint:
    """Return an endpoint. Raises NotFound."""
    endpoint = await queries.ENDPOINT.first(tx, merchant_id=merchant_id, id=endpoint_id)
    if endpoint is None:
        raise NotFound
    return endpoint


async def find_anywhere(tx: Tx, endpoint_id: str) -> Endpoint:
    """Return an endpoint of any merchant, for the operator. Raises NotFound."""
    endpoint = await queries.ANYWHERE.first(tx, id=endpoint_id)
    if endpoint is None:
        raise NotFound(reason=f"there is no webhook endpoint {endpoint_id}")
    return endpoint


async def _lock(tx: Tx, merchant_id: str, endpoint_id: str) -> Endpoint:
    endpoint = await queries.LOCKED.first(tx, merchant_id=merchant_id, id=endpoint_id)
    if endpoint is None:
        raise NotFound
    return endpoint


async def update(
    tx: Tx,
    merchant_id: str,
    endpoint_id: str,
    wanted: EndpointFields,
    check_url: UrlCheck,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> Endpoint:
    """Change the given fields. Raises NotFound and Invalid.

    Raises Stale if it was changed since it was seen, unless there is nothing to change any more.
    While an endpoint is DISABLED it gets no new deliveries, and the pending ones stay pending. They
    are sent when it is ENABLED again, which begins a new period of five days.
    """
    if wanted.status == "ENABLED":
        await _lock_open(tx, merchant_id)  # first, as whoever closes it does
    old = await _lock(tx, merchant_id, endpoint_id)
    status = old.status if wanted.status is UNSET else wanted.status
    if status == "DELETED":
        raise Invalid("status", "status must be ENABLED or DISABLED")
    why = old.disabled_reason if status == old.status else PAUSED
    new = await queries.UPDATE.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=old.url if wanted.url is UNSET else check_url(wanted.url),
        description=old.description
        if wanted.description is UNSET
        else _description(wanted.description),
        types=old.types if wanted.types is UNSET else _types(wanted.types),
        status=status,
        disabled_reason=why if status == "DISABLED" else "",
        now=now,
    )
    if status == "ENABLED" and old.status != "ENABLED":
        await queries.CLEAR_FAILING.run(tx, merchant_id=merchant_id, endpoint_id=endpoint_id)
    if changes := _changes(old, new):
        if wanted.seen_at not in {None, old.updated_at}:
            raise Stale("seenAt", "seenAt must be the updatedAt of the endpoint as it is now")
        await _record(tx, actor, "webhooks set", new, changes, now)
    return new


async def stop(tx: Tx, merchant_id: str, now: int, *, actor: Actor = OPENTILL) -> None:
    """Switch all endpoints of a merchant off: nothing is sent to them any more."""
    for seen in await search(tx, merchant_id):
        old = await _lock(tx, merchant_id, seen.id)
        if old.status == "ENABLED":
            new = await queries.UPDATE.one(
                tx, merchant_id=merchant_id, id=old.id, url=old.url, description=old.description,
                types=old.types, status="DISABLED", disabled_reason=PAUSED, now=now,
            )  # fmt: skip
            await _record(tx, actor, "webhooks set", new, _changes(old, new), now)


async def delete(
    tx: Tx, merchant_id: str, endpoint_id: str, now: int, *, actor: Actor = OPENTILL
) -> None:
    """Delete an endpoint: nothing is sent there any more. Raises NotFound.

    Its row stays, unseen by the API, until the worker has removed its deliveries.
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
    """Give an endpoint a new secret; the one before goes on signing for 24 hours. Raises NotFound.

    Older ones go on for the rest of their 24 hours. Secrets that cannot be decrypted, because the
    deployment's key has changed, stop at once.
    """
    old = await _lock(tx, merchant_id, endpoint_id)
    own, secret = purpose(merchant_id, endpoint_id), signing.new_secret()
    until, old_secrets = now + OVERLAP_MS, list[OldSecret]()
    try:
        old_secrets = [OldSecret(decrypt(secret_key, own, old.secret), until)]
        if old.old_secret is not None:
            old_secrets += decrypt_old(secret_key, own, old.old_secret, now)
    except WrongKey:
        until = until if old_secrets else now
    new = await queries.ROTATE.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        secret=encrypt(secret_key, own, secret),
        old_secret_until=until,
        old_secret=encrypt_old(secret_key, own, old_secrets[:_MOST_OLD]),
        now=now,
    )
    await _record(tx, actor, "webhooks rotate", new, "", now)
    return new, secret


async def reveal(
    tx: Tx, merchant_id: str, endpoint_id: str, secret_key: str, now: int, *, actor: Actor
) -> str:
    """Return an endpoint's secret; that it was looked at is audited. Raises NotFound and WrongKey.

    WrongKey: the deployment's key has changed since; only a new secret helps.
    """
    endpoint = await find(tx, merchant_id, endpoint_id)
    secret = decrypt(secret_key, purpose(merchant_id, endpoint_id), endpoint.secret)
    await _record(tx, actor, "webhooks reveal", endpoint, "", now)
    return secret


async def deliveries(
    tx: Tx, endpoint: Endpoint, status: str | None, limit: int
) -> list[tuple[Delivery, list[DeliveryAttempt]]]:
    """Return an endpoint's latest deliveries, newest first, each with its newest attempts."""
    merchant_id, endpoint_id = endpoint.merchant_id, endpoint.id
    found = await queries.DELIVERIES.all(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, status=status, type=None,
        event_id=None, limit=limit, offset=0,
    )  # fmt: skip
    ids = [one.event_id for one in found]
    attempts = await attempts_of(tx, merchant_id, endpoint_id, ids)
    return [(one, attempts.get(one.event_id, [])) for one in found]


async def disabled(tx: Tx, limit: int) -> list[Endpoint]:
    """Return the endpoints of all merchants that are disabled, the last first."""
    return await queries.DISABLED.all(tx, limit=limit)


async def search(tx: Tx, merchant_id: str | None, limit: int = 500) -> list[Endpoint]:
    """Return endpoints of one merchant or all, newest first."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, limit=limit)
