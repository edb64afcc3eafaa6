"""Resets the counts of login attempts before each test."""

from support.people import reset_login_limits

__all__ = ["reset_login_limits"]
