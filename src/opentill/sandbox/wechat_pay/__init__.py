"""WeChat Pay's dialect: its API v3, notifications and keys."""

from opentill.sandbox.wechat_pay.dialect import WeChatPay
from opentill.sandbox.wechat_pay.keys import (
    APPID,
    MCHID,
    PUBLIC_KEY,
    PUBLIC_KEY_ID,
    SETTINGS,
    Merchant,
    create,
    load,
)

__all__ = [
    "APPID",
    "MCHID",
    "PUBLIC_KEY",
    "PUBLIC_KEY_ID",
    "SETTINGS",
    "Merchant",
    "WeChatPay",
    "create",
    "load",
]
