"""A merchant's terms, with all versions. An order keeps the terms of its creation."""

from collections.abc import Sequence
from decimal import Decimal
from ipaddress import ip_network
from typing import Any, Final, cast

import msgspec

from opentill.core import money, settingvalues, structs
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.merchants import audit, fee_schedule, queries
from opentill.merchants.audit import Actor
from opentill.merchants.model import Merchant, Terms, TermsVersion

_MOST: Final = 10**15
_RANGES: Final = (
    # field                   least  most
    ("overdraft_minor",       0,     _MOST),
    ("settlement_delay_days", 0,     365),
    ("reserve_days",          0,     3650),
    ("dispute_fee_minor",     0,     _MOST),
    ("payout_minimum_minor",  0,     _MOST),
)  # fmt: skip


def _check_bounds(merchant: Merchant) -> Merchant:
    """Return the merchant. Raises Invalid if its terms are out of bounds."""
    if not 1 <= len(merchant.name) <= 200:  # noqa: PLR2004 - like a product's name
        raise Invalid("name", "name must be text of 1 to 200 characters")
    if merchant.settlement_currency not in money.EXPONENTS:
        reason = "settlement_currency must be an active ISO 4217 code such as USD"
        raise Invalid("settlement_currency", reason)
    try:
        settingvalues.time_zone(merchant.time_zone)
    except ValueError as error:
        raise Invalid("time_zone", f"time_zone must be {error}") from None
    for field in ("platform_fee_rate", "reserve_rate"):
        if not fee_schedule.is_rate(getattr(merchant, field)):
            reason = f"{field} must be from 0 to below 1, of at most six decimals, such as 0.04"
            raise Invalid(field, reason)
    for field, least, most in _RANGES:
        if not least <= getattr(merchant, field) <= most:
            name = field.removesuffix("_minor")
            raise Invalid(name, f"{name} must be from {least} to {most}")
    for network in merchant.ip_allowlist:
        try:
            ip_network(network)
        except ValueError:
            reason = "ip_allowlist must hold addresses or networks such as 192.0.2.0/24"
            raise Invalid("ip_allowlist", reason) from None
    return merchant


def _default_terms(settlement_currency: str) -> Terms:
    minor_per_unit = 10 ** money.EXPONENTS.get(settlement_currency, 2)
    return Terms(
        platform_fee_rate=Decimal("0.04"),
        fees="[]",
        refund_fee_policy="KEPT",
        overdraft_minor=100 * minor_per_unit,
        settlement_delay_days=7,
        settlement_calendar="EVERY_DAY",
        reserve_rate=Decimal(0),
        reserve_days=180,
        dispute_fee_minor=15 * minor_per_unit,
        payout_minimum_minor=0,
        ip_allowlist=[],
    )


def draft(
    name: str,
    settlement_currency: str,
    now: int,
    fee_changes: tuple[str, ...] = (),
    **terms: Any,
) -> Merchant:
    """Return an ACTIVE merchant that is not stored yet; arguments as in ``standing.create``.

    Raises Invalid.
    """
    merchant = _check_bounds(
        structs.convert(
            msgspec.structs.replace(_default_terms(settlement_currency), **terms),
            Merchant,
            id=new_id("mer"),
            name=name.strip(),
            settlement_currency=settlement_currency,
            terms_version=1,
            created_at=now,
            updated_at=now,
            time_zone="UTC",
            display_name=None,
            accent_color=None,
            support_email=None,
            support_url=None,
            terms_url=None,
            legal_name=None,
            legal_address=None,
            tax_number=None,
            tax_rate=None,
            logo_sha256=None,
            status="ACTIVE",
            charge_off=None,
            refund_off=None,
            payout_off=None,
        ),
    )
    schedule = fee_schedule.apply_changes(merchant.fees, fee_changes, settlement_currency)
    return msgspec.structs.replace(merchant, fees=schedule)


async def insert(tx: Tx, merchant: Merchant, actor: Actor, action: str, now: int) -> None:
    """Store a drafted merchant and the first version of its terms; audit ``action``."""
    await queries.INSERT.run(tx, merchant)
    await _insert_version(tx, merchant, actor.who, actor.reason, now)
    subject = f"{merchant.name}, settled in {merchant.settlement_currency}"
    await audit.record(tx, actor, action, merchant.id, subject, now)


async def change(
    tx: Tx,
    merchant_id: str,
    now: int,
    *,
    who: str,
    reason: str,
    fee_changes: tuple[str, ...] = (),
    **terms: Any,
) -> Merchant:
    """Change fields of ``Terms`` for sessions that are opened from now on.

    Overdraft limit, payout minimum, allow-list, ``name`` and ``time_zone`` belong to the merchant
    and not to orders, so these apply immediately. Without a change there is no new version. The
    settlement currency cannot change, because the balance is in it. Raises Invalid and NotFound.
    """
    if not reason.strip():
        raise Invalid("reason", "reason must say why, in a few words")
    locked = await queries.LOCKED.first(tx, merchant_id=merchant_id)
    old = or_not_found(locked, f"there is no merchant {merchant_id}")
    if terms.get("settlement_currency", old.settlement_currency) != old.settlement_currency:
        refusal = f"settlement_currency must stay {old.settlement_currency}: the balance is in it"
        raise Invalid("settlement_currency", refusal)
    schedule = fee_schedule.apply_changes(old.fees, fee_changes, old.settlement_currency)
    new = _check_bounds(msgspec.structs.replace(old, **terms, fees=schedule, updated_at=now))
    terms_of_new = structs.convert(new, Terms)
    has_changed = terms_of_new != structs.convert(old, Terms)
    if has_changed:
        new = msgspec.structs.replace(new, terms_version=old.terms_version + 1)
    await queries.UPDATE.run(
        tx,
        terms_of_new,
        id=new.id,
        name=new.name,
        updated_at=now,
        terms_version=new.terms_version,
        time_zone=new.time_zone,
    )
    if has_changed:
        await _insert_version(tx, new, who, reason.strip(), now)
    changes = {**terms, **({"fee_changes": fee_changes} if fee_changes else {})}
    changes_text = ", ".join(f"{term}={_text(value)}" for term, value in changes.items())
    subject = f"version {new.terms_version}: {changes_text}"
    await audit.record(tx, Actor(who, reason), "merchants set", merchant_id, subject, now)
    return new


def _text(value: object) -> str:
    """Format a term for the audit log."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, cast("Sequence[object]", value))) or "none"
    return str(value)


async def _insert_version(tx: Tx, merchant: Merchant, who: str, reason: str, now: int) -> None:
    await queries.INSERT_TERMS.run(
        tx,
        structs.convert(merchant, Terms),
        merchant_id=merchant.id,
        version=merchant.terms_version,
        created_at=now,
        who=who,
        reason=reason,
    )


async def history(tx: Tx, merchant_id: str) -> list[TermsVersion]:
    """Return every version of a merchant's terms, oldest first. Raises NotFound."""
    if not await queries.EXISTS.get(tx, merchant_id=merchant_id):
        raise NotFound(reason=f"there is no merchant {merchant_id}")
    return await queries.TERMS.all(tx, merchant_id=merchant_id)


def differences(old: Terms, new: Terms) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ between two versions, with both values."""
    pairs = {field: (getattr(old, field), getattr(new, field)) for field in Terms.__struct_fields__}
    return {field: pair for field, pair in pairs.items() if pair[0] != pair[1]}
