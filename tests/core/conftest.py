"""A database for tests that commit, and a transaction for those that do not."""

from money.fixtures import book, db, tx

__all__ = ["book", "db", "tx"]
