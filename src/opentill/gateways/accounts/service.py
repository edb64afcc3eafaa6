"""Add accounts, change their status and rotate their credentials.

Callers check credentials at the provider (``check``) before they save them, outside of the
transaction.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import asyncpg
import msgspec

from opentill import merchants
from opentill.core.encryption import WrongKey
from opentill.core.errors import Contended, Invalid
from opentill.core.ids import is_id, new_id
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import registry
from opentill.gateways.account import (
    LIVE_PREFIX,
    TEST_PREFIX,
    AccountStatus,
    GatewayAccount,
    is_account_id,
)
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.accounts import environment as environment_accounts
from opentill.gateways.accounts import lookup, queries, stored_credentials, terms
from opentill.gateways.accounts.model import (
    MAX_CREDENTIAL,
    AccountChanges,
    AmountLimit,
    LimitRow,
    NewAccount,
    NewRow,
    Problem,
    StoredAccount,
)
from opentill.gateways.model import Checks, Gateway
from opentill.merchants import Actor

OVERLAP_MS: Final = 86_400_000  # how long old credentials verify callbacks after a rotation
MAX_OVERLAP_MS: Final = 30 * OVERLAP_MS
_ITSELF: Final = "opentill"  # the actor if an account is paused for its failures
MODE_UNKNOWN: Final = (
    "test must be chosen, --test or --live: the credentials do not say whether the money is real"
)
_LONGEST_REASON: Final = 200
_PEM: Final = "-----BEGIN "  # only credentials in this form may have several lines
# The longest first: EPAY_V2 begins like EPAY.
_NAMES: Final = sorted(registry.BUILT_IN, key=len, reverse=True)
_GATEWAYS: Final = "|".join(re.escape(name.upper()) for name in _NAMES)
_VARIABLE: Final = re.compile(rf"OPENTILL_(?:GATEWAY_(?:{_GATEWAYS})|SANDBOX)_([A-Z0-9_]+)")
# The statuses that each status may follow; RETIRED is for ever.
_FROM: Final[Mapping[AccountStatus, tuple[AccountStatus, ...]]] = {
    "ACTIVE": ("PAUSED",),
    "PAUSED": ("ACTIVE",),
    "RETIRED": ("ACTIVE", "PAUSED"),
}


def build(new: NewAccount, settings: Settings) -> Gateway:
    """Create the adapter of a new account, to check its credentials. Raises Invalid by field."""
    _check_fields(new)
    adapter = _build(
        new.gateway, new.credentials, new.methods, settings, by_merchant=new.by_merchant
    )
    _mode(new)
    return adapter


def _build(
    gateway: str,
    credentials: Mapping[str, str],
    methods: str,
    settings: Settings,
    *,
    by_merchant: bool,
) -> Gateway:
    for name, value in credentials.items():
        text = "".join(value.splitlines()) if _PEM in value else value
        if len(value) > MAX_CREDENTIAL or not text.isprintable():
            reason = f"{name} must be at most {MAX_CREDENTIAL} printable characters, or in PEM"
            raise Invalid(name, reason)
    try:
        adapter, _ = registry.build_account(
            gateway, credentials, methods, settings, by_merchant=by_merchant
        )
    except registry.BadCredentials as error:
        raise Invalid(error.field, str(error)) from None
    return adapter


def build_stored(account: StoredAccount, settings: Settings) -> Gateway:
    """Create the adapter of a stored account. Raises Invalid."""
    try:
        credentials = stored_credentials.decrypt(settings, account.id, account.credentials)
    except WrongKey:
        reason = "account must be one whose credentials were encrypted with this key: rotate it"
        raise Invalid("account", reason) from None
    return _build(
        account.gateway, credentials, account.methods, settings, by_merchant=account.by_merchant
    )


async def check(adapter: Gateway) -> Problem | None:
    """Ask the provider whether it accepts an account; return the problem, None if there is none.

    Adapters that cannot check accept every account. The adapter is closed.
    """
    try:
        problem = await adapter.check() if isinstance(adapter, Checks) else None
    finally:
        await adapter.close()
    if problem is None:
        return None
    # Adapters name the variables of the environment's account.
    reason = problem.reason
    variable = _VARIABLE.search(reason)
    text = _VARIABLE.sub(lambda match: match[1].lower(), reason)
    if not problem.was_asked:
        return Problem(text, was_asked=False, reported=reason)
    return Problem(text, "" if variable is None else variable[1].lower(), reported=reason)


async def add(
    tx: Tx, settings: Settings, new: NewAccount, now: int, *, actor: Actor
) -> GatewayAccount:
    """Add an active account. Raises Invalid, which names the field, and NotFound."""
    await build(new, settings).close()
    livemode = _mode(new)
    label = new.label.strip()
    await _check_label_is_free(tx, label, new.merchant_id)
    if new.merchant_id is not None:
        await merchants.find(tx, new.merchant_id)
    prefix: Literal["ga", "gat"] = LIVE_PREFIX if livemode else TEST_PREFIX
    account_id = f"{prefix}_{new.id_suffix}" if new.id_suffix else new_id(prefix)
    if not is_id(account_id):
        raise Invalid("id", "id must be one that OpenTill has proposed")
    row = NewRow(
        id=account_id,
        gateway=new.gateway,
        label=label,
        merchant_id=new.merchant_id,
        livemode=livemode,
        status="ACTIVE",
        credentials=stored_credentials.encrypt(settings, account_id, new.credentials),
        credential_hints=stored_credentials.encode_hints(new.gateway, new.credentials),
        methods=new.methods,
        priority=new.priority,
        weight=new.weight,
        by_merchant=new.by_merchant,
    )
    try:
        await queries.INSERT.run(tx, row, now=now)
    except asyncpg.UniqueViolationError:  # another account has got the label meanwhile
        raise _label_taken(label) from None
    await _insert_limits(tx, account_id, terms.merge_limits((), new.limits, new.day_limits))
    for cost in new.costs:
        await queries.INSERT_COST.run(tx, cost, account_id=account_id)
    subject = f"{account_id}: {label} ({new.gateway})"
    await merchants.record_audit(tx, actor, "gateways add", new.merchant_id or "", subject, now)
    return await lookup.find(tx, account_id)


async def _check_label_is_free(
    tx: Tx, label: str, merchant_id: str | None, except_id: str = ""
) -> None:
    names = {"label": label, "merchant_id": merchant_id, "except_id": except_id}
    if await queries.HAS_LABEL.get(tx, **names):
        raise _label_taken(label)


def _label_taken(label: str) -> Invalid:
    reason = f"label must be one that no other account of its owner has: {label!r} is taken"
    return Invalid("label", reason)


async def _insert_limits(tx: Tx, account_id: str, rows: Iterable[LimitRow]) -> None:
    for row in rows:
        await queries.INSERT_LIMIT.run(tx, row, account_id=account_id)


def _check_fields(new: NewAccount) -> None:
    if new.gateway not in registry.account_gateways():
        choices = ", ".join(registry.account_gateways())
        raise Invalid("gateway", f"gateway must be one of {choices}")
    for limit in new.limits:
        if limit.smallest_minor is None and limit.largest_minor is None:
            raise Invalid("limit", "limit must have a smallest or a largest amount")
    for day_limit in new.day_limits:
        if day_limit.day_minor is None and day_limit.day_number is None:
            raise Invalid("dayLimit", "dayLimit must have a sum or a number of payments")
    terms.check_terms(new)


def _mode(new: NewAccount) -> bool:
    """Return whether a new account takes real money. Raises Invalid."""
    mode = mode_of_credentials(new.gateway, new.credentials)
    if mode is None:
        if new.livemode is None:
            raise Invalid("test", MODE_UNKNOWN)
        return new.livemode
    if new.livemode is not None and new.livemode != mode:
        kind = "real" if mode else "test"
        raise Invalid("test", f"test must fit the credentials, which are for {kind} money")
    return mode


async def change(
    tx: Tx,
    settings: Settings,
    account_id: str,
    changes: AccountChanges,
    now: int,
    *,
    actor: Actor,
) -> GatewayAccount:
    """Change an account. Raises Invalid, which names the field, and NotFound.

    A day limit counts the payments that begin while it is set.
    """
    terms.check_terms(changes)
    stored = await lookup.find_stored(tx, account_id)
    label = stored.label if changes.label is None else changes.label.strip()
    if stored.status != "RETIRED":
        await _check_label_is_free(tx, label, stored.merchant_id, account_id)
    methods = stored.methods if changes.methods is None else changes.methods
    if methods != stored.methods:
        await build_stored(msgspec.structs.replace(stored, methods=methods), settings).close()
    limits = terms.merge_limits(terms.limits_of(stored), changes.limits, changes.day_limits)
    for limit in limits:
        terms.check_limit(AmountLimit(limit.currency, limit.smallest_minor, limit.largest_minor))
    costs = {cost.currency: cost for cost in (*terms.costs_of(stored), *changes.costs)}
    breaker = terms.changed_breaker(stored, changes)
    updating = queries.UPDATE.run(
        tx,
        id=account_id,
        revision=stored.revision,
        label=label,
        methods=methods,
        priority=stored.priority if changes.priority is None else changes.priority,
        weight=stored.weight if changes.weight is None else changes.weight,
        break_below_percent=breaker.break_below_percent,
        break_slower_ms=breaker.break_slower_ms,
        break_texts=breaker.break_texts,
        break_minutes=breaker.break_minutes,
        now=now,
    )
    try:
        if not await updating:  # another change was faster
            raise Contended
    except asyncpg.UniqueViolationError:  # another account has got the label meanwhile
        raise _label_taken(label) from None
    await queries.DELETE_LIMITS.run(tx, account_id=account_id)
    await _insert_limits(tx, account_id, limits)
    await queries.DELETE_COSTS.run(tx, account_id=account_id)
    for cost in costs.values():
        if cost.currency not in changes.without_cost:
            await queries.INSERT_COST.run(tx, cost, account_id=account_id)
    account = await lookup.find(tx, account_id)
    before, after = terms.terms_of(stored), terms.terms_of(account)
    changed = [
        f"{name} {before[name]} → {after[name]}" for name in after if before[name] != after[name]
    ]
    await _record(tx, actor, account, "gateways set", now, "; ".join(changed))
    return account


async def pause_broken(tx: Tx, account_id: str, reason: str, now: int) -> bool:
    """Pause an account because of its failures; False if it is paused already.

    ``account_id`` may be the gateway of an account of the environment. The pause is measured in
    real time, whatever the business time ``now`` is.
    """
    if not is_account_id(account_id):
        return await environment_accounts.pause_broken(tx, account_id, reason, now)
    real_now = time.time_ns() // 1_000_000
    text = reason[:_LONGEST_REASON]
    if not await queries.BREAK.run(tx, id=account_id, reason=text, now=real_now):
        return False
    account = await lookup.find(tx, account_id)
    await _record(tx, Actor(_ITSELF, text), account, "gateways break", now)
    return True


async def mend(tx: Tx, account_id: str, now: int) -> bool:
    """Let an account that was paused for its failures take payments again."""
    if not is_account_id(account_id):
        return await environment_accounts.mend(tx, account_id, now)
    if not await queries.MEND.run(tx, id=account_id):
        return False
    account = await lookup.find(tx, account_id)
    await _record(tx, Actor(_ITSELF, "a payment succeeded"), account, "gateways mend", now)
    return True


async def set_status(
    tx: Tx,
    account_id: str,
    status: AccountStatus,
    now: int,
    *,
    actor: Actor,
    by_merchant: bool = False,
) -> GatewayAccount:
    """Activate, pause or retire an account. Idempotent. Raises NotFound, and Invalid on ``status``.

    An account that is not active takes no new payment. Its callbacks, queries and refunds go on.
    """
    await lookup.find(tx, account_id)
    allowed = list(_FROM[status])
    changed = await queries.SET_STATUS.run(
        tx, id=account_id, status=status, allowed=allowed, by_merchant=by_merchant, now=now
    )
    if status == "ACTIVE":  # also if the account paused itself
        changed += await queries.MEND.run(tx, id=account_id)
    account = await lookup.find(tx, account_id)
    if changed:
        await _record(tx, actor, account, _ACTIONS[status], now)
    elif account.status != status:
        raise Invalid("status", f"status must be ACTIVE or PAUSED: {account.label} is retired")
    return account


_ACTIONS: Final[Mapping[AccountStatus, str]] = {
    "ACTIVE": "gateways resume",
    "PAUSED": "gateways pause",
    "RETIRED": "gateways retire",
}


def build_rotated(
    account: GatewayAccount,
    credentials: Mapping[str, str],
    settings: Settings,
    *,
    by_merchant: bool = False,
) -> Gateway:
    """Create the adapter of an account with new credentials, to check them. Raises Invalid."""
    mode = mode_of_credentials(account.gateway, credentials)
    if mode is not None and mode != account.livemode:
        kind = "real" if account.livemode else "test"
        raise Invalid("credentials", f"credentials must be for {kind} money, as the account is")
    is_by_merchant = by_merchant or account.by_merchant
    return _build(
        account.gateway, credentials, account.methods, settings, by_merchant=is_by_merchant
    )


async def rotate(  # noqa: PLR0913 - the credentials and how they replace others
    tx: Tx,
    settings: Settings,
    account_id: str,
    credentials: Mapping[str, str],
    now: int,
    *,
    actor: Actor,
    overlap_ms: int = OVERLAP_MS,
    by_merchant: bool = False,
) -> GatewayAccount:
    """Replace an account's credentials; the old ones verify callbacks for ``overlap_ms``.

    Raises NotFound, and Invalid, which names the credential.
    """
    if not 0 <= overlap_ms <= MAX_OVERLAP_MS:
        days = MAX_OVERLAP_MS // OVERLAP_MS
        raise Invalid("overlap", f"overlap must be from 0 to {days * 24} hours")
    account = await lookup.find(tx, account_id)
    await build_rotated(account, credentials, settings, by_merchant=by_merchant).close()
    await queries.ROTATE.run(
        tx,
        id=account_id,
        credentials=stored_credentials.encrypt(settings, account_id, credentials),
        credential_hints=stored_credentials.encode_hints(account.gateway, credentials),
        previous_until=now + overlap_ms,
        by_merchant=by_merchant,
        now=now,
    )
    await _record(tx, actor, account, "gateways rotate", now)
    return await lookup.find(tx, account_id)


async def _record(
    tx: Tx, actor: Actor, account: GatewayAccount, action: str, now: int, details: str = ""
) -> None:
    subject = f"{account.id}: {account.name}" + (f": {details}" if details else "")
    await merchants.record_audit(tx, actor, action, account.merchant_id or "", subject, now)
