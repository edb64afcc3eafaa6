"""``/v1/disputes``: payments that customers dispute."""

from typing import Any, Final

from opentill import list_counts
from opentill.disputes import queries, service
from opentill.disputes.model import DisputeDetail, DisputeOut
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, page_example


async def list_disputes(request: ApiRequest[queries.ListQuery, Nothing]) -> Listing[DisputeOut]:
    """List disputes, newest first."""
    return await list_counts.respond(request, queries.LISTS, DisputeOut.from_dispute)


async def get(request: ApiRequest[Nothing, Nothing]) -> DisputeDetail:
    """Return a dispute with its notes."""
    async with request.app.db.connection() as tx:
        dispute = await service.find(tx, request.merchant_id, request.path["id"])
        return DisputeDetail.from_dispute(dispute, await service.list_notes(tx, dispute))


_DISPUTE: Final[dict[str, Any]] = {
    "id": "dp_01m7y0m0jzefzv5n8efcf1hqw5",
    "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "status": "LOST",
    "amount": "17.98",
    "currency": "USD",
    "debit": "17.98",
    "fee": "15.00",
    "debitCurrency": "USD",
    "reason": "fraudulent",
    "respondBy": 1738055700000,
    "createdAt": 1737623700000,
    "updatedAt": 1738142100000,
    "closedAt": 1738142100000,
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/disputes",
        scope="disputes:read",
        tag="Disputes",
        summary="List disputes",
        description="Disputes are listed newest first. `debit` and `fee` are what losing the "
        "dispute takes from the balance, in `debitCurrency`.",
        query=queries.ListQuery,
        response=Listing[DisputeOut],
        read=list_disputes,
        response_example=page_example(_DISPUTE),
    ),
    Operation(
        method="GET",
        path="/v1/disputes/{id}",
        scope="disputes:read",
        tag="Disputes",
        summary="Get a dispute",
        description="The response has the notes of the operator and of your team, oldest first.",
        response=DisputeDetail,
        read=get,
        response_example={
            **_DISPUTE,
            "notes": [{"at": 1737710100000, "note": "Proof of delivery sent to the bank."}],
        },
    ),
)
