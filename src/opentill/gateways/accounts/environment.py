"""Pauses of the environment's accounts, which have no rows of their own.

Their credentials are settings, but whether they take new payments is stored, so that a pause needs
no restart. Every process polls the revision of the routing rules, which a change increases.
"""

from collections.abc import Container
from typing import Final, Literal

from opentill import merchants
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways.accounts import queries
from opentill.gateways.rules.queries import TOUCH
from opentill.merchants import Actor

EnvironmentStatus = Literal["ACTIVE", "PAUSED"]
_ACTIONS: Final[dict[EnvironmentStatus, str]] = {
    "ACTIVE": "gateways resume",
    "PAUSED": "gateways pause",
}


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
    if gateway not in environment:
        reason = f"account must be one of OPENTILL_GATEWAYS, not {gateway!r}"
        raise Invalid("account", reason)
    await TOUCH.run(tx)  # locks the pauses, too
    if status == "PAUSED":
        changed = await queries.PAUSE_GATEWAY.run(tx, gateway=gateway, now=now)
    else:
        changed = await queries.RESUME_GATEWAY.run(tx, gateway=gateway)
    if changed:
        await merchants.record_audit(
            tx, actor, _ACTIONS[status], "", f"{gateway}: account of the environment", now
        )
