"""A database for tests that commit, and a transaction for those that do not."""

from money.fixtures import book, own_book, tx

__all__ = ["book", "own_book", "tx"]
