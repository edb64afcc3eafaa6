"""The search in the header of a merchant's pages: everything that a text leads to, in groups.

An id leads straight to its page. A group is searched only if the person may see its list.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import checkouts, disputes, orders, payment_links, payouts, products, webhooks
from opentill.core import amounts
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.dashboard import listed_payments, page_helpers, product_payments, search_pages
from opentill.dashboard.labels import ENDPOINT_STATUS, PAYOUT_STATUS, PRODUCT_STATUS
from opentill.db.database import Tx
from opentill.orders import OrdersQuery
from opentill.payment_links import PaymentLink
from opentill.people import Permission
from opentill.portal import render, search
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.portal.search import SHOWN, Group, Hit
from opentill.web.translations import N_

_Find = Callable[[Tx, str, str], Awaitable[object]]
# The prefix of an id → the permission to see the object's page, the path of the page below the
# merchant's, and a function that raises NotFound if there is no such object.
_PAGES_OF_IDS: Final[Mapping[str, tuple[Permission, str, _Find]]] = {
    "cs": ("payments.read", "sessions", checkouts.find),
    "prod": ("products.read", "products", products.find),
    "plink": ("payments.read", "links", payment_links.find),
    "po": ("payouts.read", "payouts", payouts.find),
    "whe": ("endpoints.read", "developers/webhooks", webhooks.find),
    "dp": ("disputes.read", "disputes", disputes.find),
    "evt": ("events.read", "developers/events", webhooks.find_event),
}
_NEWEST: Final = 20  # payments from which examples of a search are taken
_OF_ORDERS: Final = ("order", "att", "re", "txn")  # prefixes that lead to orders


async def show(request: PageRequest) -> Response:
    """Show what a text leads to, or redirect to the page of an id or a payment's number."""
    text, errors = search.read_text(request)
    groups: list[Group] = []
    if search.suggests(request):
        groups = await _find_groups(request, text) if text else groups
        zone = page_helpers.zone_of(request)
        return search.render_suggestions(request, text, groups, zone)
    if text:
        page = await _page_of_id(request, text)
        if page is not None:
            return page_helpers.redirect(request, *page)
        groups = await _find_groups(request, text)
        if order_id := await _only_payment(request, text, groups):
            return page_helpers.redirect(request, "payments", order_id)
    return render.page(
        request,
        "search.html",
        text=text,
        errors=errors,
        groups=groups,
        examples=[] if groups else await _find_examples(request),
        zone=page_helpers.zone_of(request),
    )


async def _find_examples(request: PageRequest) -> list[str]:
    """Return texts that lead to the merchant's newest payments; [] without payments."""
    if not request.access.may("payments.read"):
        return []
    newest = await request.app.replica.reading().read(
        lambda tx: orders.list_newest(tx, request.merchant_id, _NEWEST)
    )
    emails = [order.customer_email for order in newest if request.access.may("customers.read")]
    texts = [
        request.localizer.amount(Money(order.amount_minor, order.currency)) for order in newest
    ]
    references = [order.client_reference or "" for order in newest]
    firsts = [
        next(filter(None, emails), ""),
        next(filter(amounts.read_amount, texts), ""),
        next(filter(None, references), ""),
    ]
    return [text for text in firsts if text]


async def _page_of_id(request: PageRequest, text: str) -> tuple[str, ...] | None:
    """Return the parts of the path of the page about the object with an id.

    None if the text is no id, no object has the id, or the person may not see the object.
    """
    if not is_id(text):
        return None
    merchant_id, prefix = request.merchant_id, text.partition("_")[0]
    async with request.app.db.connection() as tx:
        if prefix in _OF_ORDERS and request.access.may("payments.read"):
            refs = await orders.look_up(tx, [merchant_id], text)
            return ("payments", refs[0].order_id) if len(refs) == 1 else None
        permission, path, find = _PAGES_OF_IDS.get(prefix, (None, "", None))
        if permission is None or find is None or not request.access.may(permission):
            return None
        try:
            await find(tx, merchant_id, text)
        except NotFound:
            return None
    return (*path.split("/"), text)


async def _only_payment(request: PageRequest, text: str, groups: list[Group]) -> str | None:
    """Return the id of the order that has a number, if the number leads to nothing else."""
    if [(group.id, group.total) for group in groups] != [("payments", 1)]:
        return None
    async with request.app.db.connection() as tx:
        refs = await orders.look_up(tx, [request.merchant_id], text)
        ids = [ref.order_id for ref in refs] or [
            order.id for order in await orders.find_by_part(tx, request.merchant_id, text, 2)
        ]
    return ids[0] if len(ids) == 1 else None


async def _find_groups(request: PageRequest, text: str) -> list[Group]:
    """Return the groups with results that the person may see."""
    pages_found = search_pages.find_pages(request, text)
    groups = [
        Group(id="pages", hits=pages_found, total=len(pages_found)),
        *[
            await find(request, text)
            for permission, find in _GROUPS
            if request.access.may(permission)
        ],
    ]
    groups = [group for group in groups if group.hits or group.note]
    # A product with the text in its name comes before its payments.
    ids = [group.id for group in groups]
    if {"products", "payments"} <= set(ids):
        groups.insert(ids.index("payments"), groups.pop(ids.index("products")))
    return groups


async def _find_payments(request: PageRequest, text: str) -> Group:
    db, note = request.app.replica.reading(), ""
    query = OrdersQuery(query=text, page=1, size=SHOWN)
    try:
        page, total = await orders.list_page(db, request.merchant_id, query)
    except Invalid:  # the customers' group says so too, but not everybody may see it
        page, total, note = [], 0, search.TOO_MANY_CUSTOMERS
    href = _list_of(request, "payments", query=text)
    async with request.app.db.connection() as tx:
        parts = await orders.find_by_part(tx, request.merchant_id, text, SHOWN)
    listed_ids = {order.id for order in page}
    parts = [order for order in parts if order.id not in listed_ids]
    page, total = [*parts, *page], total + len(parts)
    if not (page or note):
        page, total, href = await _find_payments_of_products(request, text)
    return Group(
        id="payments",
        hits=[
            search.payment_hit(
                request,
                listed.order,
                request.link("payments", listed.order.id),
                dispute=listed.shown_dispute,
                shown=listed.shown_status,
            )
            for listed in await listed_payments.read(request, page[:SHOWN])
        ],
        href=href,
        total=total,
        note=note,
    )


async def _find_payments_of_products(
    request: PageRequest, text: str
) -> tuple[list[orders.Order], int, str]:
    """Find payments of the newest products with the text in their names.

    Returns the newest payments, their total, and the address of the list that they are in; the
    list of a text leads to those of each product.
    """
    rows = await product_payments.find(request, text, SHOWN)
    newest = [order for each in rows for order in each.newest]
    newest.sort(key=lambda order: (order.created_at, order.id), reverse=True)
    query = {"product": rows[0].product.id} if len(rows) == 1 else {"query": text}
    total = sum(each.total for each in rows)
    return newest[:SHOWN], total, _list_of(request, "payments", **query) if rows else ""


async def _find_customers(request: PageRequest, text: str) -> Group:
    db, note, customers = request.app.replica.reading(), "", list[orders.CustomerOrder]()
    try:
        customers = await orders.find_customers(db, request.merchant_id, text)
    except Invalid:
        note = search.TOO_MANY_CUSTOMERS
    return Group(
        id="customers",
        hits=[
            search.customer_hit(
                _list_of(request, "customers", "one", email=customer.email),
                customer.name,
                customer.email,
                customer.last_paid_at,
            )
            for customer in customers[:SHOWN]
        ],
        href=_list_of(request, "customers", email=text),
        total=len(customers),
        note=note,
    )


async def _find_products(request: PageRequest, text: str) -> Group:
    async with request.app.db.connection() as tx:
        found_products = await products.search(tx, request.merchant_id, text)
    return Group(
        id="products",
        hits=[
            search.product_hit(
                request,
                product,
                request.link("products", product.id),
                status=PRODUCT_STATUS[product.status],
            )
            for product in found_products[:SHOWN]
        ],
        href=_list_of(request, "products", query=text),
        total=len(found_products),
    )


async def _find_links(request: PageRequest, text: str) -> Group:
    async with request.app.db.connection() as tx:
        links = await payment_links.list_matching(tx, request.merchant_id, text)
        ids = [link.product_id for link in links[:SHOWN] if link.product_id is not None]
        by_id = await products.find_many(tx, request.merchant_id, ids)

    def name(link: PaymentLink) -> str:
        return link.name or (by_id[link.product_id].name if link.product_id in by_id else link.id)

    return Group(
        id="links",
        hits=[
            Hit(
                href=request.link("links", link.id),
                title=name(link),
                details=[link.client_reference] if link.client_reference else [],
                status="" if link.active else N_("Inactive"),
                at=link.created_at,
            )
            for link in links[:SHOWN]
        ],
        href=_list_of(request, "links", query=text),
        total=len(links),
    )


async def _find_payouts(request: PageRequest, text: str) -> Group:
    async with request.app.db.connection() as tx:
        found_payouts = await payouts.list_matching(tx, request.merchant_id, text)
    return Group(
        id="payouts",
        hits=[
            search.payout_hit(
                request,
                payout,
                request.link("payouts", payout.id),
                title=payout.bank_reference or payout.reference,
                status=PAYOUT_STATUS[payout.status],
            )
            for payout in found_payouts[:SHOWN]
        ],
        href=_list_of(request, "payouts", query=text),
        total=len(found_payouts),
    )


async def _find_endpoints(request: PageRequest, text: str) -> Group:
    async with request.app.db.connection() as tx:
        endpoints = webhooks.matching(await webhooks.search(tx, request.merchant_id), text)
    return Group(
        id="endpoints",
        hits=[
            Hit(
                href=request.link("developers", "webhooks", endpoint.id),
                title=endpoint.url,
                details=[endpoint.description] if endpoint.description else [],
                status=ENDPOINT_STATUS[endpoint.status],
            )
            for endpoint in endpoints[:SHOWN]
        ],
        href=_list_of(request, "developers", "webhooks", query=text),
        total=len(endpoints),
    )


def _list_of(request: PageRequest, /, *path: str, **query: str) -> str:
    """Return the address of a list with filters."""
    return f"{request.link(*path)}?{urlencode(query)}"


# The groups in their order on the page, with the permission to see each.
_GROUPS: Final[tuple[tuple[Permission, Callable[[PageRequest, str], Awaitable[Group]]], ...]] = (
    ("customers.read", _find_customers),
    ("payments.read", _find_payments),
    ("products.read", _find_products),
    ("payments.read", _find_links),
    ("payouts.read", _find_payouts),
    ("endpoints.read", _find_endpoints),
)
pages: Final = (Page("GET", f"{DASHBOARD_PATH}/search", "home.read", show),)
