"""Fixtures of the sandbox bank and of a server with several gateways."""

from gateways.several_gateways import several
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = [
    "receiver",
    "several",
    "shop",
    "slow_bank_shop",
    "slow_bank_url",
]
