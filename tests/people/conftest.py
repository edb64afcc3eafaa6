"""Every test begins without counted login attempts."""

from support.people import reset_login_limits

__all__ = ["reset_login_limits"]
