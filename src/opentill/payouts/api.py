"""``/v1/payouts``: a merchant's payouts, pending and past."""

from typing import Any, Final

from opentill import list_counts
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, page_example
from opentill.payouts import queries, service
from opentill.payouts.model import PayoutOut


async def list_payouts(request: ApiRequest[queries.ListQuery, Nothing]) -> Listing[PayoutOut]:
    """List payouts, newest first."""
    return await list_counts.respond(request, queries.LISTS, PayoutOut.from_payout)


async def get(request: ApiRequest[Nothing, Nothing]) -> PayoutOut:
    """Return a payout."""
    async with request.app.db.connection() as tx:
        return PayoutOut.from_payout(
            await service.find(tx, request.merchant_id, request.path["id"])
        )


_PAYOUT: Final[dict[str, Any]] = {
    "id": "po_01m7y0m0jzefzv5n8efcf1hqw5",
    "status": "PAID",
    "amount": "250.00",
    "fee": "1.50",
    "currency": "USD",
    "bankReference": "TRN-20250117-0042",
    "failureReason": None,
    "createdAt": 1737018900000,
    "updatedAt": 1737105300000,
    "paidAt": 1737105300000,
    "failedAt": None,
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/payouts",
        scope="payouts:read",
        tag="Payouts",
        summary="List payouts",
        description="Payouts are listed newest first. The operator creates them: a payout is "
        "PENDING until the bank has sent it; the amount and fee of one that FAILED "
        "are on the balance again.",
        query=queries.ListQuery,
        response=Listing[PayoutOut],
        read=list_payouts,
        response_example=page_example(_PAYOUT),
    ),
    Operation(
        method="GET",
        path="/v1/payouts/{id}",
        scope="payouts:read",
        tag="Payouts",
        summary="Get a payout",
        description="The response has the bank's reference once the bank has sent the payout.",
        response=PayoutOut,
        read=get,
        response_example=_PAYOUT,
    ),
)
