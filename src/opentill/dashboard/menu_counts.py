"""How much waits for a member on pages of the menu: the counts beside its links."""

from collections.abc import Mapping

from opentill import disputes
from opentill.db.database import Tx
from opentill.disputes import WaitingCases
from opentill.portal.request import PageRequest


async def count_waiting(request: PageRequest) -> Mapping[str, int]:
    """Count the disputes without a response and the failed refunds, by the path of their page.

    Staff who visit a merchant's pages can do nothing about either, and see no counts.
    """
    access = request.optional_access
    if access is None or access.role is None:
        return {}
    may_respond, may_refund = access.may("disputes.respond"), access.may("payments.refund")
    if not (may_respond or may_refund):
        return {}
    async with request.app.db.connection() as tx:
        cases = await read_cases(request, tx)
    counts: dict[str, int] = {}
    if may_respond:
        counts["/disputes"] = cases.disputes
    if may_refund:
        counts["/payments"] = cases.failed_refunds
    return counts


async def read_cases(request: PageRequest, tx: Tx) -> WaitingCases:
    """Return the merchant's waiting cases, read once for each request."""
    if request.cases is None:
        request.cases = await disputes.count_waiting(tx, request.access.merchant_id, request.now)
    return request.cases
