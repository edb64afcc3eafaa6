"""Finding merchants, managing API keys, and authentication."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from opentill.core.errors import Invalid, NotFound, TooManyRequests, or_not_found
from opentill.core.ids import new_id
from opentill.core.settings import Environment, Settings
from opentill.db import rate_limits
from opentill.db.database import Db, Tx
from opentill.db.query import like
from opentill.http.caller import Caller
from opentill.http.csvfile import format_utc
from opentill.merchants import audit, model, queries
from opentill.merchants.audit import OPENTILL, Actor
from opentill.merchants.model import Key, KeyFields, Merchant, NewKey, Status
from opentill.merchants.operator_actions import check_text
from opentill.server.client_address import limit_subject

# Authentication waits at most this long for a connection. Every request is authenticated first, so
# that a hanging database is detected here.
_CONNECTION_TIMEOUT_S: Final = 1.8
_HOUR_MS: Final = 3_600_000
LONGEST_NAME: Final = 100  # a key's name has at most this many characters


async def find(tx: Tx, merchant_id: str) -> Merchant:
    """Return a merchant. Raises NotFound."""
    merchant = await queries.BY_ID.first(tx, merchant_id=merchant_id)
    return or_not_found(merchant, f"there is no merchant {merchant_id}")


async def lock(tx: Tx, merchant_id: str) -> None:
    """Lock a merchant until the end of ``tx``, without blocking payments. Raises NotFound."""
    locked = await queries.LOCK.get(tx, merchant_id=merchant_id)
    or_not_found(locked, f"there is no merchant {merchant_id}")


async def all_merchants(tx: Tx, status: Status | None = None) -> list[Merchant]:
    """Return all merchants, or those of a status, oldest first."""
    return await queries.ALL.all(tx, status=status)


async def search(
    tx: Tx, text: str, page: int, size: int, status: Status | None = None
) -> tuple[list[Merchant], int]:
    """Return a page of merchants with a text in their names or as their id, and their number.

    The newest come first; "" matches all. There are thousands of merchants and not millions, so a
    sequential scan suffices.
    """
    filters = {"text": text, "like": like(text), "status": status}
    rows = await queries.SEARCH.all(tx, **filters, limit=size, offset=(page - 1) * size)
    return rows, await queries.COUNT_FOUND.get(tx, **filters) or 0


async def ids_by_name(tx: Tx, name: str) -> list[str]:
    """Return the ids of the merchants with this name or display name, in upper or lower case."""
    rows = await queries.BY_NAME.all(tx, name=name)
    return [row.id for row in rows]


async def all_names(tx: Tx) -> dict[str, str]:
    """Return the names of all merchants by id."""
    return {row.id: row.name for row in await queries.ALL_NAMES.all(tx)}


async def names(tx: Tx, ids: Iterable[str]) -> dict[str, str]:
    """Return merchants' names by id."""
    rows = await queries.NAMES.all(tx, ids=sorted(set(ids)))
    return {row.id: row.name for row in rows}


async def settlement_currencies(tx: Tx) -> list[str]:
    """Return the settlement currencies of all merchants, in no particular order."""
    return [row.currency for row in await queries.SETTLEMENT_CURRENCIES.all(tx)]


async def create_key(
    tx: Tx,
    merchant_id: str,
    environment: Environment,
    now: int,
    fields: KeyFields | None = None,
    *,
    actor: Actor = OPENTILL,
) -> NewKey:
    """Create a key; only its digest is stored.

    ``people.key_scopes`` must have checked the scopes. Raises NotFound, and Invalid on
    ``expiresAt`` and ``name``.
    """
    fields = fields or KeyFields()
    new = NewKey(
        id=new_id("key"),
        merchant_id=merchant_id,
        name=check_text("name", fields.name, LONGEST_NAME) if fields.name.strip() else "",
        key=model.generate_key(environment),
        expires_at=fields.expires_at,
        scopes=fields.scopes,
    )
    await _create_key(tx, new, environment, actor, now)
    until = "" if new.expires_at is None else f", until {format_utc(new.expires_at)}"
    label = f", named {new.name}" if new.name else ""
    scopes = "" if new.scopes is None else f", for {' '.join(new.scopes)}"
    subject = f"{new.id} {model.hint(new.key)}{until}{label}{scopes}"
    await audit.record(tx, actor, "keys create", merchant_id, subject, now)
    return new


async def _create_key(
    tx: Tx, new: NewKey, environment: Environment, actor: Actor, now: int
) -> None:
    if not await queries.EXISTS.get(tx, merchant_id=new.merchant_id):
        raise NotFound(reason=f"there is no merchant {new.merchant_id}")
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("expiresAt", "expiresAt must be in the future")
    await queries.INSERT_KEY.run(
        tx,
        id=new.id,
        merchant_id=new.merchant_id,
        key_sha256=model.digest(new.key),
        name=new.name,
        hint=model.hint(new.key),
        environment=environment,
        now=now,
        expires_at=new.expires_at,
        scopes=new.scopes,
        made_by=actor.person_id,
    )


async def revoke_key(tx: Tx, key_id: str, now: int, *, actor: Actor = OPENTILL) -> Key:
    """Revoke a key; requests that start after the commit get 401. Raises NotFound."""
    key = await _revoke_key(tx, key_id, now)
    subject = f"{key.id} {key.hint}"
    await audit.record(tx, actor, "keys revoke", key.merchant_id, subject, now)
    return key


async def _revoke_key(tx: Tx, key_id: str, now: int) -> Key:
    revoked = await queries.REVOKE_KEY.first(tx, id=key_id, now=now)
    return or_not_found(revoked, f"there is no valid key {key_id}")


async def rename_key(
    tx: Tx, merchant_id: str, key_id: str, name: str, now: int, *, actor: Actor = OPENTILL
) -> Key:
    """Rename a merchant's key, "" for no name. An equal name changes nothing.

    Raises NotFound, and Invalid on ``name``.
    """
    new_name = check_text("name", name, LONGEST_NAME) if name.strip() else ""
    matching = (key for key in await keys(tx, merchant_id) if key.id == key_id)
    old = or_not_found(next(matching, None))
    if old.name == new_name:
        return old
    new = await queries.RENAME_KEY.one(tx, merchant_id=merchant_id, id=key_id, name=new_name)
    subject = f"{new.id} {new.hint}: {old.name or 'no name'} → {new_name or 'no name'}"
    await audit.record(tx, actor, "keys rename", merchant_id, subject, now)
    return new


async def regenerate_key(
    tx: Tx, key_id: str, now: int, *, overlap_hours: int = 0, actor: Actor = OPENTILL
) -> NewKey:
    """Create a key with the name, scopes and expiry of a key that ends.

    The old key ends at once, or after ``overlap_hours``, one of OVERLAP_HOURS, unless it expires
    before. The person who replaces the key sees the new one, and counts as its creator.

    Raises NotFound, Invalid.
    """
    if overlap_hours not in model.OVERLAP_HOURS:
        listed = ", ".join(str(hours) for hours in model.OVERLAP_HOURS)
        raise Invalid("overlapHours", f"overlapHours must be one of {listed}")
    old = await queries.LOCKED_KEY.first(tx, id=key_id)
    old = or_not_found(old, f"there is no valid key {key_id}")
    if not old.opens(now):
        raise Invalid("key", "key must not be expired: create a new one instead")
    if old.replaced_by is not None:
        raise Invalid("key", f"key was replaced already: replace {old.replaced_by} instead")
    new = NewKey(
        id=new_id("key"),
        merchant_id=old.merchant_id,
        name=old.name,
        key=model.generate_key(old.environment),
        expires_at=old.expires_at,
        scopes=old.scopes,
    )
    await _create_key(tx, new, old.environment, actor, now)
    end = now + overlap_hours * _HOUR_MS if overlap_hours else None
    await queries.REPLACE_KEY.run(
        tx,
        id=old.id,
        replaced_by=new.id,
        revoked_at=now if end is None else None,
        expires_at=end,
    )
    until = "" if end is None else f", until {format_utc(min(end, old.expires_at or end))}"
    subject = f"{old.id} {old.hint}{until} becomes {new.id} {model.hint(new.key)}"
    await audit.record(tx, actor, "keys regenerate", old.merchant_id, subject, now)
    return new


async def keys(tx: Tx, merchant_id: str) -> list[Key]:
    """Return a merchant's keys, oldest first."""
    return await queries.KEYS.all(tx, merchant_id=merchant_id)


async def keys_made_by(tx: Tx, person_id: str) -> list[Key]:
    """Return the keys that a person created at any merchant, oldest first."""
    return await queries.KEYS_MADE_BY.all(tx, made_by=person_id)


async def merchant_of_key(tx: Tx, key_id: str) -> str:
    """Return the id of a key's merchant. Raises NotFound."""
    merchant_id = await queries.OF_KEY.get(tx, id=key_id)
    return or_not_found(merchant_id, f"there is no key {key_id}")


def _inside(address: str, networks: list[str]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:  # the request came by a Unix socket, for example, and has no IP address
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return any(parsed in ip_network(network) for network in networks)


def may_call(address: str, allowlist: list[str] | None) -> bool:
    """Whether a merchant's allow-list permits requests from an address."""
    return not allowlist or _inside(address, allowlist)


async def authenticate(
    db: Db, settings: Settings, key: str | None, address: str, now: int
) -> Caller | None:
    """Count a request against its address's rate limit, and authenticate it: None if that fails.

    Raises TooManyRequests. Failed authentications count too.
    """
    is_well_formed = key is not None and model.is_key(key, settings.environment)
    digest = model.digest(key) if key is not None and is_well_formed else b""
    limit = settings.limit_ip_per_minute
    if not limit and not is_well_formed:
        return None
    async with db.connection(_CONNECTION_TIMEOUT_S) as tx:
        if limit:
            subject = limit_subject(address)
            authentication = await queries.AUTHENTICATE_LIMITED.first(
                tx, scope="ip", subject=subject, limit=limit, now=now, key_sha256=digest
            )
            if authentication is None or not authentication.allowed:
                wait = await rate_limits.retry_after_s(tx, "ip", subject, now)
                raise TooManyRequests(limit, wait)
        else:
            authentication = await queries.AUTHENTICATE.first(tx, key_sha256=digest, now=now)
    if (
        authentication is None
        or authentication.merchant_id is None
        or authentication.environment != settings.environment
    ):
        return None
    if not may_call(address, authentication.ip_allowlist):
        return None
    scopes = None if authentication.scopes is None else frozenset(authentication.scopes)
    return Caller(authentication.merchant_id, authentication.key_id or "", scopes)
