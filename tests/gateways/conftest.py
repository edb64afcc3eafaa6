"""The bank and its surroundings as fixtures."""

from gateways.several import several
from sandbox.fixtures import calm_bank_url, calm_shop, receiver, shop

__all__ = [
    "calm_bank_url",
    "calm_shop",
    "receiver",
    "several",
    "shop",
]
