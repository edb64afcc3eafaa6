"""Resets the counts of login attempts before each test; banks that speak dialects."""

from support.alipay_shop import alipay_bank, alipay_shop
from support.epay_v2_bank import epay_v2_bank, epay_v2_shop
from support.people import reset_login_limits

__all__ = [
    "alipay_bank",
    "alipay_shop",
    "epay_v2_bank",
    "epay_v2_shop",
    "reset_login_limits",
]
