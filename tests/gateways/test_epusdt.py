"""The adapter for epusdt servers: parameters, codes, statuses, signatures and callbacks.

What servers do that every adapter has to survive is in the conformance suite.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.ids import first_id, new_id
from opentill.core.money import Money
from opentill.db.clock import now_ms
from opentill.gateways import BadCallback, GatewayPaymentEvent
from opentill.gateways.epusdt import EpusdtGateway, signature
from opentill.gateways.epusdt.client import BepusdtGateway
from opentill.gateways.epusdt.configuration import read
from opentill.outgoing.client import Outgoing, Policy
from support.epusdt_shop import EpusdtShop
from support.ports import free_socket, url_of
from support.sandbox_bank import serving

TOKEN: Final = "a-token-of-20-letters"
CALLBACK: Final = {
    "trade_id": "202203251648208648961728",
    "order_id": "2022123321312321321",
    "amount": 100,
    "actual_amount": 15.625,
    "token": "TNEns8t9jbWENbStkQdVQtHMGpbsYsQjZK",
    "block_transaction_id": "123333333321232132131",
    "status": 2,
}


class FakeServer:
    """A server that returns what a test says, and records what it gets."""

    def __init__(self) -> None:
        self.status, self.reply = 200, b"{}"
        self.requests: list[tuple[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        self.requests.append((scope["path"], json.loads(body) if body else None))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.reply})

    def returns(self, reply: Any, status: int = 200) -> None:
        self.status, self.reply = status, json.dumps(reply).encode()


@pytest.fixture(scope="module")
def server_url() -> Iterator[tuple[FakeServer, str]]:
    server, sock = FakeServer(), free_socket()
    with serving(server, sock):
        yield server, url_of(sock)


@pytest.fixture
def server(server_url: tuple[FakeServer, str]) -> FakeServer:
    server_url[0].__init__()  # type: ignore[misc]  # the server of the module, as if it were new
    return server_url[0]


def make(url: str, *, fork: bool = False, **changes: str) -> EpusdtGateway:
    options = {"url": url, "token": TOKEN, "server": "bepusdt" if fork else "epusdt", **changes}
    configured = read({f"epusdt_{name}": value for name, value in options.items()})
    kind = BepusdtGateway if fork else EpusdtGateway
    return kind(configured, Outgoing(Policy.only(configured.url)), 2.0)


def test_the_signature_is_that_of_the_documents() -> None:
    # https://github.com/assimon/epusdt/blob/master/wiki/API.md
    order = {
        "order_id": "20220201030210321",
        "amount": 42,
        "notify_url": "http://example.com/notify",
        "redirect_url": "http://example.com/redirect",
        "empty": "",
        "missing": None,
    }
    token = "epusdt_password_xasddawqe"
    for amount in (42, 42.0, "42"):
        signed = signature.sign(order | {"amount": amount}, token)
        assert signed == "1cd4b52df5587cfb1968b0c0c6e156cd"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (100.0, "100"), (28.88, "28.88"), (0.00001, "0.00001"), (1e21, "1" + "0" * 21), (0, "0"),
        ("1e5", "1e5"), (True, None), ([1], None), ({}, None), (float("inf"), None), (None, ""),
    ],
)  # fmt: skip
def test_a_number_is_signed_without_an_exponent(value: object, text: str | None) -> None:
    assert signature.text_of(value) == text


async def test_an_order_has_the_amount_and_what_the_fork_knows(
    server: FakeServer, server_url: tuple[FakeServer, str], epusdt_shop: EpusdtShop
) -> None:
    request = epusdt_shop.request(amount=Money(12300, "CNY"), expires_at=now_ms() + 900_500)
    for fork in (False, True):
        settings = {"trade_type": "usdt.bep20", "rate": "~1.02"} if fork else {}
        gateway = make(server_url[1], fork=fork, **settings)
        outcome = await gateway.pay(request)
        assert (outcome.status, outcome.reason) == ("UNKNOWN", "no message")
        await gateway.close()
    (path, original), (_, fork_order) = server.requests
    assert path == "/api/v1/order/create-transaction"
    assert original == {
        "order_id": request.attempt_id,
        "amount": 123,
        "notify_url": request.callback_url,
        "redirect_url": request.return_url,
        "signature": signature.sign(original, TOKEN),
    }
    assert 895 <= fork_order["timeout"] <= 900
    assert (fork_order["trade_type"], fork_order["rate"]) == ("usdt.bep20", "~1.02")
    assert fork_order["signature"] == signature.sign(fork_order, TOKEN)


@pytest.mark.parametrize(
    ("reply", "http", "status", "reason"),
    [
        ({"status_code": 10003, "message": "无可用钱包地址"}, 200, "DECLINED", "10003 无可用"),
        ({"status_code": 401, "message": "签名认证错误"}, 200, "DECLINED", "401 签名认证错误"),
        ({"error": "签名错误"}, 400, "DECLINED", "签名错误"),
        ({"status_code": 10002, "message": "已存在"}, 200, "UNKNOWN", "the response was lost"),
        ({"status_code": 500, "message": "server error"}, 200, "UNKNOWN", "500 server error"),
        ({"status_code": "200", "data": []}, 200, "UNKNOWN", "about another payment"),
        ({"status_code": 200, "data": {"order_id": "att_1"}}, 200, "UNKNOWN", "another payment"),
        ({"status_code": [200]}, 200, "UNKNOWN", "no message"),
        ({"message": "x" * 999, "status_code": 9}, 200, "UNKNOWN", "9 " + "x" * 200),
        ({}, 404, "UNKNOWN", "HTTP 404"),
        ([], 200, "UNKNOWN", "not in the protocol's form"),
    ],
)  # fmt: skip
async def test_a_refusal_declines_and_anything_else_is_unknown(
    server: FakeServer, server_url: tuple[FakeServer, str], epusdt_shop: EpusdtShop, reply: Any,
    http: int, status: str, reason: str,
) -> None:  # fmt: skip
    server.returns(reply, http)
    gateway = make(server_url[1])
    outcome = await gateway.pay(epusdt_shop.request())
    assert outcome.status == status
    assert reason in outcome.reason
    assert len(outcome.reason) < 300
    await gateway.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 9.98}, {"amount": "9.991"}, {"amount": None}, {"order_id": "att_other"},
        {"payment_url": "javascript:alert(1)"}, {"payment_url": ""}, {"trade_id": "../../x"},
        {"trade_id": ""}, {"trade_id": "t" * 129},
    ],
)  # fmt: skip
async def test_an_order_other_than_the_one_asked_for_is_unknown(
    server: FakeServer, server_url: tuple[FakeServer, str], epusdt_shop: EpusdtShop, changes: Any
) -> None:
    request = epusdt_shop.request()
    data = {
        "trade_id": "T1", "order_id": request.attempt_id, "amount": "9.990",
        "payment_url": "https://usdt.example/pay/T1",
    }  # fmt: skip
    gateway = make(server_url[1])
    server.returns({"status_code": 200, "data": data})
    good = await gateway.pay(request)
    assert (good.status, good.provider_ref) == ("ACTION_REQUIRED", "T1")
    server.returns({"status_code": 200, "data": data | changes})
    assert (await gateway.pay(request)).status == "UNKNOWN"
    await gateway.close()


async def test_amounts_that_a_float_changes_are_not_sent(
    server: FakeServer, server_url: tuple[FakeServer, str], epusdt_shop: EpusdtShop
) -> None:
    gateway = make(server_url[1])
    for amount in (Money(10**16 - 1, "CNY"), Money(999, "USD")):
        outcome = await gateway.pay(epusdt_shop.request(amount=amount))
        assert outcome.status == "DECLINED"
    assert server.requests == []
    assert (gateway.methods("CNY"), gateway.methods("USD")) == (("CRYPTO",), ())
    await gateway.close()


@pytest.mark.parametrize(
    ("status", "original", "fork"),
    [
        (1, "ACTION_REQUIRED", "ACTION_REQUIRED"), (2, "SUCCEEDED", "SUCCEEDED"),
        (3, "DECLINED", "DECLINED"), (4, "UNKNOWN", "DECLINED"), (5, "UNKNOWN", "PENDING"),
        (6, "UNKNOWN", "DECLINED"), (0, "UNKNOWN", "UNKNOWN"), (7, "UNKNOWN", "UNKNOWN"),
        ("2", "SUCCEEDED", "SUCCEEDED"), ("paid", "UNKNOWN", "UNKNOWN"),
        (None, "UNKNOWN", "UNKNOWN"), ([2], "UNKNOWN", "UNKNOWN"), (True, "UNKNOWN", "UNKNOWN"),
    ],
)  # fmt: skip
async def test_an_unknown_status_is_unknown(
    server: FakeServer, server_url: tuple[FakeServer, str], status: Any, original: str, fork: str
) -> None:
    data = {"trade_id": "T1", "status": status}
    for reply, is_fork, expected in (
        ({"status_code": 200, "data": data}, False, original),
        (data, True, fork),
    ):
        server.returns(reply)
        gateway = make(server_url[1], fork=is_fork)
        outcome = await gateway.find_payment(new_id("att"), "T1")
        assert (outcome.status, outcome.amount) == (expected, None)
        await gateway.close()
        body = sign_callback({**CALLBACK, "order_id": new_id("att"), "status": status})
        try:
            events = gateway.read_callback({}, body, 0)
        except BadCallback:
            assert status in ([2], True)
            continue
        reported = [event.outcome.status for event in events]  # type: ignore[union-attr]
        assert reported == ([] if expected == "ACTION_REQUIRED" else [expected])


async def test_a_query_is_about_the_order_that_it_asks_for(
    server: FakeServer, server_url: tuple[FakeServer, str]
) -> None:
    gateway = make(server_url[1])
    attempt_id = new_id("att")
    server.returns({"status_code": 200, "data": {"trade_id": "T2", "status": 2}})
    assert (await gateway.find_payment(attempt_id, "T1")).status == "UNKNOWN"
    server.returns({"status_code": 10008, "message": "订单不存在"})
    assert (await gateway.find_payment(attempt_id, "T1")).status == "NOT_FOUND"
    assert server.requests[-1][0] == "/pay/check-status/T1"
    # Without a number nobody can be asked. Nobody has seen the page, so nobody pays.
    assert (await gateway.find_payment(attempt_id)).status == "UNKNOWN"
    assert (await gateway.find_payment(first_id("att", now_ms() - 61_000))).status == "DECLINED"
    assert (await gateway.find_payment(attempt_id, "../admin")).status == "UNKNOWN"
    assert len(server.requests) == 2
    await gateway.close()


def sign_callback(values: dict[str, Any], token: str = TOKEN) -> bytes:
    signed = {name: value for name, value in values.items() if signature.text_of(value) is not None}
    return json.dumps({**values, "signature": signature.sign(signed, token)}).encode()


async def test_a_callback_has_the_orders_amount() -> None:
    gateway, attempt_id = make("https://usdt.example"), new_id("att")
    for amount, minor in ((100, 10000), (99.5, 9950), ("28.880", 2888), (0.01, 1)):
        body = sign_callback({**CALLBACK, "order_id": attempt_id, "amount": amount})
        (event,) = gateway.read_callback({}, body, 0)
        assert isinstance(event, GatewayPaymentEvent)
        assert event.attempt_id == attempt_id
        assert (event.outcome.status, event.outcome.amount) == ("SUCCEEDED", Money(minor, "CNY"))
        assert event.outcome.provider_ref == CALLBACK["trade_id"]
    for amount in ("much", -1, 1e30, 9.999, None, ""):
        body = sign_callback({**CALLBACK, "order_id": attempt_id, "amount": amount})
        (event,) = gateway.read_callback({}, body, 0)
        assert isinstance(event, GatewayPaymentEvent)
        assert event.outcome.status == "UNKNOWN"
    # The order of another program at the same server.
    assert gateway.read_callback({}, sign_callback(CALLBACK), 0) == ()
    await gateway.close()


async def test_a_callback_with_another_signature_is_refused() -> None:
    gateway = make("https://usdt.example")
    values = {**CALLBACK, "order_id": new_id("att")}
    genuine = msgspec.json.decode(sign_callback(values), type=dict[str, Any])
    merged = {**values, "token": f"{values['token']}&trade_id={values['trade_id']}"}
    del merged["trade_id"]
    for body in (
        sign_callback(values, "another-token-of-a-server"),
        json.dumps({**genuine, "signature": genuine["signature"].upper()}).encode(),
        json.dumps({**genuine, "signature": None}).encode(),
        json.dumps({**genuine, "signature": "é" * 32}).encode(),
        json.dumps(values).encode(),
        # The text of these is signed, but not as one value.
        json.dumps({**merged, "signature": genuine["signature"]}).encode(),
        sign_callback({name: value for name, value in values.items() if name != "trade_id"}),
        sign_callback({**values, "order_id": 5}),
    ):
        with pytest.raises(BadCallback):
            gateway.read_callback({}, body, 0)
    await gateway.close()


async def test_faults_of_the_dialect_are_seen(epusdt_shop: EpusdtShop) -> None:
    for fork in (False, True):
        gateway = epusdt_shop.gateway(fork=fork)
        for fault in ("wrong_amount", "other_account"):
            epusdt_shop.inject_fault("pay", fault)
            outcome = await gateway.pay(epusdt_shop.request())
            assert outcome.reason == "the response is about another payment"
        request = epusdt_shop.request()
        outcome = await gateway.pay(request)
        epusdt_shop.inject_fault("find", "other_account", match=outcome.provider_ref)
        queried = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
        assert queried.status == "UNKNOWN"
        for fault in ("malformed", "huge"):
            request = epusdt_shop.request()
            epusdt_shop.inject_fault("pay", fault)
            outcome = await gateway.pay(request)
            assert (outcome.status, outcome.reason) == ("UNKNOWN", "not in the protocol's form")
            # The order exists. The fork returns it again.
            expected = "ACTION_REQUIRED" if fork else "UNKNOWN"
            assert (await gateway.pay(request)).status == expected
        for fault in ("wrong_signature", "wrong_amount", "duplicate"):
            request = epusdt_shop.request()
            outcome = await gateway.pay(request)
            epusdt_shop.inject_fault("callback", fault)
            epusdt_shop.decide(request.attempt_id)
            times = 2 if fault == "duplicate" else 1
            for headers, body in epusdt_shop.receiver.wait_for(request.attempt_id, times):
                if fault == "wrong_signature":
                    with pytest.raises(BadCallback):
                        gateway.read_callback(headers, body, 0)
                    continue
                (event,) = gateway.read_callback(headers, body, 0)
                assert isinstance(event, GatewayPaymentEvent)
                minor = 1000 if fault == "wrong_amount" else 999
                assert event.outcome.amount == Money(minor, "CNY")
        await gateway.close()


async def test_the_fork_cancels_an_order_unless_it_is_paid(epusdt_shop: EpusdtShop) -> None:
    gateway = epusdt_shop.gateway(fork=True)
    assert isinstance(gateway, BepusdtGateway)
    request = epusdt_shop.request()
    ref = (await gateway.pay(request)).provider_ref
    ended = await gateway.expire(request.attempt_id, ref)
    assert (ended.status, ended.reason) == ("DECLINED", "canceled")
    again = await gateway.expire(request.attempt_id, ref)
    assert (again.status, again.reason) == ("DECLINED", "canceled")
    paid_request = epusdt_shop.request()
    ref = (await gateway.pay(paid_request)).provider_ref
    epusdt_shop.decide(paid_request.attempt_id)
    assert (await gateway.expire(paid_request.attempt_id, ref)).status == "SUCCEEDED"
    repeated = await gateway.pay(paid_request)
    assert (repeated.status, repeated.amount) == ("SUCCEEDED", Money(999, "CNY"))
    await gateway.close()
    assert not hasattr(epusdt_shop.gateway(), "expire")
