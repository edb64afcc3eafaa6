"""A merchant's profile: what customers see, the seller on receipts, and the time zone of pages.

Changes name the version that they are based on (optimistic locking), so that two people do not
overwrite each other's changes. The audit log records each change with the previous value. Each
version of the seller's details is kept, because a receipt shows those of the time of the payment.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from opentill.core import money, settingvalues
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.merchants import audit, logos, queries
from opentill.merchants.audit import Actor
from opentill.merchants.model import Logo, Merchant, Profile, Seller

MAX_DISPLAY_NAME: Final = 80
MAX_LEGAL_NAME: Final = 120
MAX_ADDRESS_LINES: Final = 6
MAX_ADDRESS_LINE: Final = 60
MAX_TAX_NUMBER: Final = 40
_UNPRINTABLE: Final = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")
_RATE: Final = re.compile(r"0(?:\.[0-9]{1,5})?", re.ASCII)
_COLOR: Final = re.compile("#?([0-9a-f]{6})", re.ASCII | re.IGNORECASE)


class Stale(Invalid):
    """The profile was changed since the given version."""

    def __init__(self) -> None:
        """The error says what to do."""
        super().__init__("version", "version must be that of the profile now: read it again")


def _name(field: str, text: str, most: int = MAX_DISPLAY_NAME) -> str:
    if _UNPRINTABLE.search(text):
        raise Invalid(field, f"{field} must be text without control characters")
    return inputs.check_name(field, text, most)


def _legal_name(field: str, text: str) -> str:
    return _name(field, text, MAX_LEGAL_NAME)


def _legal_address(field: str, text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    if len(lines) > MAX_ADDRESS_LINES:
        raise Invalid(field, f"{field} must have at most {MAX_ADDRESS_LINES} lines")
    if any(len(line) > MAX_ADDRESS_LINE for line in lines):
        reason = f"{field} must have lines of at most {MAX_ADDRESS_LINE} characters"
        raise Invalid(field, reason)
    address = "\n".join(lines)
    _name(field, address.replace("\n", " "), MAX_ADDRESS_LINES * (MAX_ADDRESS_LINE + 1))
    return address


def _tax_number(field: str, text: str) -> str:
    return _name(field, text, MAX_TAX_NUMBER)


def _tax_rate(field: str, text: str) -> str:
    if _RATE.fullmatch(text) is None:
        raise Invalid(
            field,
            f'{field} must be a share from 0 to below 1 with at most five decimals, such as "0.19"',
        )
    return money.rate_text(Decimal(text))


def _color(field: str, text: str) -> str:
    match = _COLOR.fullmatch(text)
    if match is None:
        raise Invalid(field, f"{field} must be a color of six hexadecimal digits such as #0d5c49")
    return f"#{match[1].lower()}"


def _address(field: str, text: str) -> str:
    if "{" in text:
        raise Invalid(field, f"{field} must be an address without braces")
    return inputs.check_url(field, text) or ""


def _zone(field: str, text: str) -> str:
    try:
        return settingvalues.time_zone(text)
    except ValueError as error:
        raise Invalid(field, f"{field} must be {error}") from None


# Column → name in the API, and the function that checks and normalizes a non-empty value.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, str], str]]]] = {
    "display_name": ("displayName", _name),
    "accent_color": ("accentColor", _color),
    "support_email": ("supportEmail", inputs.check_email),
    "support_url": ("supportUrl", _address),
    "terms_url": ("termsUrl", _address),
    "time_zone": ("timeZone", _zone),
    "legal_name": ("legalName", _legal_name),
    "legal_address": ("legalAddress", _legal_address),
    "tax_number": ("taxNumber", _tax_number),
    "tax_rate": ("taxRate", _tax_rate),
}
PROFILE_FIELDS: Final = tuple(_FIELDS)
SELLER_FIELDS: Final = Seller.__struct_fields__
CUSTOMER_FIELDS: Final = tuple(field for field in PROFILE_FIELDS if field not in SELLER_FIELDS)


def normalize_field(field: str, text: str | None) -> str | None:
    """Return a field's normalized value, None if it is empty.

    Raises Invalid, with the field's name in the API.
    """
    name, check = _FIELDS[field]
    trimmed = (text or "").strip()
    if not trimmed and field != "time_zone":
        return None
    return check(name, trimmed)


def version_of(merchant: Merchant) -> str:
    """Return the version of a profile: a digest of its values."""
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
    """Change fields of a profile if its version is ``version``; None: any version.

    Equal values are not changed, so that the call is idempotent. Raises Invalid, Stale and
    NotFound.
    """
    values = {field: normalize_field(field, text) for field, text in changes.items()}
    old = await _lock(tx, merchant_id)
    changed = [field for field, value in values.items() if getattr(old, field) != value]
    if not changed:
        return old
    if version is not None and version != version_of(old):
        raise Stale
    new = msgspec.structs.replace(old, **values, updated_at=now)
    profile = Profile(**{field: getattr(new, field) for field in PROFILE_FIELDS})
    await queries.SET_PROFILE.run(tx, profile, merchant_id=merchant_id, updated_at=now)
    if set(changed) & set(SELLER_FIELDS):
        seller = msgspec.convert(new, Seller, from_attributes=True)
        await queries.STORE_SELLER.run(tx, seller, merchant_id=merchant_id, since=now)
    subject = ", ".join(
        f"{_FIELDS[field][0]}: {_write_value(getattr(old, field))} → {_write_value(values[field])}"
        for field in changed
    )
    await audit.record(tx, actor, "profile set", merchant_id, subject, now)
    return new


def _write_value(value: str | None) -> str:
    return "none" if value is None else value.replace("\n", " / ")


async def seller_at(tx: Tx, merchant_id: str, at: int) -> Seller:
    """Return the seller's details that were in force at a time (Unix ms).

    For a time before the first details were entered, the first ones are returned, so that receipts
    of earlier payments have them too. All are None if none were ever entered.
    """
    return await queries.SELLER_AT.first(tx, merchant_id=merchant_id, at=at) or Seller()


async def set_logo(
    tx: Tx, merchant_id: str, content: bytes, now: int, *, actor: Actor, seen: str | None
) -> None:
    """Replace the logo if its SHA-256 is still ``seen`` (hex).

    ``seen`` is "" if there was no logo, and None replaces any logo.

    Raises ``logos.LogoRefused``, Stale and NotFound.
    """
    picture, digest = logos.recognize(content), hashlib.sha256(content).hexdigest()
    old = await _lock(tx, merchant_id)
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
    await queries.UPSERT_LOGO.run(tx, logo)
    await queries.SET_LOGO.run(tx, merchant_id=merchant_id, logo_sha256=digest, updated_at=now)
    subject = f"{digest} {logo.media_type}, {logo.width} × {logo.height}"
    await audit.record(tx, actor, "profile logo", merchant_id, subject, now)


async def remove_logo(
    tx: Tx, merchant_id: str, now: int, *, actor: Actor, seen: str | None
) -> None:
    """Remove the logo; ``seen`` as in ``set_logo``."""
    old = await _lock(tx, merchant_id)
    if old.logo_sha256 is None:
        return
    if seen is not None and old.logo_sha256 != seen:
        raise Stale
    await queries.DELETE_LOGO.run(tx, merchant_id=merchant_id)
    await queries.SET_LOGO.run(tx, merchant_id=merchant_id, logo_sha256=None, updated_at=now)
    await audit.record(tx, actor, "profile logo", merchant_id, f"{old.logo_sha256} removed", now)


async def find_logo(tx: Tx, merchant_id: str, digest: str) -> Logo:
    """Return a merchant's current logo. Raises NotFound for another digest."""
    return or_not_found(await queries.LOGO.first(tx, merchant_id=merchant_id, sha256=digest))


async def _lock(tx: Tx, merchant_id: str) -> Merchant:
    merchant = await queries.LOCKED.first(tx, merchant_id=merchant_id)
    return or_not_found(merchant, f"there is no merchant {merchant_id}")
