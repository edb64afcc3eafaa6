"""The bank and its surroundings as fixtures."""

from sandbox.fixtures import bank_url, calm_bank_url, calm_shop, receiver, shop

__all__ = ["bank_url", "calm_bank_url", "calm_shop", "receiver", "shop"]
