"""``/v1/disputes``: what customers took back through their banks. An extension of the contract."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from opentill.db.database import Tx
from opentill.disputes import queries, service
from opentill.disputes.model import Dispute, DisputeDetail, DisputeOut, Status
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Page, Size, listing


class ListQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which disputes to list."""

    page: Page = 1
    size: Size = 20
    status: (
        Annotated[Status, Meta(description="a dispute status: OPEN, WON, LOST or RECOVERED")] | None
    ) = None
    order_id: Annotated[str, Meta(description="the id of one of your orders")] | None = None


async def list_disputes(request: ApiRequest[ListQuery, Nothing]) -> Listing[DisputeOut]:
    """List disputes, newest first."""
    query, merchant_id = request.query, request.merchant_id
    which = {"merchant_id": merchant_id, "status": query.status, "order_id": query.order_id}

    async def page(tx: Tx) -> tuple[list[Dispute], int | None]:
        offset = (query.page - 1) * query.size
        found = await queries.LIST.all(tx, **which, limit=query.size, offset=offset)
        return found, await queries.COUNT.get(tx, **which)

    found, total = await request.app.replica.read(page)
    return listing([DisputeOut.of(item) for item in found], query.page, query.size, total or 0)


async def read(request: ApiRequest[Nothing, Nothing]) -> DisputeDetail:
    """Return a dispute with its notes."""
    async with request.app.db.connection() as tx:
        dispute = await service.find(tx, request.merchant_id, request.path["id"])
        return DisputeDetail.of(dispute, await service.notes(tx, dispute))


_DISPUTE: Final[dict[str, Any]] = {
    "id": "dp_01m7y0m0jzefzv5n8efcf1hqw5",
    "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "status": "LOST",
    "amount": "9.99",
    "currency": "USD",
    "debit": "9.99",
    "fee": "15.00",
    "debitCurrency": "USD",
    "reason": "fraudulent",
    "createdAt": 1737537300000,
    "updatedAt": 1738142100000,
    "closedAt": 1738142100000,
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/disputes",
        tag="Disputes",
        summary="List disputes",
        description="An extension of the contract. Newest first. `debit` and `fee` are what "
        "losing the dispute takes from the balance, in `debitCurrency`.",
        query=ListQuery,
        response=Listing[DisputeOut],
        read=list_disputes,
        response_example={
            "items": [_DISPUTE],
            "pagination": {"page": 1, "size": 20, "total": 1, "totalPages": 1},
        },
    ),
    Operation(
        method="GET",
        path="/v1/disputes/{id}",
        tag="Disputes",
        summary="Get a dispute",
        description="An extension of the contract. With the operator's notes, oldest first.",
        response=DisputeDetail,
        read=read,
        response_example={
            **_DISPUTE,
            "notes": [{"at": 1737623700000, "note": "Proof of delivery sent to the bank."}],
        },
    ),
)
