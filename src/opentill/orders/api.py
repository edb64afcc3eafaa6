"""``/v1/orders`` (contract.md#orders)."""

import functools
from typing import Annotated, Any, Final

import msgspec

from opentill import list_counts
from opentill.core.errors import Invalid
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.http.fields import meaning
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, Millis, given, listing, page_example
from opentill.http.responses import Download
from opentill.orders import export, livemode, queries, service
from opentill.orders.model import named
from opentill.orders.wire import OrderDetail, OrderOut


class ExportQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which orders to export; times are inclusive."""

    start_date: Annotated[
        Millis | None, meaning("Only orders that were made at this time or later, Unix ms.")
    ] = None
    end_date: Annotated[
        Millis | None, meaning("Only orders that were made at this time or earlier, Unix ms.")
    ] = None


def _range(query: queries.ListQuery | ExportQuery) -> tuple[int, int]:
    start = 0 if query.start_date is None else query.start_date
    end = list_counts.FOREVER if query.end_date is None else query.end_date
    if start > end:
        raise Invalid("endDate", "endDate must not be before startDate")
    return start, end


async def _has_product(merchant_id: str, product_id: str, tx: Tx) -> bool:
    return bool(await queries.HAS_PRODUCT.get(tx, merchant_id=merchant_id, product_id=product_id))


async def list_orders(request: ApiRequest[queries.ListQuery, Nothing]) -> Listing[OrderOut]:
    """List orders, newest first."""
    query, merchant_id = request.query, request.merchant_id
    within = _range(query)
    here = request.app.replica.reading()
    if query.product_id is not None and not (
        is_id(query.product_id)
        and await here.read(functools.partial(_has_product, merchant_id, query.product_id))
    ):
        return listing([], query.page, query.size, 0)
    counts = list_counts.ListKey(merchant_id, "orders", query.product_id or "", query.status)
    rows = list_counts.Paginator(here, queries.LISTS, merchant_id, given(query), counts)
    found, total = await rows.page(query.page, query.size, within)
    deployment = request.app.settings.livemode
    orders = await livemode.known(here.read, found, deployment=deployment)
    return listing([OrderOut.of(order) for order in orders], query.page, query.size, total)


async def get(request: ApiRequest[Nothing, Nothing]) -> OrderDetail:
    """Return an order with everything."""
    async with request.app.db.connection() as tx:
        order = await service.find(tx, request.merchant_id, request.path["id"])
        live = request.app.settings.livemode
        return OrderDetail.of(await livemode.known_one(tx, order, deployment=live))


async def export_orders(request: ApiRequest[ExportQuery, Nothing]) -> Download:
    """Export orders as CSV, oldest first."""
    start, end = _range(request.query)
    here = request.app.replica.reading()
    return Download(
        content_type="text/csv; charset=utf-8",
        filename=export.filename(request.query.start_date, request.query.end_date),
        chunks=export.counted(
            request.app.exports,
            here,
            request.merchant_id,
            start,
            end,
            livemode=request.app.settings.livemode,
        ),
    )


_ORDER: Final[dict[str, Any]] = {
    "id": "order_01m7y0m0jzefzv5n8efcf1hqw2",
    "checkoutSessionId": "cs_rqdceb7m99yhnfshefk9760251e2xjd2",
    "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "customerEmail": "ada@example.com",
    "customerName": None,
    "amount": "9.99",
    "currency": "USD",
    "platformFeeRate": "0.04",
    "platformFee": "0.40",
    "netAmount": "9.59",
    "settledAmount": "9.59",
    "settledCurrency": "USD",
    "exchangeRate": "1",
    "hkdExchangeRate": None,
    "paymentMethod": "CREDIT_CARD",
    "status": "PAID",
    "paidAt": 1736932560000,
    "settledAt": None,
    "metadata": {"cart": "42"},
    "createdAt": 1736932500000,
    "livemode": True,
}
_DETAIL: Final[dict[str, Any]] = {
    **_ORDER,
    "baseAmount": "9.99",
    "payableAmount": "9.99",
    "refundStatus": "NONE",
    "refundedAmount": "0",
    "payerIp": "203.0.113.7",
    "updatedAt": 1736932560000,
    "rollingReserveRate": "0",
    "rollingReserveAmount": "0.00",
    "rollingReserveStatus": "NONE",
    "rollingReserveReleaseAt": None,
}

operations: Final = (
    Operation(
        method="GET",
        path="/v1/orders",
        tag="Orders",
        summary="List orders",
        description="Newest first. `startDate` and `endDate` are about when orders were created, "
        "both inclusive.",
        query=queries.ListQuery,
        response=Listing[OrderOut],
        read=list_orders,
        response_example=page_example(_ORDER),
    ),
    Operation(
        method="GET",
        path="/v1/orders/export",
        tag="Orders",
        summary="Export orders",
        description="UTF-8 CSV (RFC 4180) with a header row, oldest order first. `startDate` and "
        "`endDate` are about when orders were created, both inclusive. A few exports of a merchant "
        "may run at once; one more gets 429 with Retry-After.",
        query=ExportQuery,
        response=Download,
        read=export_orders,
    ),
    Operation(
        method="GET",
        path="/v1/orders/{id}",
        tag="Orders",
        summary="Get an order",
        description="Everything about an order, by its id or by the `trade_no` that Epay shops "
        "know it by. Deliver when its `status` is PAID or SETTLED.",
        id_of=named,
        response=OrderDetail,
        read=get,
        response_example=_DETAIL,
    ),
)
