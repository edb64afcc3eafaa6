"""Failover over all pairs of adapters, and all pairs of faults."""

import itertools

import pytest

from gateways.adapter_stories import Sites, sites
from gateways.failing_adapters import FAULTS, PAIRS, Pair, check, pay_with_faults
from opentill.db.database import Db
from support.alipay_shop import alipay_bank, alipay_shop
from support.epay_v2_bank import epay_v2_bank, epay_v2_shop
from support.epusdt_shop import epusdt_bank, epusdt_shop
from support.paypal_shop import paypal_bank, paypal_shop
from support.sandbox_bank import receiver, shop, slow_bank_shop, slow_bank_url
from support.transactions import db
from support.wechat_pay_shop import wechat_pay_bank, wechat_pay_shop

pytestmark = pytest.mark.stress
__all__ = [
    "alipay_bank",
    "alipay_shop",
    "db",
    "epay_v2_bank",
    "epay_v2_shop",
    "epusdt_bank",
    "epusdt_shop",
    "paypal_bank",
    "paypal_shop",
    "receiver",
    "shop",
    "sites",
    "slow_bank_shop",
    "slow_bank_url",
    "wechat_pay_bank",
    "wechat_pay_shop",
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_an_order_is_charged_once_whatever_two_adapters_lose(
    db: Db, sites: Sites, pair: Pair
) -> None:
    for faults in itertools.product(FAULTS, FAULTS):
        check(await pay_with_faults(db, sites, pair, faults), pair, faults)
