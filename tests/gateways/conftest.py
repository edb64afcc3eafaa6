"""Fixtures: the sandbox bank, and a server with several gateways."""

import pytest

from gateways.several_gateways import deployment
from gateways.stripe_gateways import stripe_bank, stripe_gateway
from support.alipay_shop import alipay_bank, alipay_shop
from support.epay_v2_bank import epay_v2_bank, epay_v2_shop
from support.epusdt_shop import epusdt_bank, epusdt_shop
from support.paypal_shop import paypal_bank, paypal_shop
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url
from support.wechat_pay_shop import (
    hasty_wechat_pay_gateway,
    wechat_pay_bank,
    wechat_pay_gateway,
    wechat_pay_shop,
)

# Of the faults of the conformance suite, those that every run tries; `make stress` tries all.
USUAL_FAULTS = ("cut_after", "error_503_after", "page")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.path.name == "test_conformance.py":
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            if parameters.get("fault", "page") not in USUAL_FAULTS:
                item.add_marker(pytest.mark.stress)


__all__ = [
    "alipay_bank",
    "alipay_shop",
    "deployment",
    "epay_v2_bank",
    "epay_v2_shop",
    "epusdt_bank",
    "epusdt_shop",
    "hasty_wechat_pay_gateway",
    "paypal_bank",
    "paypal_shop",
    "receiver",
    "shop",
    "slow_bank_shop",
    "slow_bank_url",
    "stripe_bank",
    "stripe_gateway",
    "wechat_pay_bank",
    "wechat_pay_gateway",
    "wechat_pay_shop",
]
