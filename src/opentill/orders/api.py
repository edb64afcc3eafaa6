"""``/v1/orders`` (contract.md#orders)."""

from typing import Any, Final

from opentill.http import csvfile
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, listing, page_example
from opentill.http.responses import Download
from opentill.http.schemas import nullable_fields
from opentill.orders import cards, livemode, service
from opentill.orders.export import service as export
from opentill.orders.model import parse_order_id
from opentill.orders.search import filters
from opentill.orders.search.filters import ExportQuery, OrdersQuery
from opentill.orders.wire import OrderDetail, OrderOut


async def list_orders(request: ApiRequest[OrdersQuery, Nothing]) -> Listing[OrderOut]:
    """List orders, newest first."""
    query = request.query
    db = request.app.replica.reading()
    page, total = await filters.list_page(db, request.merchant_id, query)
    deployment = request.app.settings.livemode
    orders = await livemode.all_with_livemode(db.read, page, deployment=deployment)
    return listing([OrderOut.from_order(order) for order in orders], query.page, query.size, total)


async def get(request: ApiRequest[Nothing, Nothing]) -> OrderDetail:
    """Return an order with all its fields."""
    async with request.app.db.connection() as tx:
        order = await service.find(tx, request.merchant_id, request.path["id"])
        card = await cards.of_order(tx, order)
        deployment = request.app.settings.livemode
        order = await livemode.with_livemode(tx, order, deployment=deployment)
        return OrderDetail.from_order(order, card)


class FileQuery(ExportQuery, frozen=True, kw_only=True, rename="camel"):
    """The orders to export, and the form of the file."""

    bom: csvfile.WithBom = False


async def export_orders(request: ApiRequest[FileQuery, Nothing]) -> Download:
    """Export orders as CSV, oldest first."""
    query = request.query
    db = request.app.replica.reading()
    selection = await filters.resolve_query(db, request.merchant_id, query)
    chunks = export.export_csv_limited(
        request.app.exports,
        db,
        request.merchant_id,
        selection,
        livemode=request.app.settings.livemode,
    )
    return Download(
        content_type=csvfile.CONTENT_TYPE,
        filename=export.filename(query.start_date, query.end_date),
        chunks=csvfile.with_bom(chunks) if query.bom else chunks,
    )


_ORDER: Final[dict[str, Any]] = {
    **nullable_fields(OrderOut),
    "id": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "checkoutSessionId": "cs_rqdceb7m99yhnfshefk9760251e2xjd2",
    "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "customerEmail": "ada@example.com",
    "amount": "19.98",
    "currency": "USD",
    "platformFeeRate": "0.04",
    "platformFee": "0.80",
    "netAmount": "19.18",
    "settledAmount": "19.18",
    "settledCurrency": "USD",
    "exchangeRate": "1",
    "paymentMethod": "CREDIT_CARD",
    "status": "PAID",
    "paidAt": 1736932560000,
    "metadata": {"cart": "42"},
    "createdAt": 1736932500000,
    "livemode": True,
    "quantity": 2,
    "clientReference": "INV-2025-0042",
}
_DETAIL: Final[dict[str, Any]] = {
    **nullable_fields(OrderDetail),
    **_ORDER,
    "baseAmount": "19.98",
    "payableAmount": "19.98",
    "refundStatus": "NONE",
    "refundedAmount": "0",
    "payerIp": "203.0.113.7",
    "updatedAt": 1736932560000,
    "rollingReserveRate": "0",
    "rollingReserveAmount": "0.00",
    "rollingReserveStatus": "NONE",
    "cardBrand": "visa",
    "cardLast4": "4242",
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/orders",
        scope="orders:read",
        tag="Orders",
        summary="List orders",
        description="Newest first. `startDate` and `endDate` are about when orders were created, "
        "both inclusive. Orders match all of the filters. `query` searches customers, amounts, "
        "cards, ids, numbers and metadata, and finds an order as soon as it exists.",
        query=OrdersQuery,
        refusals=("a `query` that more than 200 email addresses begin with",),
        response=Listing[OrderOut],
        read=list_orders,
        response_example=page_example(_ORDER),
    ),
    Operation(
        method="GET",
        path="/v1/orders/export",
        scope="orders:export",
        tag="Orders",
        summary="Export orders",
        description="UTF-8 CSV (RFC 4180) with a header row, oldest order first. `startDate` and "
        "`endDate` are about when orders were created, both inclusive. A merchant can "
        "run four exports at the same time; one more gets 429 with Retry-After. The filters are "
        "the same as those of the list.",
        query=FileQuery,
        response=Download,
        read=export_orders,
    ),
    Operation(
        method="GET",
        path="/v1/orders/{id}",
        scope="orders:read",
        tag="Orders",
        summary="Get an order",
        description="An order by its id, or by its Epay `trade_no`. Fulfill the order when its "
        "`status` is PAID or SETTLED.",
        id_of=parse_order_id,
        response=OrderDetail,
        read=get,
        response_example=_DETAIL,
    ),
)
