"""Fixtures of the API: a running server and merchants."""

from api import clock, shop, till

__all__ = ["clock", "shop", "till"]
