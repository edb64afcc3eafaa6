"""Fixtures: the sandbox bank, and a server with several gateways."""

from gateways.several_gateways import deployment
from support.alipay_shop import alipay_bank, alipay_shop
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = [
    "alipay_bank",
    "alipay_shop",
    "deployment",
    "receiver",
    "shop",
    "slow_bank_shop",
    "slow_bank_url",
]
