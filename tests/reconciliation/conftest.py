"""A database for tests that commit."""

from support.transactions import db

__all__ = ["db"]
