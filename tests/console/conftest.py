"""Resets the counts of login attempts before each test; a bank that speaks Alipay's dialect."""

from support.alipay_shop import alipay_bank, alipay_shop
from support.people import reset_login_limits

__all__ = ["alipay_bank", "alipay_shop", "reset_login_limits"]
