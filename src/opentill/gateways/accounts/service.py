"""Add accounts, change their status and rotate their credentials.

Callers check credentials at the provider (``check``) before they save them, outside of the
transaction.
"""

import re
import time
from collections.abc import Container, Iterable, Mapping
from typing import Final, Literal

import asyncpg
import msgspec

from opentill import merchants
from opentill.core.encryption import WrongKey
from opentill.core.errors import Contended, Invalid, NotFound
from opentill.core.ids import is_id, new_id
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import registry
from opentill.gateways.account import (
    LIVE_PREFIX,
    TEST_PREFIX,
    AccountStatus,
    Breaker,
    GatewayAccount,
    is_account_id,
)
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.accounts import environment as environment_accounts
from opentill.gateways.accounts import queries, stored_credentials, terms
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
from opentill.gateways.model import Checks, Gateway, NotChecked
from opentill.merchants import Actor

OVERLAP_MS: Final = 86_400_000  # how long old credentials verify callbacks after a rotation
MAX_OVERLAP_MS: Final = 30 * OVERLAP_MS
_ITSELF: Final = "opentill"  # the actor if an account is paused for its failures
MODE_UNKNOWN: Final = (
    "test must be chosen, --test or --live: the credentials do not say whether the money is real"
)
_LONGEST_REASON: Final = 200
_PEM: Final = "-----BEGIN "  # only credentials in this form may have several lines
_GATEWAYS: Final = "|".join(re.escape(name.upper()) for name in registry.BUILT_IN)
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
    adapter = _build(new.gateway, new.credentials, new.methods, settings)
    _mode(new)
    return adapter


def _build(
    gateway: str, credentials: Mapping[str, str], methods: str, settings: Settings
) -> Gateway:
    for name, value in credentials.items():
        text = "".join(value.splitlines()) if _PEM in value else value
        if len(value) > MAX_CREDENTIAL or not text.isprintable():
            reason = f"{name} must be at most {MAX_CREDENTIAL} printable characters, or in PEM"
            raise Invalid(name, reason)
    try:
        adapter, _ = registry.build_account(gateway, credentials, methods, settings)
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
    return _build(account.gateway, credentials, account.methods, settings)


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
    variable = _VARIABLE.search(problem)
    text = _VARIABLE.sub(lambda match: match[1].lower(), problem)
    if isinstance(problem, NotChecked):
        return Problem(text, was_asked=False, reported=problem)
    return Problem(text, "" if variable is None else variable[1].lower(), reported=problem)


async def add(
    tx: Tx, settings: Settings, new: NewAccount, now: int, *, actor: Actor
) -> GatewayAccount:
    """Add an active account. Raises Invalid, which names the field, and NotFound."""
    await build(new, settings).close()
    livemode = _mode(new)
    label = new.label.strip()
    await _check_label_is_free(tx, label)
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
    return await find(tx, account_id)


async def _check_label_is_free(tx: Tx, label: str, except_id: str = "") -> None:
    if await queries.HAS_LABEL.get(tx, label=label, except_id=except_id):
        raise _label_taken(label)


def _label_taken(label: str) -> Invalid:
    reason = f"label must be one that no other account has: {label!r} is taken"
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


async def find(tx: Tx, account_id: str) -> GatewayAccount:
    """Return an account. Raises NotFound."""
    account = await queries.BY_ID.first(tx, id=account_id) if is_id(account_id) else None
    if account is None:
        raise NotFound
    return account


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
    stored = await find_stored(tx, account_id)
    label = stored.label if changes.label is None else changes.label.strip()
    if stored.status != "RETIRED":
        await _check_label_is_free(tx, label, account_id)
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
    account = await find(tx, account_id)
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
    account = await find(tx, account_id)
    await _record(tx, Actor(_ITSELF, text), account, "gateways break", now)
    return True


async def mend(tx: Tx, account_id: str, now: int) -> bool:
    """Let an account that was paused for its failures take payments again."""
    if not is_account_id(account_id):
        return await environment_accounts.mend(tx, account_id, now)
    if not await queries.MEND.run(tx, id=account_id):
        return False
    account = await find(tx, account_id)
    await _record(tx, Actor(_ITSELF, "a payment succeeded"), account, "gateways mend", now)
    return True


async def list_broken(tx: Tx) -> list[Breaker]:
    """Return the accounts that are paused for their failures, first those of the environment."""
    listed = await list_accounts(tx)
    broken = [each for each in listed if each.broken_at is not None and each.status == "ACTIVE"]
    return [*await environment_accounts.list_broken(tx), *broken]


async def find_stored(tx: Tx, account_id: str) -> StoredAccount:
    """Return an account with its encrypted credentials. Raises NotFound."""
    account = await queries.STORED_BY_ID.first(tx, id=account_id) if is_id(account_id) else None
    if account is None:
        raise NotFound
    return account


async def find_by_label(tx: Tx, text: str) -> GatewayAccount:
    """Return the account with an id or a label; labels of retired accounts count last.

    Raises NotFound.
    """
    if is_id(text):
        return await find(tx, text)
    label = text.strip().lower()
    for account in await list_accounts(tx):
        if account.label.lower() == label:
            return account
    raise NotFound


async def find_id(tx: Tx, text: str, environment: Container[str]) -> str:
    """Return the id of the account with an id, a label, or the name of an environment's gateway.

    ``environment`` has the gateways of the environment. Raises Invalid on ``account``.
    """
    if text.strip() in environment:
        return text.strip()
    try:
        return (await find_by_label(tx, text)).id
    except NotFound:
        reason = "account must be the id or the label of one, or one of OPENTILL_GATEWAYS"
        raise Invalid("account", f"{reason}, not {text!r}") from None


async def list_accounts(tx: Tx) -> list[GatewayAccount]:
    """Return all accounts, active ones first, in the order of their priority."""
    return await queries.LIST.all(tx)


async def list_names(tx: Tx) -> dict[str, str]:
    """Return how reports name each account in the database, by id."""
    return {account.id: account.name for account in await list_accounts(tx)}


async def list_stored(tx: Tx) -> list[StoredAccount]:
    """Return all accounts with their encrypted credentials."""
    return await queries.STORED.all(tx)


async def with_self_reporting(tx: Tx, reporting: Container[str]) -> Container[str]:
    """Return the gateways of ``reporting`` and the accounts that report every refund themselves."""
    gateways = registry.self_reporting(registry.account_gateways())
    accounts = await queries.IDS_OF.all(tx, gateways=list(gateways))
    return _Either(reporting, frozenset(account.id for account in accounts))


class _Either(msgspec.Struct, frozen=True):
    """Names that are in either of two containers."""

    gateways: Container[str]
    accounts: frozenset[str]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name in (self.accounts if is_account_id(name) else self.gateways)


async def set_status(
    tx: Tx, account_id: str, status: AccountStatus, now: int, *, actor: Actor
) -> GatewayAccount:
    """Activate, pause or retire an account. Idempotent. Raises NotFound, and Invalid on ``status``.

    An account that is not active takes no new payment. Its callbacks, queries and refunds go on.
    """
    await find(tx, account_id)
    allowed = list(_FROM[status])
    changed = await queries.SET_STATUS.run(
        tx, id=account_id, status=status, allowed=allowed, now=now
    )
    if status == "ACTIVE":  # also if the account paused itself
        changed += await queries.MEND.run(tx, id=account_id)
    account = await find(tx, account_id)
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
    account: GatewayAccount, credentials: Mapping[str, str], settings: Settings
) -> Gateway:
    """Create the adapter of an account with new credentials, to check them. Raises Invalid."""
    mode = mode_of_credentials(account.gateway, credentials)
    if mode is not None and mode != account.livemode:
        kind = "real" if account.livemode else "test"
        raise Invalid("credentials", f"credentials must be for {kind} money, as the account is")
    return _build(account.gateway, credentials, account.methods, settings)


async def rotate(
    tx: Tx,
    settings: Settings,
    account_id: str,
    credentials: Mapping[str, str],
    now: int,
    *,
    actor: Actor,
    overlap_ms: int = OVERLAP_MS,
) -> GatewayAccount:
    """Replace an account's credentials; the old ones verify callbacks for ``overlap_ms``.

    Raises NotFound, and Invalid, which names the credential.
    """
    if not 0 <= overlap_ms <= MAX_OVERLAP_MS:
        days = MAX_OVERLAP_MS // OVERLAP_MS
        raise Invalid("overlap", f"overlap must be from 0 to {days * 24} hours")
    account = await find(tx, account_id)
    await build_rotated(account, credentials, settings).close()
    await queries.ROTATE.run(
        tx,
        id=account_id,
        credentials=stored_credentials.encrypt(settings, account_id, credentials),
        credential_hints=stored_credentials.encode_hints(account.gateway, credentials),
        previous_until=now + overlap_ms,
        now=now,
    )
    await _record(tx, actor, account, "gateways rotate", now)
    return await find(tx, account_id)


async def _record(
    tx: Tx, actor: Actor, account: GatewayAccount, action: str, now: int, details: str = ""
) -> None:
    subject = f"{account.id}: {account.name}" + (f": {details}" if details else "")
    await merchants.record_audit(tx, actor, action, account.merchant_id or "", subject, now)
