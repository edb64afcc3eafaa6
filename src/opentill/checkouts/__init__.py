"""Checkout sessions: a product on sale to one customer for 24 hours."""

from opentill.checkouts.model import AmountOutOfBounds, Item, PayerInput, Session, SessionBody
from opentill.checkouts.service import (
    PageView,
    check_attempts,
    expire,
    find,
    open_session,
    page_view,
    pay,
    refresh,
)

__all__ = [
    "AmountOutOfBounds",
    "Item",
    "PageView",
    "PayerInput",
    "Session",
    "SessionBody",
    "check_attempts",
    "expire",
    "find",
    "open_session",
    "page_view",
    "pay",
    "refresh",
]
