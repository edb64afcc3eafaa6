"""Creating, changing and deleting endpoints, and rotating their secrets."""

from collections.abc import Callable, Iterable, Sequence
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
from opentill.outgoing.addresses import Forbidden, ForbiddenPort
from opentill.webhooks import queries, signing
from opentill.webhooks.delivery_log import attempts_of
from opentill.webhooks.endpoint_secrets import OldSecret, decrypt_old, encrypt_old, purpose
from opentill.webhooks.event_types import TYPES
from opentill.webhooks.model import (
    Delivery,
    DeliveryAttempt,
    Endpoint,
    EndpointActivity,
    Status,
)

MAX_ENDPOINTS: Final = 16
OVERLAP_MS: Final = 24 * 3_600_000  # an old secret is used to sign for this time after a rotation
REASON_SWITCHED_OFF: Final = "switched off"
_MAX_OLD_SECRETS: Final = 4
_MAX_DESCRIPTION: Final = 255
_RECENT: Final = 100  # deliveries of an endpoint from which its error rate is computed
_log: Final = structlog.get_logger()


class EndpointFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of an endpoint to set; UNSET ones are not changed."""

    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    types: Sequence[str] | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    # ``updated_at`` of the version that the caller has seen and changes; None: any version.
    seen_at: int | None = None


class Stale(Invalid):
    """The endpoint has changed since the caller read it."""


class UrlCheck:
    """Checks whether a URL may be an endpoint: its syntax, then the deployment's address policy."""

    def __init__(self, check: Callable[[str], None]) -> None:
        """``check`` raises Forbidden for a URL that the address policy refuses."""
        self._check = check

    def __call__(self, url: str) -> str:
        """Return the URL with its host in ASCII. Raises Invalid for ``url``."""
        inputs.check_url("url", url)
        url = hostnames.with_ascii_host(url)
        if "#" in url:
            raise Invalid("url", "url must be without a fragment")
        try:
            self._check(url)
        except ForbiddenPort as refusal:
            reason = f"url must have a port of web servers, such as 443 or 8443: {refusal}"
            raise Invalid("url", reason) from None
        except Forbidden as refusal:
            raise Invalid("url", f"url must be a public https address: {refusal}") from None
        return url


async def create(
    tx: Tx,
    merchant_id: str,
    fields: EndpointFields,
    check_url: UrlCheck,
    secret_key: str,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> tuple[Endpoint, str]:
    """Create an endpoint; return it and its secret, which is shown only once. Raises Invalid."""
    if fields.url is UNSET:
        raise Invalid("url", "url is required: where events are to be sent")
    await _lock_open(tx, merchant_id)
    if (await queries.COUNT_ENDPOINTS.get(tx, merchant_id=merchant_id) or 0) >= MAX_ENDPOINTS:
        reason = f"url must be one of at most {MAX_ENDPOINTS} endpoints: delete another first"
        raise Invalid("url", reason)
    endpoint_id, secret = new_id("whe"), signing.new_secret()
    endpoint = await queries.INSERT_ENDPOINT.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=check_url(fields.url),
        description=check_description("" if fields.description is UNSET else fields.description),
        types=_types([] if fields.types is UNSET else fields.types),
        secret=encrypt(secret_key, purpose(merchant_id, endpoint_id), secret),
        now=now,
    )
    await _record(tx, actor, "webhooks add", endpoint, _site(endpoint.url), now)
    return endpoint, secret


async def _lock_open(tx: Tx, merchant_id: str) -> None:
    """Lock a merchant. Raises NotFound, and Invalid if it is CLOSED."""
    await merchants.lock(tx, merchant_id)
    if (await merchants.find(tx, merchant_id)).status == "CLOSED":
        raise Invalid("merchant", "merchant must not be CLOSED: nothing is sent to it any more")


async def _record(
    tx: Tx, actor: Actor, action: str, endpoint: Endpoint, detail: str, now: int
) -> None:
    subject = f"{endpoint.id} {detail}".strip()
    await merchants.record_audit(tx, actor, action, endpoint.merchant_id, subject, now)


def _site(url: str) -> str:
    """Return scheme and host of a URL; its path and query may contain the receiver's secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _changes(old: Endpoint, new: Endpoint) -> str:
    """Describe the changed fields for the audit log."""
    changes = {
        f"url {_site(new.url)}": old.url != new.url,
        "description": old.description != new.description,
        f"events {' '.join(new.types) or 'all'}": old.types != new.types,
        f"status {new.status}": old.status != new.status,
    }
    return ", ".join(text for text, is_changed in changes.items() if is_changed)


def check_description(text: str) -> str:
    """Return an endpoint's description without spaces around it. Raises Invalid."""
    if len(text) > _MAX_DESCRIPTION:
        reason = f"description must be text of at most {_MAX_DESCRIPTION} characters"
        raise Invalid("description", reason)
    return text.strip()


def _types(names: Sequence[str]) -> list[str]:
    """Return the named types in the order of TYPES, each once. No names: none, which means all."""
    if unknown := [name for name in names if name not in TYPES]:
        first = unknown[0][:64]
        raise Invalid("events", f"events must be some of {', '.join(TYPES)}, not {first}")
    return [name for name in TYPES if name in names]


async def find(tx: Tx, merchant_id: str, endpoint_id: str) -> Endpoint:
    """Return an endpoint. Raises NotFound."""
    endpoint = await queries.ENDPOINT.first(tx, merchant_id=merchant_id, id=endpoint_id)
    if endpoint is None:
        raise NotFound
    return endpoint


async def find_anywhere(tx: Tx, endpoint_id: str) -> Endpoint:
    """Return an endpoint of any merchant for the operator. Raises NotFound."""
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
    fields: EndpointFields,
    check_url: UrlCheck,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> Endpoint:
    """Set the given fields. Raises NotFound and Invalid.

    Raises Stale if the endpoint changed after ``seen_at`` and the fields would still change it.
    A DISABLED endpoint gets no new deliveries, and its pending ones stay pending. They are sent
    when it is ENABLED again, which restarts the period of five days.
    """
    if fields.status == "ENABLED":
        # Lock the merchant before the endpoint, as closing a merchant does.
        await _lock_open(tx, merchant_id)
    old = await _lock(tx, merchant_id, endpoint_id)
    status = old.status if fields.status is UNSET else fields.status
    if status == "DELETED":
        raise Invalid("status", "status must be ENABLED or DISABLED")
    reason = old.disabled_reason if status == old.status else REASON_SWITCHED_OFF
    new = await queries.UPDATE.one(
        tx,
        merchant_id=merchant_id,
        id=endpoint_id,
        url=old.url if fields.url is UNSET else check_url(fields.url),
        description=old.description
        if fields.description is UNSET
        else check_description(fields.description),
        types=old.types if fields.types is UNSET else _types(fields.types),
        status=status,
        disabled_reason=reason if status == "DISABLED" else "",
        now=now,
    )
    if status == "ENABLED" and old.status != "ENABLED":
        await queries.CLEAR_FAILING.run(tx, merchant_id=merchant_id, endpoint_id=endpoint_id)
    if changes := _changes(old, new):
        if fields.seen_at not in {None, old.updated_at}:
            raise Stale("seenAt", "seenAt must be the updatedAt of the endpoint as it is now")
        await _record(tx, actor, "webhooks set", new, changes, now)
    return new


async def disable_all(tx: Tx, merchant_id: str, now: int, *, actor: Actor = OPENTILL) -> None:
    """Disable all endpoints of a merchant."""
    for listed in await search(tx, merchant_id):
        old = await _lock(tx, merchant_id, listed.id)
        if old.status == "ENABLED":
            new = await queries.UPDATE.one(
                tx, merchant_id=merchant_id, id=old.id, url=old.url, description=old.description,
                types=old.types, status="DISABLED", disabled_reason=REASON_SWITCHED_OFF, now=now,
            )  # fmt: skip
            await _record(tx, actor, "webhooks set", new, _changes(old, new), now)


async def delete(
    tx: Tx, merchant_id: str, endpoint_id: str, now: int, *, actor: Actor = OPENTILL
) -> None:
    """Delete an endpoint, so that nothing is sent to it. Raises NotFound.

    Its row stays, hidden from the API, until the worker has pruned its deliveries.
    """
    old = await _lock(tx, merchant_id, endpoint_id)
    await queries.UPDATE.one(
        tx, merchant_id=merchant_id, id=endpoint_id, url=old.url, description=old.description,
        types=old.types, status="DELETED", disabled_reason="", now=now,
    )  # fmt: skip
    await _record(tx, actor, "webhooks remove", old, _site(old.url), now)


async def rotate_secret(
    tx: Tx,
    merchant_id: str,
    endpoint_id: str,
    secret_key: str,
    now: int,
    *,
    actor: Actor = OPENTILL,
) -> tuple[Endpoint, str]:
    """Replace the secret of an endpoint; the old one also signs for 24 hours. Raises NotFound.

    Secrets replaced earlier sign for the rest of their 24 hours. Secrets that cannot be decrypted,
    because the deployment's key has changed, stop signing at once.
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
        old_secret=encrypt_old(secret_key, own, old_secrets[:_MAX_OLD_SECRETS]),
        now=now,
    )
    await _record(tx, actor, "webhooks rotate", new, "", now)
    return new, secret


async def reveal_secret(
    tx: Tx, merchant_id: str, endpoint_id: str, secret_key: str, now: int, *, actor: Actor
) -> str:
    """Return the secret of an endpoint and audit the access. Raises NotFound and WrongKey.

    After WrongKey the secret is lost, because the deployment's key has changed: rotate it.
    """
    endpoint = await find(tx, merchant_id, endpoint_id)
    secret = decrypt(secret_key, purpose(merchant_id, endpoint_id), endpoint.secret)
    await _record(tx, actor, "webhooks reveal", endpoint, "", now)
    return secret


async def list_latest_deliveries(
    tx: Tx, endpoint: Endpoint, status: str | None, limit: int
) -> list[tuple[Delivery, list[DeliveryAttempt]]]:
    """Return an endpoint's latest deliveries, newest first, each with its newest attempts."""
    merchant_id, endpoint_id = endpoint.merchant_id, endpoint.id
    rows = await queries.DELIVERIES.all(
        tx, merchant_id=merchant_id, endpoint_id=endpoint_id, status=status, type=None,
        event_id=None, limit=limit, offset=0,
    )  # fmt: skip
    ids = [one.event_id for one in rows]
    attempts = await attempts_of(tx, merchant_id, endpoint_id, ids)
    return [(one, attempts.get(one.event_id, [])) for one in rows]


async def find_activity(tx: Tx, merchant_id: str) -> dict[str, EndpointActivity]:
    """Return the recent activity of each endpoint that has deliveries, by the endpoint's id."""
    rows = await queries.ACTIVITY.all(tx, merchant_id=merchant_id, newest=_RECENT)
    return {row.endpoint_id: row for row in rows}


async def count_failing(tx: Tx, merchant_id: str, endpoints: Sequence[Endpoint]) -> int:
    """Return how many of a merchant's endpoints are enabled and fail."""
    enabled_ids = {endpoint.id for endpoint in endpoints if endpoint.status == "ENABLED"}
    if not enabled_ids:
        return 0
    activity = await find_activity(tx, merchant_id)
    return sum(
        one.is_failing for endpoint_id, one in activity.items() if endpoint_id in enabled_ids
    )


async def list_disabled(tx: Tx, limit: int) -> list[Endpoint]:
    """Return the disabled endpoints of all merchants, most recently changed first."""
    return await queries.DISABLED.all(tx, limit=limit)


def matching(endpoints: Iterable[Endpoint], text: str) -> list[Endpoint]:
    """Return the endpoints with a text in their URLs or descriptions, or as their id."""
    lowered = text.lower()
    return [
        endpoint
        for endpoint in endpoints
        if lowered in f"{endpoint.url}\n{endpoint.description}".lower() or endpoint.id == text
    ]


async def search(tx: Tx, merchant_id: str | None, limit: int = 500) -> list[Endpoint]:
    """Return the endpoints of one merchant, or of all, newest first."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, limit=limit)
