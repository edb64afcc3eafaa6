"""Clear the limits of login attempts before each test."""

from support.people import unlimited

__all__ = ["unlimited"]
