"""How much waits for a member on pages of the menu: the counts beside its links."""

from collections.abc import Mapping

from opentill import disputes, refunds
from opentill.portal.request import PageRequest


async def count_waiting(request: PageRequest) -> Mapping[str, int]:
    """Count the disputes without a response and the failed refunds, by the path of their page.

    Staff who visit a merchant's pages can do nothing about either, and see no counts.
    """
    access = request.optional_access
    if access is None or access.role is None:
        return {}
    counts: dict[str, int] = {}
    async with request.app.db.connection() as tx:
        if access.may("disputes.respond"):
            unanswered = await disputes.summarize_unanswered(tx, access.merchant_id, request.now)
            counts["/disputes"] = unanswered.number
        if access.may("payments.refund"):
            counts["/payments"] = await refunds.count_failed(tx, access.merchant_id)
    return counts
