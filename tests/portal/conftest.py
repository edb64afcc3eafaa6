"""Tests start without counted logins."""

from support.people import unlimited

__all__ = ["unlimited"]
