"""``/v1/payouts``: what was and will be sent to the merchant's bank."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from opentill.db.database import Tx
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Page, Size, listing
from opentill.payouts import queries, service
from opentill.payouts.model import Payout, PayoutOut, Status


class ListQuery(msgspec.Struct, frozen=True):
    """Which payouts to list."""

    page: Page = 1
    size: Size = 20
    status: Annotated[Status, Meta(description="PENDING, PAID or FAILED")] | None = None


async def _page(tx: Tx, merchant_id: str, query: ListQuery) -> tuple[list[Payout], int]:
    offset = (query.page - 1) * query.size
    if query.status is None:
        items = await queries.LIST.all(tx, merchant_id=merchant_id, limit=query.size, offset=offset)
        return items, await queries.COUNT.get(tx, merchant_id=merchant_id) or 0
    items = await queries.LIST_BY_STATUS.all(
        tx, merchant_id=merchant_id, limit=query.size, offset=offset, status=query.status
    )
    return items, await queries.COUNT_BY_STATUS.get(
        tx, merchant_id=merchant_id, status=query.status
    ) or 0


async def list_payouts(request: ApiRequest[ListQuery, Nothing]) -> Listing[PayoutOut]:
    """List payouts, newest first."""
    items, total = await request.app.replica.read(
        lambda tx: _page(tx, request.merchant_id, request.query)
    )
    shown = [PayoutOut.of(item) for item in items]
    return listing(shown, request.query.page, request.query.size, total)


async def read(request: ApiRequest[Nothing, Nothing]) -> PayoutOut:
    """Return a payout."""
    async with request.app.db.connection() as tx:
        return PayoutOut.of(await service.find(tx, request.merchant_id, request.path["id"]))


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
        tag="Payouts",
        summary="List payouts",
        description="An extension of the contract. Newest first. The operator makes payouts: one "
        "is PENDING until the bank has sent it; what FAILED is back on the balance with its fee.",
        query=ListQuery,
        response=Listing[PayoutOut],
        read=list_payouts,
        response_example={
            "items": [_PAYOUT],
            "pagination": {"page": 1, "size": 20, "total": 1, "totalPages": 1},
        },
    ),
    Operation(
        method="GET",
        path="/v1/payouts/{id}",
        tag="Payouts",
        summary="Get a payout",
        description="An extension of the contract. With the bank's reference once it was sent.",
        response=PayoutOut,
        read=read,
        response_example=_PAYOUT,
    ),
)
