"""Every test begins without counted login attempts."""

from support.people import unlimited

__all__ = ["unlimited"]
