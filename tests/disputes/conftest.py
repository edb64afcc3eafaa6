"""A database for tests that commit, and a transaction for those that do not; a running till."""

from api import clock, shop, till
from money.fixtures import book, db, tx
from sandbox.fixtures import bank_url, receiver

__all__ = ["bank_url", "book", "clock", "db", "receiver", "shop", "till", "tx"]
