"""``/v1/products`` (contract.md#products)."""

from typing import Any, Final

from opentill import list_counts
from opentill.db.database import Tx
from opentill.http.operations import ApiRequest, Nothing, Operation
from opentill.http.paging import Listing, page_example
from opentill.products import queries, service
from opentill.products.model import ProductBody, ProductOut, ProductUpdate


async def create(request: ApiRequest[Nothing, ProductBody], tx: Tx) -> ProductOut:
    """Create a product."""
    return ProductOut.from_product(
        await service.create(tx, request.merchant_id, request.body, request.now)
    )


async def get(request: ApiRequest[Nothing, Nothing]) -> ProductOut:
    """Return a product, archived ones too."""
    async with request.app.db.connection() as tx:
        return ProductOut.from_product(
            await service.find(tx, request.merchant_id, request.path["id"])
        )


async def list_products(request: ApiRequest[queries.ListQuery, Nothing]) -> Listing[ProductOut]:
    """List products, newest first."""
    return await list_counts.respond(request, queries.LISTS, ProductOut.from_product)


async def update(request: ApiRequest[Nothing, ProductUpdate], tx: Tx) -> ProductOut:
    """Change a product."""
    product_id = request.path["id"]
    return ProductOut.from_product(
        await service.update(tx, request.merchant_id, product_id, request.body, request.now)
    )


async def archive(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Archive a product."""
    await service.archive(tx, request.merchant_id, request.path["id"], request.now)


_BODY: Final[dict[str, Any]] = {
    "name": "Tea, 100 g",
    "price": "9.99",
    "currency": "USD",
    "description": "Loose leaf green tea.",
    "metadata": {"sku": "TEA-100"},
}
_PRODUCT: Final[dict[str, Any]] = {
    "id": "prod_01m7y0m0jzefzv5n8efcf1hqw1",
    "name": "Tea, 100 g",
    "description": "Loose leaf green tea.",
    "image": None,
    "price": "9.99",
    "currency": "USD",
    "status": "ACTIVE",
    "metadata": {"sku": "TEA-100"},
    "createdAt": 1736932500000,
    "updatedAt": 1736932500000,
}

operations: Final = (
    Operation(
        method="POST",
        path="/v1/products",
        scope="products:write",
        tag="Products",
        summary="Create a product",
        description="A product has one price in one currency. Checkout sessions are opened for "
        "products. If the currency is not your settlement currency, you can create the product at "
        "any time, but no session can be opened for it until the operator has set an exchange "
        "rate.",
        body=ProductBody,
        response=ProductOut,
        status=201,
        write=create,
        refusals=("a currency that is not active", "a fraction that the currency does not have"),
        example=_BODY,
        response_example=_PRODUCT,
    ),
    Operation(
        method="GET",
        path="/v1/products",
        scope="products:read",
        tag="Products",
        summary="List products",
        description="Products are listed newest first, with archived ones unless `status` says "
        "otherwise.",
        query=queries.ListQuery,
        response=Listing[ProductOut],
        read=list_products,
        response_example=page_example(_PRODUCT),
    ),
    Operation(
        method="GET",
        path="/v1/products/{id}",
        scope="products:read",
        tag="Products",
        summary="Get a product",
        description="An archived product can be read like any other.",
        response=ProductOut,
        read=get,
        response_example=_PRODUCT,
    ),
    Operation(
        method="PATCH",
        path="/v1/products/{id}",
        scope="products:write",
        tag="Products",
        summary="Update a product",
        description="Only the fields that are sent change; open "
        "sessions keep the price they were opened with.",
        body=ProductUpdate,
        response=ProductOut,
        write=update,
        example={"price": "8.99"},
        response_example={**_PRODUCT, "price": "8.99"},
    ),
    Operation(
        method="DELETE",
        path="/v1/products/{id}",
        scope="products:write",
        tag="Products",
        summary="Archive a product",
        description="The product stays readable, and no new checkout sessions can use it.",
        response=None,
        write=archive,
    ),
)
