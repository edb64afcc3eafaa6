"""A running deployment for the tests of whole requests; each has a merchant of its own."""

from support.page_server import open_session, page_server

__all__ = ["open_session", "page_server"]
