"""Payment links: a URL that opens a session for each customer who continues (decision 0089)."""

from opentill.payment_links.model import (
    LinkBody,
    LinkItemBody,
    LinkUpdate,
    Outdated,
    PaymentLink,
    PaymentLinkOut,
    Sales,
    State,
    Usage,
    state_of,
)
from opentill.payment_links.opening import (
    LinkOffer,
    Selection,
    TooManyHeld,
    Unusable,
    find_offer,
    find_open_session,
    open_session,
)
from opentill.payment_links.queries import ListQuery as PaymentLinksQuery
from opentill.payment_links.service import (
    create,
    find,
    find_anywhere,
    find_usage,
    list_newest_paid,
    list_page,
    search,
    update,
)

__all__ = [
    "LinkBody",
    "LinkItemBody",
    "LinkOffer",
    "LinkUpdate",
    "Outdated",
    "PaymentLink",
    "PaymentLinkOut",
    "PaymentLinksQuery",
    "Sales",
    "Selection",
    "State",
    "TooManyHeld",
    "Unusable",
    "Usage",
    "create",
    "find",
    "find_anywhere",
    "find_offer",
    "find_open_session",
    "find_usage",
    "list_newest_paid",
    "list_page",
    "open_session",
    "search",
    "state_of",
    "update",
]
