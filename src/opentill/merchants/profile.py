"""The profile: what customers see of a merchant, and the zone of the merchant's own pages.

Whoever changes it says which version they have seen, so that two people do not undo each other's
work unseen. Every change is in the audit log with the value before.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from opentill.core import settingvalues
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.merchants import audit, logos, queries
from opentill.merchants.audit import Actor
from opentill.merchants.model import Logo, Merchant, Profile

MAX_DISPLAY_NAME: Final = 80
_UNPRINTABLE: Final = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")
_COLOR: Final = re.compile("#?([0-9a-f]{6})", re.ASCII | re.IGNORECASE)


class Stale(Invalid):
    """Somebody else has changed the profile since the version that was seen."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("version", "version must be that of the profile now: read it again")


def _name(field: str, text: str) -> str:
    if _UNPRINTABLE.search(text):
        raise Invalid(field, f"{field} must be text without control characters")
    return inputs.check_name(field, text, MAX_DISPLAY_NAME)


def _color(field: str, text: str) -> str:
    found = _COLOR.fullmatch(text)
    if found is None:
        raise Invalid(field, f"{field} must be a colour of six hexadecimal digits such as #0d5c49")
    return f"#{found[1].lower()}"


def _address(field: str, text: str) -> str:
    if "{" in text:
        raise Invalid(field, f"{field} must be an address without braces")
    return inputs.check_url(field, text) or ""


def _zone(field: str, text: str) -> str:
    try:
        return settingvalues.time_zone(text)
    except ValueError as error:
        raise Invalid(field, f"{field} must be {error}") from None


# Each field with its name in the API, and the check of what is not empty.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "display_name": ("displayName", _name),
    "accent_color": ("accentColor", _color),
    "support_email": ("supportEmail", inputs.check_email),
    "support_url": ("supportUrl", _address),
    "terms_url": ("termsUrl", _address),
    "time_zone": ("timeZone", _zone),
}
PROFILE_FIELDS: Final = tuple(_FIELDS)


def checked(field: str, text: str | None) -> str | None:
    """Return a field's value as it is kept: trimmed, None if it is empty.

    Raises Invalid, with the field's name in the API.
    """
    name, check = _FIELDS[field]
    trimmed = (text or "").strip()
    if not trimmed and field != "time_zone":
        return None
    return check(name, trimmed)


def version_of(merchant: Merchant) -> str:
    """Return what names the values of a profile: another value, another version."""
    values = [getattr(merchant, field) for field in PROFILE_FIELDS]
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()[:16]


async def change(
    tx: Tx,
    merchant_id: str,
    changes: Mapping[str, str | None],
    now: int,
    *,
    actor: Actor,
    version: str | None = None,
) -> Merchant:
    """Change the given fields of a profile; ``version`` is the one that was seen, None for any.

    What is so already is no change, so that doing it twice is harmless. Raises Invalid, Stale and
    NotFound.
    """
    values = {field: checked(field, text) for field, text in changes.items()}
    old = await _locked(tx, merchant_id)
    changed = [field for field, value in values.items() if getattr(old, field) != value]
    if not changed:
        return old
    if version is not None and version != version_of(old):
        raise Stale
    new = msgspec.structs.replace(old, **values, updated_at=now)
    kept = Profile(**{field: getattr(new, field) for field in PROFILE_FIELDS})
    await queries.SET_PROFILE.run(tx, kept, merchant_id=merchant_id, updated_at=now)
    subject = ", ".join(
        f"{_FIELDS[field][0]}: {getattr(old, field) or 'none'} → {values[field] or 'none'}"
        for field in changed
    )
    await audit.record(tx, actor, "profile set", merchant_id, subject, now)
    return new


async def set_logo(
    tx: Tx, merchant_id: str, content: bytes, now: int, *, actor: Actor, seen: str | None
) -> None:
    """Show this picture; ``seen`` is the digest of the logo until now, "" for none, None for any.

    Raises ``logos.LogoRefused``, Stale and NotFound.
    """
    picture, digest = logos.read(content), hashlib.sha256(content).hexdigest()
    old = await _locked(tx, merchant_id)
    if old.logo_sha256 == digest:
        return
    if seen is not None and (old.logo_sha256 or "") != seen:
        raise Stale
    logo = Logo(
        merchant_id=merchant_id,
        sha256=digest,
        media_type=picture.media_type,
        width=picture.width,
        height=picture.height,
        content=content,
        created_at=now,
    )
    await queries.KEEP_LOGO.run(tx, logo)
    await queries.SET_LOGO.run(tx, merchant_id=merchant_id, logo_sha256=digest, updated_at=now)
    subject = f"{digest} {logo.media_type}, {logo.width} × {logo.height}"
    await audit.record(tx, actor, "profile logo", merchant_id, subject, now)


async def remove_logo(
    tx: Tx, merchant_id: str, now: int, *, actor: Actor, seen: str | None
) -> None:
    """Show no picture any more; as ``set_logo``."""
    old = await _locked(tx, merchant_id)
    if old.logo_sha256 is None:
        return
    if seen is not None and old.logo_sha256 != seen:
        raise Stale
    await queries.DROP_LOGO.run(tx, merchant_id=merchant_id)
    await queries.SET_LOGO.run(tx, merchant_id=merchant_id, logo_sha256=None, updated_at=now)
    await audit.record(tx, actor, "profile logo", merchant_id, f"{old.logo_sha256} removed", now)


async def find_logo(tx: Tx, merchant_id: str, digest: str) -> Logo:
    """Return a merchant's logo. Raises NotFound for one that is not shown any more."""
    return or_not_found(await queries.LOGO.first(tx, merchant_id=merchant_id, sha256=digest))


async def _locked(tx: Tx, merchant_id: str) -> Merchant:
    found = await queries.LOCKED.first(tx, merchant_id=merchant_id)
    return or_not_found(found, f"there is no merchant {merchant_id}")
