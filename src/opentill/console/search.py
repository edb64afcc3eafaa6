"""The search in the header of the console: everything that a text leads to, at all merchants.

An id leads straight to its page; a page that the console lacks is the merchant's, as staff see it.
Results are the newest matches; the list of payments has more of them.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import (
    disputes,
    merchants,
    orders,
    payment_links,
    payouts,
    people,
    products,
    reconciliation,
    webhooks,
)
from opentill.console import search_pages
from opentill.console.labels import DIFFERENCE, MERCHANT_STATUS
from opentill.console.payout_labels import RUN_PAYOUT_STATUS, RUN_STATUS
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.gateways.account import LIVE_PREFIX, TEST_PREFIX
from opentill.orders import Matches, Order
from opentill.people import Permission
from opentill.portal import render, search
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.portal.search import SHOWN, Group, Hit

_MATCHES: Final = 50  # newest payments whose customers are shown
_Names = dict[str, str]  # the names of merchants by id


async def show_results(request: PageRequest) -> Response:
    """Show what a text leads to, or redirect to the page of an id or a payment's number."""
    text, errors = search.read_text(request)
    groups: list[Group] = []
    if search.suggests(request):
        groups = await _find_groups(request, text) if text else groups
        return search.render_suggestions(request, text, groups, ZONE)
    if text:
        page = await _page_of_id(request, text)
        if page is not None:
            return render.see_other(request, page)
        groups = await _find_groups(request, text)
        if len(groups) == 1 and groups[0].is_number:
            (hit,) = groups[0].hits
            return render.see_other(request, hit.href.removeprefix(request.base))
    return render.page(request, "search.html", text=text, errors=errors, groups=groups, zone=ZONE)


# ── ids ───────────────────────────────────────────────────────────────────────────────────────


async def _merchant_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/merchants/{(await merchants.find(tx, id_)).id}"


async def _dispute_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/disputes/{(await disputes.find_anywhere(tx, id_)).id}"


async def _payout_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/payouts/{(await payouts.find_anywhere(tx, id_)).id}"


async def _run_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/payout-runs/{(await payouts.find_run(tx, id_)).id}"


async def _product_page(tx: Tx, id_: str) -> str:
    return f"/dashboard/{await products.find_merchant_id(tx, id_)}/products/{id_}"


async def _link_page(tx: Tx, id_: str) -> str:
    link = await payment_links.find_anywhere(tx, id_)
    return f"/dashboard/{link.merchant_id}/links/{link.id}"


async def _endpoint_page(tx: Tx, id_: str) -> str:
    endpoint = await webhooks.find_anywhere(tx, id_)
    return f"/dashboard/{endpoint.merchant_id}/developers/webhooks/{endpoint.id}"


async def _account_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/gateway-accounts/{(await accounts.find(tx, id_)).id}"


async def _person_page(tx: Tx, id_: str) -> str:
    return f"{CONSOLE_PATH}/people/{(await people.find_staff(tx, id_)).person_id}"


async def _payment_page(tx: Tx, id_: str) -> str:
    order = await orders.find_by_anything(tx, id_)
    return f"{CONSOLE_PATH}/payments/{order.id}"


# The prefix of an id → the permission to see the object's page, and the function that returns the
# page's path or raises NotFound. Ids with other prefixes are looked up as ids of payments.
_PAGES: Final[dict[str, tuple[Permission, Callable[[Tx, str], Awaitable[str]]]]] = {
    "mer": ("merchants.read", _merchant_page),
    "dp": ("disputes.read", _dispute_page),
    "po": ("payouts.read", _payout_page),
    "run": ("payouts.read", _run_page),
    "prod": ("products.read", _product_page),
    "plink": ("payments.read", _link_page),
    "whe": ("endpoints.read", _endpoint_page),
    "per": ("people.read", _person_page),
    LIVE_PREFIX: ("deployment.read", _account_page),
    TEST_PREFIX: ("deployment.read", _account_page),
}


async def _page_of_id(request: PageRequest, text: str) -> str | None:
    """Return the path of the page about the object with an id.

    None if the text is no id, no object has the id, or the person may not see the object.
    """
    if not is_id(text):
        return None
    permission, find_page = _PAGES.get(text.partition("_")[0], ("payments.read", _payment_page))
    if not request.may(permission):
        return None
    try:
        async with request.app.db.connection() as tx:
            return await find_page(tx, text)
    except (NotFound, Invalid):  # Invalid: a number of several payments
        return None


# ── groups ────────────────────────────────────────────────────────────────────────────────────


async def _find_groups(request: PageRequest, text: str) -> list[Group]:
    """Return the groups with results that the person may see."""
    groups: list[Group] = []
    page_hits = search_pages.find_pages(request, text)
    leads_to_pages = bool(page_hits)
    db = request.app.replica.reading()
    names = await db.read(merchants.all_names)
    if request.may("payments.read"):
        matches = await db.read_snapshot(
            lambda tx: orders.find_matches(tx, list(names), text, _MATCHES)
        )
        groups.append(_payments(request, text, matches, names))
        if request.may("customers.read"):
            groups.append(_customers(request, text, matches, names))
    async with request.app.db.connection() as tx:
        if request.may("merchants.read"):
            groups.append(await _find_merchants(tx, request, text))
        page_hits += await search_pages.find_pages_of_merchants(tx, request, text)
        # A merchant whose name is typed comes before the pages about it.
        pages = Group(id="pages", hits=page_hits[:SHOWN], total=len(page_hits[:SHOWN]))
        groups.insert(0 if leads_to_pages else len(groups), pages)
        if request.may("deployment.read"):
            groups.append(await search_pages.find_accounts(tx, request, text))
        if request.may("products.read"):
            groups.append(await _find_products(tx, request, text, names))
        if request.may("payouts.read"):
            groups.append(await _find_payouts(tx, request, text, names))
            groups.append(await _find_runs(tx, request, text))
        if request.may("balance.read"):
            groups.append(await _find_differences(tx, request, text, names))
        if request.may("people.read"):
            groups.append(await _find_staff(tx, request, text))
    return [group for group in groups if group.hits]


def _payments(request: PageRequest, text: str, matches: Matches, names: _Names) -> Group:
    is_complete = matches.is_complete and len(matches.orders) <= SHOWN
    return Group(
        id="payments",
        hits=[
            search.payment_hit(
                request,
                order,
                request.console("payments", order.id),
                names.get(order.merchant_id, order.merchant_id),
            )
            for order in matches.orders[:SHOWN]
        ],
        href=f"{request.console('payments')}?{urlencode({'query': text})}",
        total=len(matches.orders) if is_complete else None,
        is_number=matches.is_number and len(matches.orders) == 1,
    )


def _customers(request: PageRequest, text: str, matches: Matches, names: _Names) -> Group:
    """Return the customers of the newest matching payments."""
    newest: dict[tuple[str, str], Order] = {}
    last_paid_at: dict[tuple[str, str], int] = {}
    if matches.by_customer:
        for order in matches.orders:
            key = order.merchant_id, order.customer_email.lower()
            newest.setdefault(key, order)
            if order.paid_at is not None:
                last_paid_at[key] = max(order.paid_at, last_paid_at.get(key, 0))
    customers = list(newest.items())
    return Group(
        id="customers",
        hits=[
            search.customer_hit(
                _payments_of(request, order),
                order.customer_name,
                order.customer_email,
                last_paid_at.get(key),
                names.get(order.merchant_id, order.merchant_id),
            )
            for key, order in customers[:SHOWN]
        ],
        href=f"{request.console('payments')}?{urlencode({'query': text})}",
        total=len(customers) if matches.is_complete else None,
    )


def _payments_of(request: PageRequest, order: Order) -> str:
    """Return the address of the list of a customer's payments."""
    filters = {"merchant": order.merchant_id, "query": order.customer_email}
    return f"{request.console('payments')}?{urlencode(filters)}"


async def _find_merchants(tx: Tx, request: PageRequest, text: str) -> Group:
    page, total = await merchants.search(tx, text, 1, SHOWN)
    return Group(
        id="merchants",
        hits=[
            Hit(
                href=request.console("merchants", merchant.id),
                title=merchant.name,
                details=[merchant.id],
                status=MERCHANT_STATUS[merchant.status],
                kind=f"status-{merchant.status.lower()}",
                at=merchant.created_at,
            )
            for merchant in page
        ],
        href=f"{request.console('merchants')}?{urlencode({'query': text})}",
        total=total,
    )


async def _find_products(tx: Tx, request: PageRequest, text: str, names: _Names) -> Group:
    matches = await products.search_all(tx, text, SHOWN)
    return Group(
        id="products",
        hits=[
            search.product_hit(
                request,
                product,
                f"{request.base}/dashboard/{product.merchant_id}/products/{product.id}",
                names.get(product.merchant_id, product.merchant_id),
            )
            for product in matches
        ],
    )


async def _find_payouts(tx: Tx, request: PageRequest, text: str, names: _Names) -> Group:
    by_reference = await payouts.list_of_reference(tx, list(names), text, SHOWN)
    by_bank_reference = await payouts.list_of_bank_reference(tx, text, SHOWN)
    matches = {payout.id: payout for payout in (*by_reference, *by_bank_reference)}
    return Group(
        id="payouts",
        hits=[
            search.payout_hit(
                request,
                payout,
                request.console("payouts", payout.id),
                names.get(payout.merchant_id, payout.merchant_id),
                title=payout.reference,
                status=RUN_PAYOUT_STATUS[payout.status],
            )
            for payout in list(matches.values())[:SHOWN]
        ],
    )


async def _find_runs(tx: Tx, request: PageRequest, text: str) -> Group:
    """Return the payout run whose reference is the text."""
    run = await payouts.find_run_by_reference(tx, text)
    return Group(
        id="runs",
        hits=[
            Hit(
                href=request.console("payout-runs", run.id),
                title=run.reference,
                details=[run.currency],
                status=RUN_STATUS[run.status],
                at=run.created_at,
            )
            for run in ([] if run is None else [run])
        ],
    )


async def _find_differences(tx: Tx, request: PageRequest, text: str, names: _Names) -> Group:
    """Return the differences of reconciliation whose reference is the text."""
    matches = await reconciliation.list_of_reference(tx, text, SHOWN)
    return Group(
        id="differences",
        hits=[
            Hit(
                href=request.console("reconciliation", difference.id),
                title=difference.reference,
                details=[
                    request.localizer.gettext(DIFFERENCE[difference.what.replace(" ", "_")]),
                    *([names[difference.merchant_id]] if difference.merchant_id in names else []),
                ],
                at=difference.created_at,
            )
            for difference in matches
        ],
    )


async def _find_staff(tx: Tx, request: PageRequest, text: str) -> Group:
    """Return the staff whose email address or name contains the text."""
    folded = text.casefold()
    matches = [
        person
        for person in await people.colleagues(tx)
        if folded in person.email.casefold() or folded in person.name.casefold()
    ]
    return Group(
        id="people",
        hits=[
            Hit(
                href=request.console("people", person.person_id),
                title=person.name,
                details=[person.email],
            )
            for person in matches[:SHOWN]
        ],
        href=request.console("people"),
        total=len(matches),
    )


pages: Final = (Page("GET", f"{CONSOLE_PATH}/search", "console.read", show_results),)
