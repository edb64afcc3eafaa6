"""What the worker does for orders: asks gateways about attempts, gives duplicates back."""

from collections.abc import Mapping

from opentill.core import jobs
from opentill.core.db import Db
from opentill.gateways.model import Gateway
from opentill.orders import payments, queries
from opentill.orders.model import Attempt

_LEASE_MS = 60_000


async def check_attempts(
    db: Db, gateways: Mapping[str, Gateway], public_url: str, now: int, batch: int = 50
) -> int:
    """Ask about a batch of attempts that are due and return how many there were."""
    async with db.connection() as tx:
        due = await queries.CLAIM_ATTEMPTS.all(tx, now, now + _LEASE_MS, batch)

    async def one(attempt: Attempt) -> None:
        if attempt.status == "DUPLICATE":
            await payments.give_back(db, gateways, attempt, public_url, now)
            after = attempt
        else:
            after = await payments.ask(db, gateways, attempt, now)
        if after.status == attempt.status:
            again = payments.next_check(attempt, now)
            async with db.connection() as tx:
                await queries.ASK_AGAIN.run(
                    tx, attempt.merchant_id, attempt.id, attempt.status, again
                )

    await jobs.each(due, one, lambda attempt: attempt.id)
    return len(due)
