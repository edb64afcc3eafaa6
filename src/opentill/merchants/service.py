"""What can be done with merchants and keys."""

from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

import msgspec

from opentill.core import limits, money
from opentill.core.db import Db, Tx
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.core.ids import new_id
from opentill.core.settings import Environment, Settings
from opentill.merchants import model, queries
from opentill.merchants.model import FeePolicy, Key, Merchant, NewKey

_MAX_RATE_DIGITS: Final = 6
_PATIENCE_S: Final = 1.8  # every request begins here: a database that hangs is told from here


def _checked(merchant: Merchant) -> Merchant:
    """Refuse terms that make no sense. Raises Invalid."""
    if not 1 <= len(merchant.name) <= 200:  # noqa: PLR2004 - as a product's name
        raise Invalid("name", "name must be text of 1 to 200 characters")
    if merchant.settlement_currency not in money.EXPONENTS:
        raise Invalid("settlement_currency", "must be an active ISO 4217 code such as USD")
    for field in ("platform_fee_rate", "reserve_rate"):
        rate: Decimal = getattr(merchant, field)
        exponent = rate.normalize().as_tuple().exponent if rate.is_finite() else None
        if not isinstance(exponent, int) or exponent < -_MAX_RATE_DIGITS or not 0 <= rate < 1:
            raise Invalid(field, f"{field} must be a decimal fraction from 0 to below 1")
    if not 0 <= merchant.overdraft_minor <= 10**15:
        raise Invalid("overdraft", "overdraft must not be negative")
    if not 0 <= merchant.settlement_delay_days <= 365:  # noqa: PLR2004
        raise Invalid("settlement_delay_days", "settlement_delay_days must be from 0 to 365")
    if not 0 <= merchant.reserve_days <= 3650:  # noqa: PLR2004
        raise Invalid("reserve_days", "reserve_days must be from 0 to 3650")
    for network in merchant.ip_allowlist:
        try:
            ip_network(network)
        except ValueError:
            reason = "ip_allowlist must hold addresses or networks such as 192.0.2.0/24"
            raise Invalid("ip_allowlist", reason) from None
    return merchant


async def create(  # noqa: PLR0913 - a merchant's terms
    tx: Tx,
    *,
    name: str,
    now: int,
    settlement_currency: str = "USD",
    platform_fee_rate: Decimal = Decimal("0.04"),
    refund_fee_policy: FeePolicy = "KEPT",
    overdraft_minor: int | None = None,
    settlement_delay_days: int = 7,
    reserve_rate: Decimal = Decimal(0),
    reserve_days: int = 180,
    ip_allowlist: tuple[str, ...] = (),
) -> Merchant:
    """Make a merchant; the overdraft limit defaults to 100.00. Raises Invalid."""
    decimals = money.EXPONENTS.get(settlement_currency, 2)
    merchant = _checked(
        Merchant(
            id=new_id("mer"),
            name=name.strip(),
            settlement_currency=settlement_currency,
            platform_fee_rate=platform_fee_rate,
            refund_fee_policy=refund_fee_policy,
            overdraft_minor=100 * 10**decimals if overdraft_minor is None else overdraft_minor,
            settlement_delay_days=settlement_delay_days,
            reserve_rate=reserve_rate,
            reserve_days=reserve_days,
            ip_allowlist=list(ip_allowlist),
            created_at=now,
            updated_at=now,
        ),
    )
    await queries.INSERT.run(tx, *msgspec.structs.astuple(merchant)[:11])
    return merchant


async def find(tx: Tx, merchant_id: str) -> Merchant:
    """Return a merchant. Raises NotFound."""
    merchant = await queries.BY_ID.first(tx, merchant_id)
    if merchant is None:
        raise NotFound(reason=f"there is no merchant {merchant_id}")
    return merchant


async def all_merchants(tx: Tx) -> list[Merchant]:
    """Return all merchants, oldest first."""
    return await queries.ALL.all(tx)


async def change(tx: Tx, merchant_id: str, now: int, **terms: Any) -> Merchant:
    """Change the given terms. They hold for sessions opened from now on. Raises Invalid."""
    old = await queries.LOCKED.first(tx, merchant_id)
    if old is None:
        raise NotFound(reason=f"there is no merchant {merchant_id}")
    new = _checked(msgspec.structs.replace(old, **terms, updated_at=now))
    await queries.UPDATE.run(
        tx,
        new.id,
        new.name,
        new.platform_fee_rate,
        new.refund_fee_policy,
        new.overdraft_minor,
        new.settlement_delay_days,
        new.reserve_rate,
        new.reserve_days,
        new.ip_allowlist,
        now,
    )
    return new


async def create_key(
    tx: Tx,
    merchant_id: str,
    environment: Environment,
    now: int,
    expires_at: int | None = None,
) -> NewKey:
    """Make a key; only its digest is kept. Raises NotFound for an unknown merchant."""
    if not await queries.EXISTS.get(tx, merchant_id):
        raise NotFound(reason=f"there is no merchant {merchant_id}")
    if expires_at is not None and expires_at <= now:
        raise Invalid("expires_at", "expires_at must be in the future")
    key = model.make_key(environment)
    new = NewKey(id=new_id("key"), merchant_id=merchant_id, key=key, expires_at=expires_at)
    digest, hint = model.digest(key), model.hint(key)
    await queries.INSERT_KEY.run(
        tx, new.id, merchant_id, digest, hint, environment, now, expires_at
    )
    return new


async def revoke_key(tx: Tx, key_id: str, now: int) -> Key:
    """Revoke a key: requests that start after the commit get 401. Raises NotFound."""
    key = await queries.REVOKE_KEY.first(tx, key_id, now)
    if key is None:
        raise NotFound(reason=f"there is no valid key {key_id}")
    return key


async def regenerate_key(tx: Tx, key_id: str, now: int) -> NewKey:
    """Replace a key by a new one at once. Raises NotFound."""
    old = await revoke_key(tx, key_id, now)
    expires_at = old.expires_at if old.expires_at is None or old.expires_at > now else None
    return await create_key(tx, old.merchant_id, old.environment, now, expires_at)


async def keys(tx: Tx, merchant_id: str) -> list[Key]:
    """Return a merchant's keys, oldest first."""
    return await queries.KEYS.all(tx, merchant_id)


async def add_rate(tx: Tx, base: str, quote: str, rate: Decimal, now: int) -> None:
    """Say what one ``base`` is worth in ``quote`` from now on. Raises Invalid."""
    for field, code in (("base", base), ("quote", quote)):
        if code not in money.EXPONENTS:
            raise Invalid(field, f"{field} must be an active ISO 4217 code such as USD")
    if base == quote or not rate.is_finite() or not 0 < rate < 10**9:
        raise Invalid("rate", "rate must be a positive decimal number between two currencies")
    await queries.INSERT_RATE.run(tx, base, quote, now, rate)


async def record_audit(  # noqa: PLR0913 - who did what to whom, when and why
    tx: Tx, *, who: str, action: str, merchant_id: str, subject: str, reason: str, now: int
) -> None:
    """Write to the audit log what an operator did. Raises Invalid without a reason."""
    if not reason.strip():
        raise Invalid("reason", "reason must say why, in a few words")
    await queries.INSERT_AUDIT.run(
        tx, new_id("aud"), now, who, action, merchant_id, subject, reason.strip()
    )


def limit_subject(address: str) -> str:
    """Return what requests of an address are counted under: IPv6 by its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped: IPv4Address | None = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ip_network((parsed, 64), strict=False))
    return address


def _inside(address: str, networks: list[str]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:  # no address at all, such as a local socket's
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return any(parsed in ip_network(network) for network in networks)


async def enter(db: Db, settings: Settings, key: str | None, address: str, now: int) -> str | None:
    """Count a request against its address and return the caller's merchant id, None if unknown.

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
            found = await queries.ENTER_LIMITED.first(tx, "ip", subject, limit, now, digest)
            if found is None or not found.allowed:
                wait = await limits.retry_after_s(tx, "ip", subject, now)
                raise TooManyRequests(limit, wait)
        else:
            found = await queries.ENTER.first(tx, digest, now)
    if found is None or found.merchant_id is None or found.environment != settings.environment:
        return None
    if found.ip_allowlist and not _inside(address, found.ip_allowlist):
        return None
    return found.merchant_id
