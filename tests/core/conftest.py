"""A database for tests that commit."""

from money.fixtures import db

__all__ = ["db"]
