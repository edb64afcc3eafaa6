"""The Epay gateway: its requests, the outcomes of replies, and no repeated refunds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus

import msgspec
import pytest
import pytest_asyncio

from opentill.core.errors import ConfigurationError, Unavailable
from opentill.core.money import Money
from opentill.gateways import BadCallback, Notified, PaymentRequest, RefundRequest
from opentill.gateways.epay import configuration, signature, wire
from opentill.gateways.epay.client import EpayGateway
from opentill.outgoing.client import Outgoing, Policy
from support import epay_gateway_server
from support.epay_gateway_server import KEY, PID, EpayServer
from support.ports import free_socket, url_of

ATTEMPT: Final = "att_01m7y0m0jzefzv5n8efcf1hqw1"
REQUEST: Final = PaymentRequest(
    attempt_id=ATTEMPT,
    method="ALIPAY",
    amount=Money(999, "CNY"),
    description="茶 & Tea \\ 100 g",
    merchant_name="Tea House",
    customer_email="ada@example.com",
    customer_name=None,
    payer_ip="203.0.113.7",
    return_url="https://till.example/checkout/cs_1/return/att_1?lang=zh",
    callback_url="https://till.example/gateways/epay/callback",
    locale="zh",
)
REFUND: Final = RefundRequest(
    refund_id="re_01m7y0m0jzefzv5n8efcf1hqw1",
    attempt_id=ATTEMPT,
    provider_ref="",
    amount=Money(999, "CNY"),
    reason="",
    callback_url="",
)


def create_gateway(server: EpayServer, **options: str) -> EpayGateway:
    settings = {"epay_url": server.url, "epay_pid": PID, "epay_key": KEY}
    settings |= {f"epay_{name}": text for name, text in options.items()}
    outgoing = Outgoing(Policy.only(server.url))
    return EpayGateway(configuration.read(settings), outgoing, timeout_s=5.0, cache_s=0.0)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EpayServer]:
    async with epay_gateway_server.running_epay_server() as server:
        yield server


@pytest_asyncio.fixture
async def gateway(server: EpayServer) -> AsyncIterator[EpayGateway]:
    gateway = create_gateway(server)
    yield gateway
    await gateway.close()


async def test_a_payment_is_placed_notified_and_refunded(
    server: EpayServer, gateway: EpayGateway
) -> None:
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    outcome = await gateway.pay(REQUEST)
    assert outcome.status == "ACTION_REQUIRED"
    assert outcome.action_url == f"{server.url}cashier/{outcome.provider_ref}"
    assert await gateway.pay(REQUEST) == outcome
    assert server.orders[ATTEMPT]["name"] == "茶 ＆ Tea / 100 g"
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"
    notice = server.pay(ATTEMPT)
    (gateway_event,) = await gateway.read_notice(notice)
    assert gateway_event.attempt_id == ATTEMPT
    outcome = await gateway.find_payment(ATTEMPT)
    assert (outcome.status, outcome.amount, outcome.method) == (
        "SUCCEEDED",
        Money(999, "CNY"),
        "ALIPAY",
    )
    partial_refund = msgspec.structs.replace(
        REFUND, amount=Money(100, "CNY"), provider_ref="20260000000000"
    )
    assert (await gateway.refund(partial_refund)).status == "SUCCEEDED"
    assert server.refunds == [(ATTEMPT, "1.00")]


async def test_orders_are_queried_by_get_unless_configured_otherwise(
    server: EpayServer, gateway: EpayGateway
) -> None:
    """A rainbow server reads the query string only, so the key cannot be in the body."""
    await gateway.find_payment(ATTEMPT)
    method, _, query = server.requests[-1]
    assert (method, query["key"]) == ("GET", KEY)
    post_gateway = create_gateway(server, query="post")
    await post_gateway.find_payment(ATTEMPT)
    assert server.requests[-1] == ("POST", "order", {"act": "order"})
    await post_gateway.close()


async def test_orders_are_queried_by_post_if_the_server_ignores_the_query_string(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.reads = "body"
    await gateway.pay(REQUEST)
    server.requests.clear()
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"
    assert [method for method, _, _ in server.requests] == ["GET", "POST"]
    notice = server.pay(ATTEMPT)
    assert len(await gateway.read_notice(notice)) == 1
    # The gateway has remembered that this server needs POST.
    assert [method for method, _, _ in server.requests] == [
        "GET",
        "POST",
        "POST",
    ]


async def test_an_error_of_the_server_does_not_cause_a_query_by_post(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.faults = [("order", "500 before")]
    assert (await gateway.find_payment(ATTEMPT)).status == "UNKNOWN"
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    assert [method for method, _, _ in server.requests] == ["GET", "GET"]


async def test_a_notification_that_cannot_be_verified_must_be_sent_again(
    server: EpayServer, gateway: EpayGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """The notification may be genuine, although the configured key for queries is wrong."""
    await gateway.pay(REQUEST)
    notice = server.pay(ATTEMPT)
    server.order_changes = {"code": -3, "msg": "旧查询接口已升级为签名模式"}
    with pytest.raises(Unavailable):
        await gateway.read_notice(notice)
    assert "旧查询接口已升级为签名模式" in caplog.text
    assert KEY not in caplog.text


# Each row: options, the server's fault when an unknown order is queried, and the reported problem
# (None: no problem).
CHECKS: Final = [
    ({}, "", None),
    ({"reads": "query"}, "", None),
    ({"reads": "body"}, "", "set OPENTILL_GATEWAY_EPAY_QUERY=post"),
    ({"key": "another-key-of-somebody"}, "", "-3: 商户ID或密钥错误"),
    ({"pid": "1002"}, "", "OPENTILL_GATEWAY_EPAY_PID and OPENTILL_GATEWAY_EPAY_KEY"),
    ({"query": "post", "reads": "query"}, "", "set OPENTILL_GATEWAY_EPAY_QUERY=get"),
    ({}, "html", "not in the convention's form"),
    ({}, "500 before", "HTTP 500"),
]


@pytest.mark.parametrize(("options", "fault", "problem"), CHECKS, ids=str)
async def test_the_check_reports_why_the_server_refuses_a_query(
    server: EpayServer, options: dict[str, Any], fault: str, problem: str | None
) -> None:
    server.reads = options.pop("reads", "either")
    server.faults = [("order", fault)] if fault else []
    gateway = create_gateway(server, **options)
    reported = await gateway.check()
    await gateway.close()
    if problem is None:
        assert reported is None
    else:
        assert reported is not None
        assert problem in reported.reason
        assert KEY not in reported.reason


async def test_messages_about_failed_requests_do_not_contain_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The HTTP client's messages quote the URL, which contains the percent-encoded key."""

    async def send_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"garbage\r\n\r\n")
        writer.close()

    key = "mN/4+k=Q&9%Zx~8T"
    listener = free_socket()
    server = EpayServer()
    server.url = f"{url_of(listener)}/pay/"
    gateway = create_gateway(server, key=key)
    async with await asyncio.start_server(send_garbage, sock=listener):
        invalid_response = await gateway.find_payment(ATTEMPT)
    no_connection = await gateway.find_payment(ATTEMPT)  # the server has stopped
    await gateway.close()
    assert [invalid_response.status, no_connection.status] == ["UNKNOWN", "UNREACHABLE"]
    assert "refused" in no_connection.reason or "Connect call failed" in no_connection.reason
    messages = f"{invalid_response.reason}\n{no_connection.reason}\n{caplog.text}"
    assert "api.php?act=order: UNKNOWN" in messages
    for text in (quote_plus(key), quote(key), key, "key="):
        assert text not in messages


async def test_without_mapi_the_browser_gets_a_signed_url(server: EpayServer) -> None:
    gateway = create_gateway(server, mode="submit")
    outcome = await gateway.pay(REQUEST)
    assert server.requests == []
    path, _, query = outcome.action_url.partition("?")
    assert path == f"{server.url}submit.php"
    params = _parse(query)
    assert signature.verify(params, KEY)
    assert params["out_trade_no"] == ATTEMPT
    assert KEY not in query
    await gateway.close()


def _parse(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))


@pytest.mark.parametrize("fault", ["cut", "500 before", "500 after", "html"])
async def test_without_a_response_the_browser_places_the_order(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("mapi", fault)]
    outcome = await gateway.pay(REQUEST)
    assert outcome.status == "ACTION_REQUIRED"
    assert "submit.php?" in outcome.action_url
    params = _parse(outcome.action_url.partition("?")[2])
    server.run_operation("submit", params)
    assert list(server.orders) == [ATTEMPT]


async def test_a_payurl_that_is_not_a_web_page_is_ignored(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.payurl = "weixin://wxpay/bizpayurl?pr=1"
    outcome = await gateway.pay(REQUEST)
    assert outcome.status == "ACTION_REQUIRED"
    assert outcome.action_url.startswith(f"{server.url}submit.php?")


@pytest.mark.parametrize("fault", ["gbk", "bom"])
async def test_replies_in_other_encodings_are_read(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("order", fault), ("order", fault)]
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    await gateway.pay(REQUEST)
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"


@pytest.mark.parametrize("fault", ["cut", "500 before", "html"])
async def test_a_query_without_a_usable_reply_is_unknown(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("order", fault)]
    assert (await gateway.find_payment(ATTEMPT)).status == "UNKNOWN"


async def test_a_server_that_refuses_connections_is_unreachable(server: EpayServer) -> None:
    server.url = "http://127.0.0.1:9/pay/"
    gateway = create_gateway(server)
    assert (await gateway.pay(REQUEST)).status == "UNREACHABLE"
    assert (await gateway.refund(REFUND)).status == "UNREACHABLE"
    await gateway.close()


# Each row: fields that the response of act=order adds or changes, and the status of the outcome.
ORDERS: Final = [
    ({"status": "1"}, "SUCCEEDED"),
    ({"status": 1, "money": 9.99}, "SUCCEEDED"),
    ({"status": 1, "money": "9.990"}, "SUCCEEDED"),
    ({"status": 1, "money": "9.991"}, "UNKNOWN"),
    ({"status": 1, "money": "9.99e0"}, "UNKNOWN"),
    ({"status": 1, "money": None}, "UNKNOWN"),
    ({"status": 0, "money": None}, "ACTION_REQUIRED"),
    ({"status": 2}, "UNKNOWN"),
    ({"status": 3}, "UNKNOWN"),
    ({"status": 7}, "UNKNOWN"),
    ({"status": 1, "out_trade_no": "att_other"}, "UNKNOWN"),
    ({"status": 1, "pid": 1002}, "UNKNOWN"),
    ({"code": -3, "msg": "KEY错误"}, "UNKNOWN"),
    ({"code": -1, "msg": "订单不存在！"}, "NOT_FOUND"),
    ({"code": -1, "msg": "订单号不存在"}, "NOT_FOUND"),
    ({"code": -1, "msg": "系统繁忙"}, "UNKNOWN"),
    ({"code": None}, "UNKNOWN"),
]


@pytest.mark.parametrize(("extra", "status"), ORDERS, ids=str)
async def test_each_reply_about_an_order_has_its_outcome(
    server: EpayServer, gateway: EpayGateway, extra: dict[str, Any], status: str
) -> None:
    await gateway.pay(REQUEST)
    server.order_changes = extra
    assert (await gateway.find_payment(ATTEMPT)).status == status


async def test_a_refused_order_is_declined_and_may_be_retried(server: EpayServer) -> None:
    gateway = create_gateway(server, key="another-key-of-somebody")
    outcome = await gateway.pay(REQUEST)
    assert (outcome.status, outcome.reason) == ("DECLINED", "-3: 签名校验失败")
    # The refund is retried later, because the operator can correct the key.
    assert (await gateway.refund(REFUND)).status == "UNREACHABLE"
    await gateway.close()


@pytest.mark.parametrize("fault", ["cut", "500 after"])
async def test_a_full_refund_whose_response_was_lost_is_detected_and_never_repeated(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.faults = [("refund", fault)]
    assert (await gateway.refund(REFUND)).status == "UNKNOWN"
    repeated = msgspec.structs.replace(REFUND, repeated=True)
    assert (await gateway.refund(repeated)).status == "SUCCEEDED"
    assert server.refunds == [(ATTEMPT, "9.99")]


@pytest.mark.parametrize("fault", ["cut", "500 before", "html"])
async def test_a_partial_refund_whose_response_was_lost_waits_for_the_operator(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.faults = [("refund", fault)]
    partial_refund = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    assert (await gateway.refund(partial_refund)).status == "UNKNOWN"
    refunds_at_server = len(server.refunds)
    repeated = msgspec.structs.replace(partial_refund, repeated=True)
    for _ in range(3):
        outcome = await gateway.refund(repeated)
        assert outcome.status == "UNKNOWN"
        assert "opentill refunds" in outcome.reason
    # A refund with the id of an attempt sends a duplicate payment back.
    duplicate = msgspec.structs.replace(repeated, refund_id=ATTEMPT)
    assert "opentill orders given-back" in (await gateway.refund(duplicate)).reason
    assert len(server.refunds) == refunds_at_server <= 1


async def test_a_refund_is_refused_only_if_the_order_is_still_paid(
    server: EpayServer, gateway: EpayGateway
) -> None:
    await gateway.pay(REQUEST)
    # The order is not paid, so the server's refusal proves nothing.
    outcome = await gateway.refund(REFUND)
    assert outcome.status == "UNKNOWN"
    server.pay(ATTEMPT)
    server.refund_response = {"code": -1, "msg": "商户余额不足，请先充值"}
    partial_refund = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    outcome = await gateway.refund(partial_refund)
    assert (outcome.status, outcome.reason) == ("REFUSED", "-1: 商户余额不足，请先充值")


# Each row: code and message with which the server answers a refund, and the status of the outcome.
# The order stays paid.
REFUND_REPLIES: Final = [
    (-1, "退款金额不能大于订单金额", "REFUSED"),
    (-1, "退款金额不能超过该订单剩余可退款金额！", "REFUSED"),
    (-1, "金额输入错误", "REFUSED"),
    (-1, "系统维护中，请稍后再试", "UNKNOWN"),
    (-1, "系统错误，请稍后再试", "UNKNOWN"),
    (-1, "退款失败：cURL error 28: timed out", "UNKNOWN"),
    (-1, "余额变动失败，退款金额不明", "UNKNOWN"),
    (0, "", "UNKNOWN"),
    (0, "退款失败：未知错误", "UNKNOWN"),
    (-2, "网关退款未确认，禁止自动重试", "UNKNOWN"),
    (-2, "商户未开启订单退款API接口", "UNREACHABLE"),
    (-1, "请求过于频繁，请稍后再试", "UNREACHABLE"),
]


@pytest.mark.parametrize(("code", "message", "status"), REFUND_REPLIES)
async def test_a_refund_is_refused_only_by_replies_that_exclude_an_effect(
    server: EpayServer, gateway: EpayGateway, code: int, message: str, status: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.refund_response = {"code": code, "msg": message}
    partial_refund = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    outcome = await gateway.refund(partial_refund)
    assert (outcome.status, server.orders[ATTEMPT]["status"]) == (status, 1)
    assert outcome.reason.startswith(f"{code}: {message}")


@pytest.mark.parametrize("message", ["退款成功", "退款成功！退款金额￥1.00"])
async def test_code_0_with_the_message_of_success_is_a_successful_refund(
    server: EpayServer, gateway: EpayGateway, message: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    partial_refund = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    server.refund_response = {"code": 0, "msg": message, "money": "1.00", "refund_no": "2026"}
    outcome = await gateway.refund(partial_refund)
    assert (outcome.status, outcome.provider_ref) == ("SUCCEEDED", "2026")
    server.refund_response["money"] = "2.00"
    # The response is about another amount than the refund.
    assert (await gateway.refund(partial_refund)).status == "UNKNOWN"


async def test_a_notification_counts_only_if_the_server_confirms_it(
    server: EpayServer, gateway: EpayGateway
) -> None:
    assert isinstance(gateway, Notified)
    assert gateway.acknowledgement == b"success"
    await gateway.pay(REQUEST)
    order = server.orders[ATTEMPT]
    with pytest.raises(BadCallback, match="otherwise"):
        # The signature is valid, but the order is not paid.
        await gateway.read_notice(server.notice(order))
    genuine = server.pay(ATTEMPT)
    forged = [
        {**genuine, "money": "0.01"},
        {**genuine, "sign": genuine["sign"].upper()},
        {**genuine, "sign_type": "RSA"},
        {name: value for name, value in genuine.items() if name != "sign"},
        server.notice(order, key="another-key-of-somebody"),
        server.notice(order, pid="1002"),
        server.notice(order, money="0.01"),
        server.notice(order, out_trade_no="order-7"),
        server.notice(order, out_trade_no="att_01m7y0m0jzefzv5n8efcf1hqw9"),
    ]
    for notice in forged:
        with pytest.raises(BadCallback):
            await gateway.read_notice(notice)
    assert await gateway.read_notice(server.notice(order, trade_status="WAIT")) == ()
    server.faults = [("order", "500 before")]
    with pytest.raises(Unavailable):
        await gateway.read_notice(genuine)
    assert len(await gateway.read_notice(genuine)) == 1
    order["status"] = 2
    assert await gateway.read_notice(genuine) == ()


INVALID_OPTIONS: Final = [
    ("url", ""), ("url", "pay.example.com"), ("url", "https://pay.example.com/?a=1"),
    ("pid", "abc"), ("key", "short"), ("key", "with space in it"), ("methods", "ALIPAY,CASH"),
    ("methods", "ALIPAY,ALIPAY"), ("methods", "ALIPAY=a b"), ("mode", "curl"), ("query", "put"),
    ("currency", "RMB"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), INVALID_OPTIONS)
def test_an_invalid_option_is_reported_with_its_variable(name: str, text: str) -> None:
    settings = {"epay_url": "https://pay.example.com", "epay_pid": PID, "epay_key": KEY}
    with pytest.raises(ConfigurationError, match=f"OPENTILL_GATEWAY_EPAY_{name.upper()} must be"):
        configuration.read(settings | {f"epay_{name}": text})


def test_options_contain_the_servers_url_and_its_names_of_methods() -> None:
    settings = {"epay_url": "https://pay.example.com/epay/submit.php", "epay_pid": PID}
    settings |= {"epay_key": KEY, "epay_methods": "WECHAT_PAY=wxpay2, ALIPAY"}
    options = configuration.read(settings)
    assert options.url == "https://pay.example.com/epay/"
    assert options.methods == {"WECHAT_PAY": "wxpay2", "ALIPAY": "alipay"}
    assert KEY not in repr(options)
    gateway = EpayGateway(options, Outgoing(Policy.only(options.url)))
    assert gateway.methods("CNY") == ("WECHAT_PAY", "ALIPAY")
    assert gateway.methods("USD") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Tea & Co", "Tea ＆ Co"), ("\\\\", "//"), ("  a \n b ", "a b"), ("&", "＆"), (" ", "-"),
     ("茶" * 60, "茶" * 42)],
)  # fmt: skip
def test_a_name_is_normalized_for_signatures(text: str, expected: str) -> None:
    assert wire.name(text) == expected
    assert signature.embedded_fields(wire.name(text + "&trade_no=1")) == []


MALFORMED_BODIES: Final = [
    b"", b"[]", b"null", b'"1"', b"{}", b'{"code":[1]}', b'{"code":1e999999999}', b"[" * 60000,
    b'{"code":"' + b"9" * 6000 + b'"}', b'{"code":' + b"9" * 6000 + b"}", b"\xff\xfe",
    b'{"code":NaN}',
]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED_BODIES, ids=lambda body: body[:12])
def test_a_malformed_body_is_ignored(body: bytes) -> None:
    assert wire.read(body) is None
