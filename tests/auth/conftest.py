"""Tests start without counted logins."""

from support.people import reset_login_limits

__all__ = ["reset_login_limits"]
