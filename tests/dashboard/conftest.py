"""Fixtures of the dashboard's tests: each begins without failed logins."""

from support.people import reset_login_limits

__all__ = ["reset_login_limits"]
