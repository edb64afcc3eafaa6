"""The lists of products and payment links as CSV, in the part of the list that is shown."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from starlette.responses import Response

from opentill import checkouts
from opentill.core import money
from opentill.dashboard import links
from opentill.dashboard import products as products_page
from opentill.http import csvfile
from opentill.portal import downloads
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest

_PRODUCT_COLUMNS: Final = (
    "id", "name", "description", "price", "currency", "status", "payments", "image", "created_at",
)  # fmt: skip
_LINK_COLUMNS: Final = (
    "id", "name", "url", "product_id", "least_price", "most_price", "currency", "status",
    "client_reference", "payments", "created_at",
)  # fmt: skip


async def products_file(request: PageRequest) -> Response:
    """Send the products of the chosen tab or search, newest first."""

    async def rows() -> AsyncGenerator[Sequence[str], None]:
        async for page in products_page.read_pages(request):
            async with request.app.db.connection() as tx:
                ids = [product.id for product in page]
                sales = await checkouts.find_sales(tx, request.merchant_id, ids)
            for product in page:
                yield _format_cells(
                    product.id,
                    product.name,
                    product.description,
                    money.show(product.price_minor, product.currency),
                    product.currency,
                    product.status,
                    sales[product.id].paid_orders,
                    product.image or "",
                    csvfile.format_utc(product.created_at),
                )

    return await downloads.table("products.csv", csvfile.encode_rows(_PRODUCT_COLUMNS, rows()))


async def links_file(request: PageRequest) -> Response:
    """Send the payment links of the chosen tab or search, newest first."""
    public_url = request.app.settings.public_url

    async def rows() -> AsyncGenerator[Sequence[str], None]:
        async for page in links.read_pages(request):
            async with request.app.db.connection() as tx:
                listed = await links.build_rows(tx, request, page)
            for row in listed:
                link = row.link
                yield _format_cells(
                    link.id,
                    row.name,
                    link.address(public_url),
                    link.product_id or "",
                    money.show(row.least.minor, row.least.currency),
                    money.show(row.most.minor, row.most.currency),
                    row.least.currency,
                    row.state,
                    link.client_reference or "",
                    row.usage.paid,
                    csvfile.format_utc(link.created_at),
                )

    return await downloads.table("payment-links.csv", csvfile.encode_rows(_LINK_COLUMNS, rows()))


def _format_cells(*cells: str | int) -> Sequence[str]:
    return [csvfile.format_cell(cell) for cell in cells]


# The files need the permission of the pages, since they contain the same data and no addresses.
pages: Final = (
    Page("GET", f"{DASHBOARD_PATH}/products.csv", "products.read", products_file),
    Page("GET", f"{DASHBOARD_PATH}/links.csv", "payments.read", links_file),
)
