"""Nobody has tried to log in when a test begins."""

from support.people import unlimited

__all__ = ["unlimited"]
