"""Changes the expiry of people's links when the operator of a sandbox moves business time."""

from opentill.db.database import Tx
from opentill.people import queries
from opentill.people.lifetimes import LINK_MS


async def postpone_links(tx: Tx, now: int, by_ms: int) -> None:
    """Let valid links expire ``by_ms`` later, because business time is about to be moved ahead."""
    await queries.POSTPONE_LINKS.run(tx, now=now, by_ms=by_ms)


async def shorten_links(tx: Tx, now: int) -> None:
    """Let no link last longer than a new one, because business time was moved back."""
    await queries.SHORTEN_LINKS.run(tx, latest=now + LINK_MS)
