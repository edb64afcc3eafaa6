"""OpenTill's Epay V2 gateway against OpenTill's Epay V2 API: one is the other's server."""

import time
from collections.abc import Iterator

import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.epay import timestamps
from opentill.gateways import PaymentRequest, RefundRequest
from opentill.gateways.conformance.case import repeated
from opentill.gateways.epay_v2 import EpayV2Gateway, configuration
from opentill.gateways.model import BadCallback, GatewayEvent, GatewayPaymentEvent
from opentill.outgoing.client import Outgoing, Policy
from support.epay_v2_shop import VECTORS, EpayV2Shop


class Downstream:
    """Another OpenTill, whose gateway is the API of a merchant."""

    def __init__(self, v2_shop: EpayV2Shop, **changes: str) -> None:
        """``changes`` replace options of the gateway."""
        self.v2_shop = v2_shop
        self.run = v2_shop.api_server.run
        options = {
            "url": f"{v2_shop.api_server.url}/epay/", "pid": v2_shop.pid,
            "private_key": VECTORS["merchant_private_key"], "public_key": v2_shop.platform_key,
            "refunds": "repeat",
        }  # fmt: skip
        options = {f"epay_v2_{name}": text for name, text in (options | changes).items()}
        configured = configuration.read(options)
        outgoing = Outgoing(Policy.only(configured.url))
        self.gateway = EpayV2Gateway(configured, outgoing, cache_s=0.0)

    def request(self) -> PaymentRequest:
        """Return a request to pay 9.99."""
        attempt_id = new_id("att")
        return PaymentRequest(
            attempt_id=attempt_id, method="ALIPAY", amount=Money(999, "CNY"),
            description="Tea & cake", merchant_name="Tea", customer_email="ann@example.com",
            customer_name=None, payer_ip="203.0.113.7", callback_url=self.v2_shop.inbox.url,
            return_url=f"https://till.example/return/{attempt_id}?lang=zh", locale="zh",
        )  # fmt: skip

    def pay(self) -> tuple[str, str]:
        """Place an order and pay it at the server; return both numbers."""
        request = self.request()
        placed = self.run(self.gateway.pay(request))
        assert placed.status == "ACTION_REQUIRED"
        assert placed == self.run(self.gateway.pay(request))
        self.v2_shop.pay({"trade_no": placed.provider_ref})
        return request.attempt_id, placed.provider_ref

    def refund_request(self, payment: tuple[str, str], minor: int) -> RefundRequest:
        """Return a request to refund a part of a payment."""
        return RefundRequest(
            refund_id=new_id("re"), attempt_id=payment[0], provider_ref=payment[1],
            amount=Money(minor, "CNY"), reason="", callback_url="",
        )  # fmt: skip

    def read(self, notice: dict[str, str]) -> tuple[GatewayEvent, ...]:
        """Return the events of a notification."""
        events: tuple[GatewayEvent, ...] = self.run(self.gateway.read_notice(notice))
        return events


@pytest.fixture
def downstream(v2_shop: EpayV2Shop) -> Iterator[Downstream]:
    """The other OpenTill."""
    downstream = Downstream(v2_shop)
    yield downstream
    downstream.run(downstream.gateway.close())


def test_a_payment_is_reported_by_query_and_by_a_notification_that_is_verified(
    downstream: Downstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    v2_shop, gateway = downstream.v2_shop, downstream.gateway
    attempt_id, trade_no = downstream.pay()
    queried = downstream.run(gateway.find_payment(attempt_id, trade_no))
    assert (queried.status, queried.amount) == ("SUCCEEDED", Money(999, "CNY"))
    v2_shop.send_notices()
    (notice,) = [one for one in v2_shop.inbox.received if one["out_trade_no"] == attempt_id]
    event = GatewayPaymentEvent(attempt_id=attempt_id, outcome=queried)
    assert downstream.read(notice) == downstream.read(notice) == (event,)
    for changes in ({"money": "9.98"}, {"timestamp": str(int(time.time()))}, {"pid": "1"}):
        if notice | changes != notice:
            with pytest.raises(BadCallback):
                downstream.read(notice | changes)
    other = Downstream(v2_shop, public_key=VECTORS["merchant_public_key"])
    with pytest.raises(BadCallback):
        other.read(notice)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + timestamps.MAX_SKEW_S + 60)
    with pytest.raises(BadCallback, match="five minutes"):
        downstream.read(notice)
    other.run(other.gateway.close())


def test_a_refund_runs_is_done_and_is_never_made_twice(downstream: Downstream) -> None:
    v2_shop, gateway, payment = downstream.v2_shop, downstream.gateway, downstream.pay()
    request = downstream.refund_request(payment, 400)
    missing = downstream.run(gateway.find_refund(request.refund_id, payment[1]))
    assert missing.status == "NOT_FOUND"
    # The response of the first request was lost; the server has not seen it.
    assert downstream.run(gateway.refund(repeated(request))).status == "PENDING"
    assert downstream.run(gateway.refund(repeated(request))).status == "PENDING"
    assert downstream.run(gateway.refund(request)).status == "PENDING"
    ((refund_id, number),) = ((row["id"], row["refund_no"]) for row in v2_shop.refunds())
    assert number == request.refund_id
    v2_shop.shop.report_refund(refund_id)
    done = downstream.run(gateway.refund(repeated(request)))
    assert (done.status, bool(done.provider_ref)) == ("SUCCEEDED", True)
    too_much = downstream.run(gateway.refund(downstream.refund_request(payment, 600)))
    assert (too_much.status, "退款金额" in too_much.reason) == ("REFUSED", True)
    failing = downstream.refund_request(payment, 100)
    assert downstream.run(gateway.refund(failing)).status == "PENDING"
    (row,) = [row for row in v2_shop.refunds() if row["refund_no"] == failing.refund_id]
    v2_shop.shop.report_refund(row["id"], "REFUSED", "the card is closed")
    assert downstream.run(gateway.refund(repeated(failing))).status == "REFUSED"
    assert len(v2_shop.refunds()) == 2


def test_an_unpaid_order_is_closed_in_the_second_in_which_it_is_queried(
    downstream: Downstream,
) -> None:
    gateway, request = downstream.gateway, downstream.request()
    unknown = downstream.run(gateway.find_payment(request.attempt_id, "1"))
    assert (unknown.status, "订单号不存在" in unknown.reason) == ("NOT_FOUND", True)
    placed = downstream.run(gateway.pay(request))
    for _ in range(2):
        ended = downstream.run(gateway.expire(request.attempt_id, placed.provider_ref))
        assert (ended.status, ended.reason) == ("DECLINED", "closed")
    payment = downstream.pay()
    assert downstream.run(gateway.expire(*payment)).status == "SUCCEEDED"


def test_the_account_is_checked(downstream: Downstream) -> None:
    v2_shop, check = downstream.v2_shop, downstream.gateway.check
    assert downstream.run(check()) is None
    v2_shop.set_versions("V1")
    assert "该商户未开启RSA签名类型" in downstream.run(check()).reason
    v2_shop.set_versions("V2")
    stranger = Downstream(v2_shop, private_key=VECTORS["platform_private_key"])
    problem = stranger.run(stranger.gateway.check()).reason
    assert "RSA签名校验失败" in problem
    assert "EPAY_V2_PRIVATE_KEY" in problem
    stranger.run(stranger.gateway.close())
