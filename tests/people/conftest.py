"""A server, merchants on it, and its clock; a database of the test's own."""

from support.api_server import api_server, clock, shop
from support.transactions import db

__all__ = ["api_server", "clock", "db", "shop"]
