"""Payment links: an address that opens a session for each customer who goes on (decision 0089)."""

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
    Held,
    Offered,
    Unusable,
    Wanted,
    offered,
    open_session,
    unfinished,
)
from opentill.payment_links.queries import ListQuery as PaymentLinksQuery
from opentill.payment_links.service import (
    create,
    find,
    find_anywhere,
    list_page,
    newest_paid,
    search,
    update,
    usage,
)

__all__ = [
    "Held",
    "LinkBody",
    "LinkItemBody",
    "LinkUpdate",
    "Offered",
    "Outdated",
    "PaymentLink",
    "PaymentLinkOut",
    "PaymentLinksQuery",
    "Sales",
    "State",
    "Unusable",
    "Usage",
    "Wanted",
    "create",
    "find",
    "find_anywhere",
    "list_page",
    "newest_paid",
    "offered",
    "open_session",
    "search",
    "state_of",
    "unfinished",
    "update",
    "usage",
]
