"""The bank and its surroundings as fixtures."""

from sandbox.fixtures import bank_url, receiver, shop

__all__ = ["bank_url", "receiver", "shop"]
