"""Each test starts with an empty count of attempts to log in."""

from support.people import reset_login_limits

__all__ = ["reset_login_limits"]
