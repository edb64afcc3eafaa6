"""The search of a portal: its text, and the groups of what was found."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill.core import pasted
from opentill.core.money import Money
from opentill.disputes import Dispute
from opentill.orders import Order, ShownStatus
from opentill.payouts import Payout
from opentill.portal import render
from opentill.portal.labels import DISPUTE_CLASS, DISPUTED_PAYMENT, SHOWN_STATUS, STATUS_CLASS
from opentill.portal.request import PageRequest
from opentill.products import Product
from opentill.web import responses
from opentill.web.translations import N_, NC_

FIELD: Final = "q"  # the name of the field
_SUGGEST: Final = "suggest"
_SUGGESTED: Final = 3  # results of a group below the search box
LONGEST: Final = 200  # characters of a text
SHOWN: Final = 5  # results of a group; the list behind it has all
TOO_LONG: Final = N_("Enter at most 200 characters")
TOO_MANY_CUSTOMERS: Final = N_("More than 200 customers match. Enter more of the name or address.")


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One result: the page that it leads to, and the texts that show it.

    ``status`` is the message id of its badge, and ``kind`` the badge's class; "" for no badge.
    ``at`` is a time in Unix ms, None for none; ``dated`` is a message id that says of what, with
    ``{moment}``, "" if it needs no name.
    """

    href: str
    title: str
    details: Sequence[str] = ()
    amount: str = ""
    status: str = ""
    kind: str = ""
    at: int | None = None
    dated: str = ""


# The message ids of the groups' headings by the groups' ids.
_HEADINGS: Final = {
    "pages": N_("Pages"),
    "payments": NC_("menu", "Payments"),
    "customers": N_("Customers"),
    "merchants": N_("Merchants"),
    "accounts": N_("Gateway accounts"),
    "products": N_("Products"),
    "links": N_("Payment links"),
    "payouts": N_("Payouts"),
    "runs": N_("Payout runs"),
    "differences": N_("Reconciliation"),
    "endpoints": N_("Webhook endpoints"),
    "people": N_("People"),
}


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one kind, ``id``.

    ``href`` is the list with all of them. ``total`` is their number, None if it is not counted.
    ``note`` is a message id, "" for none. ``is_number``: the text is an id or a number of the only
    result.
    """

    id: str
    hits: Sequence[Hit]
    href: str = ""
    total: int | None = None
    note: str = ""
    is_number: bool = False

    @property
    def name(self) -> str:
        """The message id of the heading."""
        return _HEADINGS[self.id]

    @property
    def has_more(self) -> bool:
        """Whether the list may have more than the results shown."""
        return self.total is None or self.total > len(self.hits)


def suggests(request: PageRequest) -> bool:
    """Whether the script of the search box asks for suggestions."""
    return bool(request.query.get(_SUGGEST))


def render_suggestions(
    request: PageRequest, text: str, groups: Sequence[Group], zone: ZoneInfo
) -> Response:
    """Return the first results of each group, which the script shows below the search box.

    ``zone`` is the time zone of their times.
    """
    few = [
        msgspec.structs.replace(group, hits=group.hits[:_SUGGESTED])
        for group in groups
        if group.hits
    ]
    html = render.fragment(
        request,
        "search_suggestions.html",
        text=text,
        groups=few,
        zone=zone,
        number=sum(len(group.hits) for group in few),
        all_results=f"{request.search_path}?{urlencode({FIELD: text})}",
    )
    return responses.page(html, request.localizer.language)


def read_text(request: PageRequest) -> tuple[str, dict[str, str]]:
    """Return the text of the query, and its error by field. A text with an error is ""."""
    text = pasted.trim(request.query.get(FIELD, ""))
    if len(text) > LONGEST:
        return "", {FIELD: TOO_LONG}
    return text, {}


def payment_hit(
    request: PageRequest,
    order: Order,
    href: str,
    *details: str,
    dispute: Dispute | None = None,
    shown: ShownStatus | None = None,
) -> Hit:
    """Return the result that shows a payment, with the state of its ``dispute``.

    ``shown`` is the status that pages show; None: the one that the order knows.
    """
    customer, status = order.customer_name or order.customer_email, shown or order.shown_status
    others = (order.customer_email if order.customer_name else "", order.product_name, *details)
    return Hit(
        href=href,
        title=customer or order.product_name,
        details=[text for text in (others if customer else details) if text],
        amount=request.localizer.amount(Money(order.amount_minor, order.currency)),
        status=DISPUTED_PAYMENT[dispute.state] if dispute else SHOWN_STATUS[status],
        kind=DISPUTE_CLASS[dispute.state]
        if dispute
        else STATUS_CLASS.get(status, f"status-{status.lower()}"),
        at=order.created_at,
    )


def customer_hit(href: str, name: str | None, email: str, at: int | None, *details: str) -> Hit:
    """Return the result that shows a customer; ``at`` is their last payment, None for none."""
    return Hit(
        href=href,
        title=name or email,
        details=[*([email] if name else []), *details],
        at=at,
        dated=N_("Last payment: {moment}"),
    )


def product_hit(
    request: PageRequest, product: Product, href: str, *details: str, status: str = ""
) -> Hit:
    """Return the result that shows a product; ``status`` is the message id of its badge."""
    return Hit(
        href=href,
        title=product.name,
        details=details,
        amount=request.localizer.amount(Money(product.price_minor, product.currency)),
        status=status,
        kind=f"status-{product.status.lower()}" if status else "",
    )


def payout_hit(
    request: PageRequest, payout: Payout, href: str, *details: str, title: str, status: str
) -> Hit:
    """Return the result that shows a payout; ``status`` is the message id of its badge."""
    return Hit(
        href=href,
        title=title,
        details=details,
        amount=request.localizer.amount(Money(payout.amount_minor, payout.currency)),
        status=status,
        kind=f"status-{payout.status.lower()}",
        at=payout.created_at,
    )
