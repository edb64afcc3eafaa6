"""``/v1/payment-links`` (contract.md#payment-links)."""

from typing import Any, Final

from opentill.db.database import Tx
from opentill.http import paging
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing
from opentill.payment_links import service
from opentill.payment_links.model import LinkBody, LinkUpdate, PaymentLink, PaymentLinkOut, Usage
from opentill.payment_links.queries import ListQuery


def _link_out(request: ApiRequest[Any, Any], link: PaymentLink, usage: Usage) -> PaymentLinkOut:
    return PaymentLinkOut.from_link(link, usage, request.app.settings.public_url, request.now)


async def create(request: ApiRequest[Nothing, LinkBody], tx: Tx) -> PaymentLinkOut:
    """Create a payment link."""
    link = await service.create(
        tx, request.app.gateways, request.merchant_id, request.body, request.now
    )
    return _link_out(request, link, Usage())


async def list_links(request: ApiRequest[ListQuery, Nothing]) -> Listing[PaymentLinkOut]:
    """List payment links, newest first."""
    query, merchant_id = request.query, request.merchant_id
    links, total = await service.list_page(request.app.db, merchant_id, query)
    async with request.app.db.connection() as tx:
        usage = await service.find_usage(tx, merchant_id, [link.id for link in links])
    rows = [_link_out(request, link, usage[link.id]) for link in links]
    return paging.listing(rows, query.page, query.size, total)


async def get(request: ApiRequest[Nothing, Nothing]) -> PaymentLinkOut:
    """Return a payment link."""
    async with request.app.db.connection() as tx:
        link = await service.find(tx, request.merchant_id, request.path["id"])
        usage = await service.find_usage(tx, link.merchant_id, [link.id])
    return _link_out(request, link, usage[link.id])


async def update(request: ApiRequest[Nothing, LinkUpdate], tx: Tx) -> PaymentLinkOut:
    """Update a payment link."""
    link_id = request.path["id"]
    link = await service.update(tx, request.merchant_id, link_id, request.body, request.now)
    usage = await service.find_usage(tx, link.merchant_id, [link.id])
    return _link_out(request, link, usage[link.id])


_LINK: Final[dict[str, Any]] = {
    "id": "plink_01m7y0m0jzefzv5n8efcf1hqw7",
    "url": "https://pay.example.com/pay/rqdceb7m99yhnfshefk9760251e2xjd2",
    "status": "ACTIVE",
    "active": True,
    "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "maxQuantity": 10,
    "expiresAt": None,
    "maxUses": 100,
    "openSessions": 1,
    "payments": 12,
    "sales": [{"currency": "USD", "payments": 12, "amount": "119.88"}],
    "successUrl": None,
    "paymentMethods": None,
    "locale": None,
    "clientReference": None,
    "metadata": {"campaign": "spring"},
    "createdAt": 1736932500000,
    "updatedAt": 1736932500000,
}
_NEW: Final[dict[str, Any]] = {**_LINK, "openSessions": 0, "payments": 0, "sales": []}

operations: Final = (
    Operation(
        method="POST",
        path="/v1/payment-links",
        scope="payment-links:write",
        tag="Links",
        summary="Create a payment link",
        description="Give the `url` to any number of customers: each customer who continues "
        "gets a checkout session of their own. A link sells a product, or an `item` "
        "with a price or with bounds for the amount that the customer enters.",
        body=LinkBody,
        needs_body=True,
        response=PaymentLinkOut,
        status=201,
        write=create,
        refusals=(
            "a product that is unknown or archived, or a product together with an `item`",
            "an `item` without a price or two bounds, or with both",
            "`expiresAt` in the past",
            "`paymentMethods` of which none is on offer for the currency",
        ),
        example={
            "productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
            "maxQuantity": 10,
            "maxUses": 100,
            "metadata": {"campaign": "spring"},
        },
        response_example=_NEW,
    ),
    Operation(
        method="GET",
        path="/v1/payment-links",
        scope="payment-links:read",
        tag="Links",
        summary="List payment links",
        description="Payment links are listed newest first.",
        query=ListQuery,
        response=Listing[PaymentLinkOut],
        read=list_links,
        response_example=paging.page_example(_LINK),
    ),
    Operation(
        method="GET",
        path="/v1/payment-links/{id}",
        scope="payment-links:read",
        tag="Links",
        summary="Get a payment link",
        description="The response has what the link has sold.",
        response=PaymentLinkOut,
        read=get,
        response_example=_LINK,
    ),
    Operation(
        method="PATCH",
        path="/v1/payment-links/{id}",
        scope="payment-links:write",
        tag="Links",
        summary="Update a payment link",
        description="Only the fields that are sent change. The product or item and its price "
        "stay the same, but an item can get another name. Open sessions do not "
        "change.",
        body=LinkUpdate,
        response=PaymentLinkOut,
        write=update,
        refusals=(
            "an `item` of a link that sells a product",
            "`maxQuantity` over 1 where the customer enters the amount",
            "`expiresAt` in the past",
        ),
        example={"active": False},
        response_example={**_LINK, "status": "INACTIVE", "active": False},
    ),
)
