"""Checkout sessions: offers to one customer to pay for a product or item, for up to 24 hours."""

from opentill.checkouts.gateway_tests import (
    DoesNotFit,
    GatewayTest,
    is_gateway_test,
    list_gateway_tests,
    open_gateway_test,
)
from opentill.checkouts.jobs import TIME_IS_OVER
from opentill.checkouts.listing import find_many, find_sales
from opentill.checkouts.listing import page as list_page
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
)
from opentill.checkouts.queries import ListQuery as SessionsQuery
from opentill.checkouts.service import (
    check_attempts,
    check_methods,
    check_methods_offered,
    expire,
    find,
    find_page_view,
    open_session,
    pay,
    prepare,
    record_opening,
    refresh_attempt,
)

__all__ = [
    "TIME_IS_OVER",
    "AmountOutOfBounds",
    "DoesNotFit",
    "GatewayTest",
    "Item",
    "ItemBody",
    "OpenedTest",
    "PageView",
    "PayerInput",
    "PublicSession",
    "Sales",
    "Session",
    "SessionBody",
    "SessionsQuery",
    "check_attempts",
    "check_methods",
    "check_methods_offered",
    "expire",
    "find",
    "find_many",
    "find_page_view",
    "find_sales",
    "is_gateway_test",
    "list_gateway_tests",
    "list_page",
    "open_gateway_test",
    "open_session",
    "pay",
    "prepare",
    "record_opening",
    "refresh_attempt",
]
