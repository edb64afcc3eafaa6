"""A running deployment for the tests of whole requests."""

from pages.deployment import open_session, till

__all__ = ["open_session", "till"]
