"""Pauses and breakers of the environment's accounts.

Their credentials are settings, but whether they take new payments is stored, so that a pause needs
no restart. Every process polls the revision of the routing rules, which a change increases.
"""

import time
from collections.abc import Container
from typing import Final, Literal

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways.account import Breaker
from opentill.gateways.accounts import queries, terms
from opentill.gateways.accounts.model import AccountChanges
from opentill.gateways.rules.queries import TOUCH
from opentill.merchants import Actor

EnvironmentStatus = Literal["ACTIVE", "PAUSED"]
_ACTIONS: Final[dict[EnvironmentStatus, str]] = {
    "ACTIVE": "gateways resume",
    "PAUSED": "gateways pause",
}
_ITSELF: Final = "opentill"  # the actor if an account is paused for its failures
_LONGEST_REASON: Final = 200
_MINUTES: Final = 10  # of a pause for failures, unless changed


async def list_paused(tx: Tx) -> frozenset[str]:
    """Return the gateways whose accounts of the environment are paused."""
    return frozenset(row.gateway for row in await queries.PAUSED.all(tx))


async def set_environment_status(
    tx: Tx,
    gateway: str,
    status: EnvironmentStatus,
    now: int,
    *,
    environment: Container[str],
    actor: Actor,
) -> None:
    """Pause or resume the account of the environment at a gateway. Idempotent.

    A paused account takes no new payment. Its callbacks, queries and refunds go on. Raises Invalid
    on ``account`` if ``environment`` does not have the gateway.
    """
    _check_gateway(gateway, environment)
    await TOUCH.run(tx)  # locks the pauses, too
    if status == "PAUSED":
        changed = await queries.PAUSE_GATEWAY.run(tx, gateway=gateway, now=now)
    else:
        changed = await queries.RESUME_GATEWAY.run(tx, gateway=gateway)
        changed += await queries.MEND_ENVIRONMENT.run(tx, gateway=gateway)  # if it paused itself
    if changed:
        await _record(tx, actor, _ACTIONS[status], gateway, now)


def _check_gateway(gateway: str, environment: Container[str]) -> None:
    if gateway not in environment:
        reason = f"account must be one of OPENTILL_GATEWAYS, not {gateway!r}"
        raise Invalid("account", reason)


async def list_breakers(tx: Tx) -> dict[str, Breaker] | None:
    """Return the breakers by gateway; None before the migration that creates their table."""
    if not await queries.HAS_ENVIRONMENT_BREAKERS.get(tx):
        return None
    return {row.id: row for row in await queries.ENVIRONMENT_BREAKERS.all(tx)}


async def find_breaker(tx: Tx, gateway: str) -> Breaker:
    """Return the breaker of an account; one that never opens if it has none."""
    breakers = await list_breakers(tx) or {}
    return breakers.get(gateway) or Breaker(
        id=gateway,
        break_below_percent=None,
        break_slower_ms=None,
        break_texts=[],
        break_minutes=_MINUTES,
        broken_at=None,
        broken_reason=None,
        retry_at=None,
    )


async def set_breaker(
    tx: Tx,
    gateway: str,
    changes: AccountChanges,
    now: int,
    *,
    environment: Container[str],
    actor: Actor,
) -> Breaker:
    """Change when the account of the environment at a gateway pauses itself.

    Raises Invalid, which names the field; on ``account`` for other changes than of the breaker.
    """
    _check_gateway(gateway, environment)
    terms.check_terms(changes)
    if changes != terms.only_breaker(changes):
        reason = "account must be one in the database: the others' terms are settings"
        raise Invalid("account", reason)
    await TOUCH.run(tx)
    before = await find_breaker(tx, gateway)
    after = terms.changed_breaker(before, changes)
    await queries.SET_ENVIRONMENT_BREAKER.run(
        tx,
        gateway=gateway,
        break_below_percent=after.break_below_percent,
        break_slower_ms=after.break_slower_ms,
        break_texts=after.break_texts,
        break_minutes=after.break_minutes,
    )
    if after != before:
        old, new = (terms.breaker_text(each) or "never" for each in (before, after))
        await _record(tx, actor, "gateways set", gateway, now, f": pauses itself {old} → {new}")
    return after


async def pause_broken(tx: Tx, gateway: str, reason: str, now: int) -> bool:
    """Pause an account because of its failures; False if it is paused already."""
    text = reason[:_LONGEST_REASON]
    real_now = time.time_ns() // 1_000_000
    await TOUCH.run(tx)
    if not await queries.BREAK_ENVIRONMENT.run(tx, gateway=gateway, reason=text, now=real_now):
        return False
    await _record(tx, Actor(_ITSELF, text), "gateways break", gateway, now)
    return True


async def mend(tx: Tx, gateway: str, now: int) -> bool:
    """Let an account that was paused for its failures take payments again."""
    await TOUCH.run(tx)
    if not await queries.MEND_ENVIRONMENT.run(tx, gateway=gateway):
        return False
    await _record(tx, Actor(_ITSELF, "a payment succeeded"), "gateways mend", gateway, now)
    return True


async def list_broken(tx: Tx) -> list[Breaker]:
    """Return the breakers of the accounts that are paused for their failures."""
    paused = await list_paused(tx)
    breakers = (await list_breakers(tx) or {}).values()
    return [each for each in breakers if each.broken_at is not None and each.id not in paused]


async def _record(
    tx: Tx, actor: Actor, action: str, gateway: str, now: int, details: str = ""
) -> None:
    subject = f"{gateway}: account of the environment{details}"
    await merchants.record_audit(tx, actor, action, "", subject, now)
