"""Accounts that merchants add and change themselves, if the operator allows it.

The operator allows gateways, not single accounts. Without that, a merchant may still pause and
retire an account. Priority, weight, costs and breaker are the operator's.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from opentill import merchants
from opentill.core.errors import Invalid, NotFound, NotPermitted
from opentill.core.settings import SANDBOX, Settings
from opentill.db.database import Tx
from opentill.gateways import registry
from opentill.gateways.account import AccountStatus, GatewayAccount
from opentill.gateways.accounts import lookup, queries, service
from opentill.gateways.accounts.model import NewAccount
from opentill.merchants import Actor

# Rows are never deleted and every process has an adapter for each, also for retired ones.
MOST_OWN: Final = 20


async def list_allowed(tx: Tx, merchant_id: str) -> list[str]:
    """Return the gateways of which a merchant may add and change accounts, by name."""
    allowed = await queries.ALLOWED_GATEWAYS.all(tx, merchant_id=merchant_id)
    return [row.gateway for row in allowed]


def allowable(settings: Settings) -> list[str]:
    """Return the gateways that the operator of this deployment can allow to merchants."""
    is_refused = settings.livemode or bool(settings.sandbox_refused)
    return [name for name in registry.merchants_gateways() if name != SANDBOX or not is_refused]


async def allow(
    tx: Tx,
    settings: Settings,
    merchant_id: str,
    gateways: Sequence[str],
    now: int,
    *,
    actor: Actor,
) -> list[str]:
    """Let a merchant add and change accounts of these gateways, and of no others. Idempotent.

    Raises NotFound, and Invalid on ``gateways``.
    """
    names, choices = sorted(set(gateways)), allowable(settings)
    for name in names:
        if name not in choices:
            reason = f"gateways must be some of {', '.join(choices)}, not {name!r}"
            raise Invalid("gateways", reason)
    await merchants.lock(tx, merchant_id)
    if names == await list_allowed(tx, merchant_id):
        return names
    if names:
        await queries.ALLOW_GATEWAYS.run(tx, merchant_id=merchant_id, gateways=names)
    else:
        await queries.ALLOW_NO_GATEWAYS.run(tx, merchant_id=merchant_id)
    subject = " ".join(names) or "none"
    await merchants.record_audit(tx, actor, "merchants gateways", merchant_id, subject, now)
    return names


async def list_own(tx: Tx, merchant_id: str) -> list[GatewayAccount]:
    """Return the accounts of a merchant, active ones first."""
    return await queries.LIST_OWN.all(tx, merchant_id=merchant_id)


async def find_own(tx: Tx, merchant_id: str, account_id: str) -> GatewayAccount:
    """Return an account of a merchant. Raises NotFound, also for one of somebody else."""
    account = await lookup.find(tx, account_id)
    if account.merchant_id != merchant_id:
        raise NotFound
    return account


async def require_allowed(tx: Tx, merchant_id: str, gateway: str) -> None:
    """Raise NotPermitted unless the operator lets a merchant have accounts of a gateway."""
    if gateway not in await list_allowed(tx, merchant_id):
        reason = f"gateway must be one that the operator allows, and {gateway} is not"
        raise NotPermitted("gateway", reason)


async def add_own(
    tx: Tx, settings: Settings, new: NewAccount, now: int, *, actor: Actor
) -> GatewayAccount:
    """Add an account of the merchant ``new.merchant_id``, whose ``by_merchant`` is set.

    Raises NotPermitted, and Invalid, which names the field.
    """
    if new.merchant_id is None or not new.by_merchant:
        raise AssertionError  # must not happen: callers add a merchant's own account
    await merchants.lock(tx, new.merchant_id)  # so that the number is exact
    await require_allowed(tx, new.merchant_id, new.gateway)
    if len(await list_own(tx, new.merchant_id)) >= MOST_OWN:
        reason = f"accounts must be at most {MOST_OWN}, with retired ones: ask the operator"
        raise Invalid("accounts", reason)
    return await service.add(tx, settings, new, now, actor=actor)


async def rotate_own(
    tx: Tx,
    settings: Settings,
    account: GatewayAccount,
    credentials: Mapping[str, str],
    now: int,
    *,
    actor: Actor,
) -> GatewayAccount:
    """Replace the credentials of a merchant's account. Raises NotPermitted and Invalid."""
    await require_allowed(tx, str(account.merchant_id), account.gateway)
    return await service.rotate(
        tx, settings, account.id, credentials, now, actor=actor, by_merchant=True
    )


async def set_own_status(
    tx: Tx, merchant_id: str, account_id: str, status: AccountStatus, now: int, *, actor: Actor
) -> GatewayAccount:
    """Activate, pause or retire an account of a merchant. Idempotent.

    What the operator paused, and what paused itself, the merchant cannot resume. Raises NotFound,
    NotPermitted, and Invalid on ``status``.
    """
    await merchants.lock(tx, merchant_id)
    account = await find_own(tx, merchant_id, account_id)
    if status == account.status:
        return account
    if status == "ACTIVE" and account.status == "PAUSED":
        await require_allowed(tx, merchant_id, account.gateway)
        if not account.paused_by_merchant:
            raise NotPermitted("status", "status must stay PAUSED: the operator paused the account")
    return await service.set_status(tx, account_id, status, now, actor=actor, by_merchant=True)
