"""The bank and its surroundings as fixtures."""

from cli.commands import nursery
from gateways.several import several
from sandbox.fixtures import bank_url, calm_bank_url, calm_shop, receiver, shop

__all__ = [
    "bank_url",
    "calm_bank_url",
    "calm_shop",
    "nursery",
    "receiver",
    "several",
    "shop",
]
