"""A server, merchants on it, and its clock."""

from support.api_server import api_server, clock, shop

__all__ = ["api_server", "clock", "shop"]
