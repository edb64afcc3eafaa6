"""The environment's accounts in ``opentill gateways pause``, ``resume`` and ``set``."""

from typing import TYPE_CHECKING, Any

from opentill.cli import session

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.gateways.account import Breaker
    from opentill.gateways.accounts import AccountChanges, EnvironmentStatus
    from opentill.merchants import Actor


def set_status(gateway: str, status: "EnvironmentStatus", actor: "Actor") -> dict[str, Any]:
    """Pause or resume the environment's account at a gateway, and return it as a record."""
    from opentill.gateways import accounts

    environment = session.settings().gateways

    async def work(tx: "Tx", now: int) -> None:
        await accounts.set_environment_status(
            tx, gateway, status, now, environment=environment, actor=actor
        )

    session.transact(work)
    return {"id": gateway, "label": gateway, "gateway": gateway, "status": status}


def set_breaker(
    gateway: str, changes: "AccountChanges", settings: "Settings", actor: "Actor"
) -> dict[str, Any]:
    """Change when the environment's account at a gateway pauses itself; return it as a record."""
    from opentill.gateways import accounts

    async def work(tx: "Tx", now: int) -> "Breaker":
        return await accounts.set_breaker(
            tx, gateway, changes, now, environment=settings.gateways, actor=actor
        )

    breaker = session.transact(work, settings)
    record = {"id": gateway, "label": gateway, "gateway": gateway}
    return record | {"pausesItself": accounts.breaker_text(breaker) or "never"}
