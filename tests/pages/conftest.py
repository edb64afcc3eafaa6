"""A running deployment, and a function that opens sessions of a new merchant."""

from support.page_server import open_session, page_server

__all__ = ["open_session", "page_server"]
