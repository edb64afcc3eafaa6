"""Pausing and resuming the environment's accounts by ``opentill gateways pause`` and ``resume``."""

from typing import TYPE_CHECKING, Any

from opentill.cli import session

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.gateways.accounts import EnvironmentStatus
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
