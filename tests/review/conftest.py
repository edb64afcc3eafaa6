"""A database for tests that commit, and a transaction for those that do not; a running till."""

from api import clock, shop, till
from money.fixtures import book, db, tx

__all__ = ["book", "clock", "db", "shop", "till", "tx"]
