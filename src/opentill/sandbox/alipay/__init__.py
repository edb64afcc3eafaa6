"""Alipay's dialect: ``gateway.do`` and notifications, signed as Alipay signs."""

from opentill.sandbox.alipay.dialect import PATH, Alipay
from opentill.sandbox.alipay.keys import (
    APP_ID,
    CERTIFICATES,
    PRIVATE_KEY,
    PUBLIC_KEY,
    SELLER_ID,
    App,
    create,
    load,
)

__all__ = [
    "APP_ID",
    "CERTIFICATES",
    "PATH",
    "PRIVATE_KEY",
    "PUBLIC_KEY",
    "SELLER_ID",
    "Alipay",
    "App",
    "create",
    "load",
]
