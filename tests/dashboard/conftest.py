"""Fixtures of the dashboard's tests: each begins without failed logins."""

from support.people import unlimited

__all__ = ["unlimited"]
