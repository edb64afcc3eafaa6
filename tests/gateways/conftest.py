"""Fixtures: the sandbox bank, and a server with several gateways."""

from gateways.several_gateways import deployment
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = [
    "deployment",
    "receiver",
    "shop",
    "slow_bank_shop",
    "slow_bank_url",
]
