"""The sandbox bank, a slow one, their shops and the receiver of callbacks."""

from support.alipay_shop import alipay_bank, alipay_shop
from support.epay_v2_bank import epay_v2_bank, epay_v2_shop
from support.epusdt_shop import epusdt_bank, epusdt_shop
from support.paypal_shop import paypal_bank, paypal_shop
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url

__all__ = [
    "alipay_bank",
    "alipay_shop",
    "epay_v2_bank",
    "epay_v2_shop",
    "epusdt_bank",
    "epusdt_shop",
    "paypal_bank",
    "paypal_shop",
    "receiver",
    "shop",
    "slow_bank_shop",
    "slow_bank_url",
]
