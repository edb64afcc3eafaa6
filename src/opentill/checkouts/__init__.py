"""Checkout sessions: a product on sale to one customer for 24 hours."""

from opentill.checkouts.gateway_tests import (
    GatewayTest,
    NotFirst,
    is_gateway_test,
    open_gateway_test,
    opened_gateway_tests,
)
from opentill.checkouts.listing import page as list_page
from opentill.checkouts.listing import sales
from opentill.checkouts.model import (
    AmountOutOfBounds,
    Item,
    ItemBody,
    OpenedTest,
    PageView,
    PayerInput,
    PublicSession,
    Sales,
    Session,
    SessionBody,
    Status,
)
from opentill.checkouts.queries import ListQuery as SessionsQuery
from opentill.checkouts.service import (
    check_attempts,
    check_methods,
    check_on_offer,
    expire,
    find,
    open_session,
    page_view,
    pay,
    record_opening,
    refresh,
)

__all__ = [
    "AmountOutOfBounds",
    "GatewayTest",
    "Item",
    "ItemBody",
    "NotFirst",
    "OpenedTest",
    "PageView",
    "PayerInput",
    "PublicSession",
    "Sales",
    "Session",
    "SessionBody",
    "SessionsQuery",
    "Status",
    "check_attempts",
    "check_methods",
    "check_on_offer",
    "expire",
    "find",
    "is_gateway_test",
    "list_page",
    "open_gateway_test",
    "open_session",
    "opened_gateway_tests",
    "page_view",
    "pay",
    "record_opening",
    "refresh",
    "sales",
]
