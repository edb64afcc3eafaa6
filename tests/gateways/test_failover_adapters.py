"""Failover between real adapters: an order is charged once, whatever gets lost on the way."""

import pytest

from gateways.adapter_stories import Sites, sites
from gateways.failing_adapters import Pair, check, pay_with_faults
from opentill.db.database import Db
from opentill.gateways.conformance.proxy import Fault
from support.transactions import db

__all__ = ["db", "sites"]
PAIRS = [
    Pair("CNY", "alipay", "wechat_pay"),
    Pair("CNY", "alipay", "epay"),  # both take the method ALIPAY
    Pair("CNY", "epay_v2", "epay"),
    Pair("CNY", "epusdt", "bepusdt"),
    Pair("EUR", "stripe", "sandbox"),
    Pair("EUR", "paypal", "stripe"),
    Pair("USD", "evm", "sandbox"),
]
FAULTS: tuple[Fault | None, ...] = ("refused", "cut_before", "cut_after")


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_an_order_is_charged_once_although_the_first_account_fails(
    db: Db, sites: Sites, pair: Pair
) -> None:
    """`make stress` tries all pairs of adapters and faults."""
    for fault in FAULTS:
        result = await pay_with_faults(db, sites, pair, (fault, None))
        check(result, pair, (fault, None))
