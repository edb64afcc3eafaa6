"""The Epay V2 gateway: which notices count."""

import asyncio
from typing import Any

import pytest

from gateways.epay_v2_till import Till, order, refusal
from opentill.core.errors import Unavailable
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import PaymentOutcome
from opentill.gateways.model import BadCallback, GatewayPaymentEvent
from support.epay_v2_bank import EpayV2BankShop, stranger_public_key
from support.wallet_shop import now_ms

PAID = Money(999, "CNY")


async def read(shop: EpayV2BankShop, notice: dict[str, str], reply: bytes) -> Any:
    """Return the events of a notice while the server answers the query so."""
    return await Till(shop, reply).gateway.read_notice(notice)


def fresh(shop: EpayV2BankShop, attempt_id: str, **changes: str) -> dict[str, str]:
    """Return a genuine notice of now."""
    return shop.notice(attempt_id, **({"timestamp": str(now_ms() // 1000)} | changes))


async def test_a_notice_counts_if_it_is_signed_recent_ours_and_confirmed(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    attempt_id, now_s = new_id("att"), now_ms() // 1000
    confirmed = order(epay_v2_shop, attempt_id)
    notice = fresh(epay_v2_shop, attempt_id)
    (event,) = await read(epay_v2_shop, notice, confirmed)
    assert isinstance(event, GatewayPaymentEvent)
    assert event.outcome == PaymentOutcome(
        status="SUCCEEDED", provider_ref="2026", amount=PAID, method="ALIPAY",
        clearing_currency="CNY",
    )  # fmt: skip
    # Sent again, it says the same.
    assert await read(epay_v2_shop, notice, confirmed) == (event,)
    bad = [
        fresh(epay_v2_shop, attempt_id, timestamp=str(now_s - 310)),
        fresh(epay_v2_shop, attempt_id, timestamp=str(now_s + 310)),
        fresh(epay_v2_shop, attempt_id, timestamp=""),
        fresh(epay_v2_shop, attempt_id, pid="1002"),  # another account of the server
        fresh(epay_v2_shop, attempt_id, money="9.98"),
        fresh(epay_v2_shop, "order-of-another-shop"),
        # Another merchant's texts, cut elsewhere.
        fresh(epay_v2_shop, attempt_id, name="x&out_trade_no=y&pid=1002"),
        {**notice, "money": "9.98"},
        {**notice, "sign_type": "MD5"},
        {**notice, "sign": ""},
    ]
    for changed in bad:
        with pytest.raises(BadCallback):
            await read(epay_v2_shop, changed, confirmed)
    stranger = Till(epay_v2_shop, confirmed, public_key=stranger_public_key())
    with pytest.raises(BadCallback):
        await stranger.gateway.read_notice(notice)
    assert stranger.server.requests == []


async def test_a_notice_waits_for_an_answer_that_can_be_believed(
    epay_v2_shop: EpayV2BankShop,
) -> None:
    attempt_id = new_id("att")
    notice, confirmed = fresh(epay_v2_shop, attempt_id), order(epay_v2_shop, attempt_id)
    forged = confirmed.replace(b"9.99", b"1.00")
    for reply in (forged, b"", refusal("RSA签名校验失败", -3)):
        with pytest.raises(Unavailable):
            await read(epay_v2_shop, notice, reply)
    with pytest.raises(BadCallback):
        await read(epay_v2_shop, notice, order(epay_v2_shop, attempt_id, status=0))
    for status in (2, 3):
        late = order(epay_v2_shop, attempt_id, status=status)
        assert await read(epay_v2_shop, notice, late) == ()
    pending = fresh(epay_v2_shop, attempt_id, trade_status="WAIT_BUYER_PAY")
    assert await read(epay_v2_shop, pending, b"") == ()


async def test_replayed_notices_query_the_server_once(epay_v2_shop: EpayV2BankShop) -> None:
    """The second query has no reply, so that it would fail."""
    attempt_id = new_id("att")
    till = Till(epay_v2_shop, order(epay_v2_shop, attempt_id))
    till.gateway._cache_s = 60.0
    notice = fresh(epay_v2_shop, attempt_id)
    replays = await asyncio.gather(*(till.gateway.read_notice(notice) for _ in range(40)))
    assert len(set(map(str, replays))) == 1
    assert len(till.server.requests) == 1
    # A reply that does not count is not kept.
    other_id = new_id("att")
    till = Till(epay_v2_shop, b"", order(epay_v2_shop, other_id))
    till.gateway._cache_s = 60.0
    with pytest.raises(Unavailable):
        await till.gateway.read_notice(fresh(epay_v2_shop, other_id))
    assert len(await till.gateway.read_notice(fresh(epay_v2_shop, other_id))) == 1
