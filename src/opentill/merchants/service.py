"""What can be done with merchants and keys."""

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
from opentill.merchants.operator_actions import words
from opentill.server.client_address import limit_subject

# How long to wait for a connection. Every request begins with authentication, so that a database
# that hangs is noticed here.
_PATIENCE_S: Final = 1.8
LONGEST_NAME: Final = 100  # of a key


async def find(tx: Tx, merchant_id: str) -> Merchant:
    """Return a merchant. Raises NotFound."""
    found = await queries.BY_ID.first(tx, merchant_id=merchant_id)
    return or_not_found(found, f"there is no merchant {merchant_id}")


async def lock(tx: Tx, merchant_id: str) -> None:
    """Lock a merchant until the end of ``tx``, which no payment waits for. Raises NotFound."""
    locked = await queries.LOCK.get(tx, merchant_id=merchant_id)
    or_not_found(locked, f"there is no merchant {merchant_id}")


async def all_merchants(tx: Tx, status: Status | None = None) -> list[Merchant]:
    """Return all merchants, or those of a status, oldest first."""
    return await queries.ALL.all(tx, status=status)


async def search(
    tx: Tx, text: str, page: int, size: int, status: Status | None = None
) -> tuple[list[Merchant], int]:
    """Return a page of the merchants with a text in their name or as their id, and how many.

    The newest come first; "" finds all, of any status or of one. There are thousands of merchants,
    not millions: they are read through.
    """
    found = {"text": text, "like": like(text), "status": status}
    rows = await queries.SEARCH.all(tx, **found, limit=size, offset=(page - 1) * size)
    return rows, await queries.COUNT_FOUND.get(tx, **found) or 0


async def names(tx: Tx, ids: Iterable[str]) -> dict[str, str]:
    """Return what merchants are called, by their ids."""
    found = await queries.NAMES.all(tx, ids=sorted(set(ids)))
    return {one.id: one.name for one in found}


async def settlement_currencies(tx: Tx) -> list[str]:
    """Return the currencies in which merchants are paid, each once, in no order."""
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
    """Make a key, of which only the digest is stored.

    Which scopes there are, and who may give them, ``people.key_scopes`` has checked. Raises
    NotFound, and Invalid on ``expiresAt`` and ``name``.
    """
    fields = fields or KeyFields()
    new = NewKey(
        id=new_id("key"),
        merchant_id=merchant_id,
        name=words("name", fields.name, LONGEST_NAME) if fields.name.strip() else "",
        key=model.make_key(environment),
        expires_at=fields.expires_at,
        scopes=fields.scopes,
    )
    await _create_key(tx, new, environment, actor, now)
    until = "" if new.expires_at is None else f", until {format_utc(new.expires_at)}"
    named = f", named {new.name}" if new.name else ""
    only = "" if new.scopes is None else f", for {' '.join(new.scopes)}"
    subject = f"{new.id} {model.hint(new.key)}{until}{named}{only}"
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
    """Revoke a key: requests that start after the commit get 401. Raises NotFound."""
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
    """Give a key of a merchant another name, "" for none. The same name again is no change.

    Raises NotFound, and Invalid on ``name``.
    """
    kept = words("name", name, LONGEST_NAME) if name.strip() else ""
    found = (key for key in await keys(tx, merchant_id) if key.id == key_id)
    old = or_not_found(next(found, None))
    if old.name == kept:
        return old
    new = await queries.RENAME_KEY.one(tx, merchant_id=merchant_id, id=key_id, name=kept)
    subject = f"{new.id} {new.hint}: {old.name or 'no name'} → {kept or 'no name'}"
    await audit.record(tx, actor, "keys rename", merchant_id, subject, now)
    return new


async def regenerate_key(tx: Tx, key_id: str, now: int, *, actor: Actor = OPENTILL) -> NewKey:
    """Replace a key by a new one at once, with the same name, scopes and expiry.

    Whoever replaces it has seen the new key, and counts as its maker.

    Raises NotFound, Invalid.
    """
    old = await _revoke_key(tx, key_id, now)
    if old.expires_at is not None and old.expires_at <= now:
        raise Invalid("key", "key must not be expired: create a new one instead")
    new = NewKey(
        id=new_id("key"),
        merchant_id=old.merchant_id,
        name=old.name,
        key=model.make_key(old.environment),
        expires_at=old.expires_at,
        scopes=old.scopes,
    )
    await _create_key(tx, new, old.environment, actor, now)
    subject = f"{old.id} {old.hint} becomes {new.id} {model.hint(new.key)}"
    await audit.record(tx, actor, "keys regenerate", old.merchant_id, subject, now)
    return new


async def keys(tx: Tx, merchant_id: str) -> list[Key]:
    """Return a merchant's keys, oldest first."""
    return await queries.KEYS.all(tx, merchant_id=merchant_id)


async def keys_made_by(tx: Tx, person_id: str) -> list[Key]:
    """Return the keys that a person made, of whichever merchant, oldest first."""
    return await queries.KEYS_MADE_BY.all(tx, made_by=person_id)


async def merchant_of_key(tx: Tx, key_id: str) -> str:
    """Return whose a key is, by the key's id. Raises NotFound."""
    found = await queries.OF_KEY.get(tx, id=key_id)
    return or_not_found(found, f"there is no key {key_id}")


def _inside(address: str, networks: list[str]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:  # no address at all, such as a local socket's
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return any(parsed in ip_network(network) for network in networks)


def may_call(address: str, allowlist: list[str] | None) -> bool:
    """Return whether a merchant's allowlist permits requests from an address."""
    return not allowlist or _inside(address, allowlist)


async def authenticate(
    db: Db, settings: Settings, key: str | None, address: str, now: int
) -> Caller | None:
    """Count a request against its address and return the caller, None if unknown.

    Raises TooManyRequests. Failed authentications count like everything else.
    """
    valid = key is not None and model.is_key(key, settings.environment)
    digest = model.digest(key) if key is not None and valid else b""
    limit = settings.limit_ip_per_minute
    if not limit and not valid:
        return None
    async with db.connection(_PATIENCE_S) as tx:
        if limit:
            subject = limit_subject(address)
            found = await queries.AUTHENTICATE_LIMITED.first(
                tx, scope="ip", subject=subject, limit=limit, now=now, key_sha256=digest
            )
            if found is None or not found.allowed:
                wait = await rate_limits.retry_after_s(tx, "ip", subject, now)
                raise TooManyRequests(limit, wait)
        else:
            found = await queries.AUTHENTICATE.first(tx, key_sha256=digest, now=now)
    if found is None or found.merchant_id is None or found.environment != settings.environment:
        return None
    if not may_call(address, found.ip_allowlist):
        return None
    scopes = None if found.scopes is None else frozenset(found.scopes)
    return Caller(found.merchant_id, found.key_id or "", scopes)
