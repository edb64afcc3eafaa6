"""Scopes of API keys, and who may give them."""

import contextlib
import difflib
from collections.abc import Iterable, Sequence

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, NotPermitted, or_not_found
from opentill.core.settings import Environment
from opentill.db.database import Tx
from opentill.merchants import Actor, Key, KeyFields, NewKey
from opentill.people import queries
from opentill.people.permissions import SCOPES, MerchantRole, member_may, member_may_give


def read(scopes: Iterable[str], field: str = "scopes") -> list[str]:
    """Return unique scopes in the table's order. Raises Invalid for unknown ones or none."""
    chosen = {scope.strip() for scope in scopes}
    for scope in sorted(chosen):
        if scope not in SCOPES:
            near = difflib.get_close_matches(scope, SCOPES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Invalid(field, f"{field} must be some of {', '.join(SCOPES)}{hint}")
    if not chosen:
        raise Invalid(field, f"{field} must be at least one of {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in chosen]


def grantable_scopes(role: MerchantRole) -> list[str]:
    """Return the scopes that a member with this role may give."""
    return [scope for scope in SCOPES if member_may_give(role, scope)]


def read_scopes(role: MerchantRole) -> list[str]:
    """Return the scopes that a member with this role may give and that only read."""
    return [scope for scope in grantable_scopes(role) if scope.endswith(":read")]


def reads_all(scopes: Sequence[str] | None) -> bool:
    """Whether a key with these scopes may read everything and change nothing."""
    return set(scopes or ()) == {scope for scope in SCOPES if scope.endswith(":read")}


def may_give(role: MerchantRole, scopes: Sequence[str] | None) -> bool:
    """Whether a role may create, change or replace a key with these scopes.

    Only an owner may give an unrestricted key (None).
    """
    if scopes is None:
        return role == "owner"
    return all(member_may_give(role, scope) for scope in scopes)


def check(role: MerchantRole | None, scopes: Sequence[str] | None) -> None:
    """Raise NotPermitted unless a role may create, change or replace a key with these scopes."""
    if role is not None and may_give(role, scopes):
        return
    listed = "" if role is None else ", ".join(grantable_scopes(role))
    reason = f"scopes must be within your own role, {role}: some of {listed}"
    raise NotPermitted("scopes", reason)


async def create_key(
    tx: Tx,
    merchant_id: str,
    environment: Environment,
    now: int,
    fields: KeyFields,
    *,
    actor: Actor,
) -> NewKey:
    """Create a key whose scopes are within the role of the member who creates it.

    Raises NotPermitted, also for a role that was lowered since the request was admitted.
    """
    check(await _lock_role(tx, merchant_id, actor), fields.scopes)
    return await merchants.create_key(tx, merchant_id, environment, now, fields, actor=actor)


async def regenerate_key(
    tx: Tx, merchant_id: str, key_id: str, now: int, *, overlap_hours: int = 0, actor: Actor
) -> NewKey:
    """Replace a merchant's key, as a member whose role may do what the key may.

    The old key ends after ``overlap_hours``, one of ``merchants.OVERLAP_HOURS``.

    Raises NotFound, Invalid and NotPermitted.
    """
    role = await _lock_role(tx, merchant_id, actor)
    key = await find_changeable(tx, merchant_id, key_id, role)
    return await merchants.regenerate_key(tx, key.id, now, overlap_hours=overlap_hours, actor=actor)


async def _lock_role(tx: Tx, merchant_id: str, actor: Actor) -> MerchantRole:
    """Lock the merchant, so that no role changes, and return the role of the acting member.

    Raises NotPermitted if the person is no longer a member who manages keys.
    """
    await merchants.lock(tx, merchant_id)
    member = await queries.MEMBER.first(tx, merchant_id=merchant_id, person_id=actor.person_id)
    if member is None or not member_may(member.role, "keys.manage"):
        raise NotPermitted
    return member.role


async def find_changeable(tx: Tx, merchant_id: str, key_id: str, role: MerchantRole | None) -> Key:
    """Return a merchant's key that a role may change or replace.

    Raises NotFound, and NotPermitted for a key that may do more than the role.
    """
    listed = await merchants.keys(tx, merchant_id)
    key = or_not_found(next((key for key in listed if key.id == key_id), None))
    check(role, key.scopes)
    return key


async def keys_made_by(
    tx: Tx, person_id: str, now: int, merchant_id: str | None = None
) -> list[Key]:
    """Return the valid keys that a person created at a merchant, or at all, oldest first."""
    listed = await merchants.keys_made_by(tx, person_id)
    return [key for key in listed if key.opens(now) and merchant_id in {None, key.merchant_id}]


async def revoke_keys_made_by(
    tx: Tx, person_id: str, now: int, merchant_id: str | None = None, *, actor: Actor
) -> list[Key]:
    """Revoke the valid keys that a person created at a merchant, or at all; return them."""
    keys = await keys_made_by(tx, person_id, now, merchant_id)
    await revoke(tx, keys, now, actor=actor)
    return keys


async def revoke(tx: Tx, keys: Iterable[Key], now: int, *, actor: Actor) -> None:
    """Revoke keys. Skips a key that somebody else has revoked since it was read."""
    for key in keys:
        with contextlib.suppress(NotFound):
            await merchants.revoke_key(tx, key.id, now, actor=actor)


def _is_raise(old: MerchantRole, new: MerchantRole) -> bool:
    """Whether the new role may give every scope that the old one may."""
    return set(grantable_scopes(old)) <= set(grantable_scopes(new))


async def keys_beyond_role(
    tx: Tx, merchant_id: str, person_id: str, role: MerchantRole, now: int
) -> list[Key]:
    """Return a member's valid keys that may do more than their new role, oldest first.

    There are none if the new role is the same or a higher one.
    """
    member = await queries.MEMBER.first(tx, merchant_id=merchant_id, person_id=person_id)
    if member is None or _is_raise(member.role, role):
        return []
    keys = await keys_made_by(tx, person_id, now, merchant_id)
    return [key for key in keys if not may_give(role, key.scopes)]
