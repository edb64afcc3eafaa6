"""``/v1/orders/{id}/refunds`` and ``/v1/refunds`` (contract.md#refunds)."""

from typing import Any, Final

import msgspec

from opentill import orders
from opentill.core.errors import NotFound
from opentill.db.database import Tx
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Page, Size, listing, page_example
from opentill.refunds import queries, service
from opentill.refunds.model import Refund, RefundBody, RefundOut


class ListQuery(msgspec.Struct, frozen=True):
    """The page of an order's refunds to return."""

    page: Page = 1
    size: Size = 20


async def create(request: ApiRequest[Nothing, RefundBody], tx: Tx) -> RefundOut:
    """Refund an order in full or in part."""
    refund = await service.create(
        tx, request.merchant_id, request.path["id"], request.body, request.now
    )
    return RefundOut.from_refund(refund)


async def get(request: ApiRequest[Nothing, Nothing]) -> RefundOut:
    """Return a refund."""
    async with request.app.db.connection() as tx:
        return RefundOut.from_refund(
            await service.find(tx, request.merchant_id, request.path["id"])
        )


async def list_refunds(request: ApiRequest[ListQuery, Nothing]) -> Listing[RefundOut]:
    """List an order's refunds, newest first."""
    query = request.query
    order = {"merchant_id": request.merchant_id, "order_id": request.path["id"]}

    async def page(tx: Tx) -> tuple[list[Refund], int | None]:
        if not await orders.exists(tx, **order):
            raise NotFound
        offset = (query.page - 1) * query.size
        items = await queries.OF_ORDER.all(tx, **order, limit=query.size, offset=offset)
        return items, await queries.COUNT_OF_ORDER.get(tx, **order)

    items, total = await request.app.replica.read(page)
    return listing(
        [RefundOut.from_refund(item) for item in items], query.page, query.size, total or 0
    )


_REFUND: Final[dict[str, Any]] = {
    "id": "re_01m7y0m0jzefzv5n8efcf1hqw3",
    "merchantId": "mer_01m7y0m0jzefzv5n8efcf1hqw4",
    "orderId": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "refundNo": "RMA-7",
    "status": "PROCESSING",
    "source": "REQUEST",
    "amount": "2.00",
    "currency": "USD",
    "userRefundAmountUsd": "2.00",
    "merchantDebitUsd": "2.00",
    "reason": "One item was broken",
    "errorMessage": None,
    "createdAt": 1736932600000,
    "updatedAt": 1736932600000,
    "succeededAt": None,
    "failedAt": None,
}

operations: Final = (
    Operation(
        method="POST",
        path="/v1/orders/{id}/refunds",
        scope="refunds:write",
        tag="Refunds",
        summary="Create a refund",
        description="Refunds a payment in full or in part. Without `amount`, everything that has "
        "not been refunded yet is refunded. The amount is held at once; the refund is PROCESSING "
        "until the bank confirms or refuses it.",
        body=RefundBody,
        response=RefundOut,
        status=201,
        write=create,
        refusals=(
            "an order that is not PAID or SETTLED",
            "an amount over what is left to refund",
            "a refundNo that another refund has",
            "a balance that would fall below the overdraft limit",
        ),
        forbidden="A merchant whose `refund` the operator has switched off.",
        example={"amount": "2.00", "reason": "One item was broken", "refundNo": "RMA-7"},
        response_example=_REFUND,
    ),
    Operation(
        method="GET",
        path="/v1/orders/{id}/refunds",
        scope="refunds:read",
        tag="Refunds",
        summary="List an order's refunds",
        description="Refunds are listed newest first, with those that failed.",
        query=ListQuery,
        response=Listing[RefundOut],
        read=list_refunds,
        response_example=page_example(_REFUND),
    ),
    Operation(
        method="GET",
        path="/v1/refunds/{id}",
        scope="refunds:read",
        tag="Refunds",
        summary="Get a refund",
        description="`status` says whether the bank has sent the money.",
        response=RefundOut,
        read=get,
        response_example=_REFUND,
    ),
)
