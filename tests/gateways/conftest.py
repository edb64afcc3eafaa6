"""The bank and its surroundings as fixtures."""

from cli.commands import nursery
from gateways.several import several
from sandbox.fixtures import bank_url, receiver, shop

__all__ = ["bank_url", "nursery", "receiver", "several", "shop"]
