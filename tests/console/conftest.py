"""Each test starts with an empty count of attempts to log in."""

from support.people import unlimited

__all__ = ["unlimited"]
