"""Fixtures of the sandbox bank and of a server with several gateways."""

from gateways.several_gateways import several
from support.sandbox_bank import calm_bank_url, calm_shop, receiver, shop

__all__ = [
    "calm_bank_url",
    "calm_shop",
    "receiver",
    "several",
    "shop",
]
