"""Checkout sessions: a product on sale to one customer for 24 hours."""

from opentill.checkouts.model import Session
from opentill.checkouts.service import (
    PageView,
    expire,
    find,
    open_session,
    page_view,
    pay,
    refresh,
)

__all__ = [
    "PageView",
    "Session",
    "expire",
    "find",
    "open_session",
    "page_view",
    "pay",
    "refresh",
]
