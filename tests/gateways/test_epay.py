"""The adapter for Epay servers: what it sends, what it makes of answers, and what it never does."""

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


def gateway_of(server: EpayServer, **options: str) -> EpayGateway:
    given = {"epay_url": server.url, "epay_pid": PID, "epay_key": KEY}
    given |= {f"epay_{name}": text for name, text in options.items()}
    outgoing = Outgoing(Policy.only(server.url))
    return EpayGateway(configuration.read(given), outgoing, timeout_s=5.0, reused_s=0.0)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EpayServer]:
    async with epay_gateway_server.running() as server:
        yield server


@pytest_asyncio.fixture
async def gateway(server: EpayServer) -> AsyncIterator[EpayGateway]:
    gateway = gateway_of(server)
    yield gateway
    await gateway.close()


async def test_a_payment_from_its_placing_to_its_refund(
    server: EpayServer, gateway: EpayGateway
) -> None:
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    placed = await gateway.pay(REQUEST)
    assert placed.status == "ACTION_REQUIRED"
    assert placed.action_url == f"{server.url}cashier/{placed.provider_ref}"
    assert await gateway.pay(REQUEST) == placed
    assert server.orders[ATTEMPT]["name"] == "茶 ＆ Tea / 100 g"
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"
    notice = server.pay(ATTEMPT)
    (gateway_event,) = await gateway.read_notice(notice)
    assert gateway_event.attempt_id == ATTEMPT
    found = await gateway.find_payment(ATTEMPT)
    assert (found.status, found.amount, found.method) == ("SUCCEEDED", Money(999, "CNY"), "ALIPAY")
    part = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"), provider_ref="20260000000000")
    assert (await gateway.refund(part)).status == "SUCCEEDED"
    assert server.refunds == [(ATTEMPT, "1.00")]


async def test_an_order_is_asked_for_by_get_unless_the_setting_says_otherwise(
    server: EpayServer, gateway: EpayGateway
) -> None:
    """The usual server reads the query only: there the key cannot stand in the body."""
    await gateway.find_payment(ATTEMPT)
    method, _, query = server.requests[-1]
    assert (method, query["key"]) == ("GET", KEY)
    other = gateway_of(server, query="post")
    await other.find_payment(ATTEMPT)
    assert server.requests[-1] == ("POST", "order", {"act": "order"})
    await other.close()


async def test_an_order_is_asked_for_by_post_where_a_server_does_not_read_the_query(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.reads = "body"
    await gateway.pay(REQUEST)
    server.requests.clear()
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"
    assert [method for method, _, _ in server.requests] == ["GET", "POST"]
    notice = server.pay(ATTEMPT)
    assert len(await gateway.read_notice(notice)) == 1
    assert [method for method, _, _ in server.requests] == [
        "GET",
        "POST",
        "POST",
    ]  # it is known now


async def test_an_order_is_asked_for_by_post_as_well_only_where_the_query_counts_for_nothing(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.faults = [("order", "500 before")]
    assert (await gateway.find_payment(ATTEMPT)).status == "UNKNOWN"
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    assert [method for method, _, _ in server.requests] == ["GET", "GET"]


async def test_a_notice_whose_order_the_server_does_not_tell_us_of_is_not_refused(
    server: EpayServer, gateway: EpayGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be genuine, and the key for queries wrong: the server is to send it again."""
    await gateway.pay(REQUEST)
    notice = server.pay(ATTEMPT)
    server.extra = {"code": -3, "msg": "旧查询接口已升级为签名模式"}
    with pytest.raises(Unavailable):
        await gateway.read_notice(notice)
    assert "旧查询接口已升级为签名模式" in caplog.text
    assert KEY not in caplog.text


# What a server does with a query of an order that it does not have, and what doctor says.
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
async def test_doctor_learns_whether_the_server_accepts_our_query(
    server: EpayServer, options: dict[str, Any], fault: str, problem: str | None
) -> None:
    server.reads = options.pop("reads", "either")
    server.faults = [("order", fault)] if fault else []
    gateway = gateway_of(server, **options)
    text = await gateway.check()
    await gateway.close()
    if problem is None:
        assert text is None
    else:
        assert text is not None
        assert problem in text
        assert KEY not in text


async def test_a_failed_request_is_told_without_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the address has it, percent-encoded, and the HTTP client quotes the address."""

    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"garbage\r\n\r\n")
        writer.close()

    key = "mN/4+k=Q&9%Zx~8T"
    listener = free_socket()
    server = EpayServer()
    server.url = f"{url_of(listener)}/pay/"
    gateway = gateway_of(server, key=key)
    async with await asyncio.start_server(garbage, sock=listener):
        found = await gateway.find_payment(ATTEMPT)
    lost = await gateway.find_payment(ATTEMPT)  # nobody is there any more
    await gateway.close()
    assert [found.status, lost.status] == ["UNKNOWN", "UNREACHABLE"]
    assert "refused" in lost.reason or "Connect call failed" in lost.reason
    told = f"{found.reason}\n{lost.reason}\n{caplog.text}"
    assert "api.php?act=order: UNKNOWN" in told
    for part in (quote_plus(key), quote(key), key, "key="):
        assert part not in told


async def test_without_mapi_the_browser_takes_a_signed_address_along(server: EpayServer) -> None:
    gateway = gateway_of(server, mode="submit")
    outcome = await gateway.pay(REQUEST)
    assert server.requests == []
    path, _, query = outcome.action_url.partition("?")
    assert path == f"{server.url}submit.php"
    params = _parsed(query)
    assert signature.verify(params, KEY)
    assert params["out_trade_no"] == ATTEMPT
    assert KEY not in query
    await gateway.close()


def _parsed(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))


@pytest.mark.parametrize("fault", ["cut", "500 before", "500 after", "html"])
async def test_a_placing_without_an_answer_goes_on_in_the_browser(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("mapi", fault)]
    outcome = await gateway.pay(REQUEST)
    assert outcome.status == "ACTION_REQUIRED"
    assert "submit.php?" in outcome.action_url
    params = _parsed(outcome.action_url.partition("?")[2])
    server.answer("submit", params)
    assert list(server.orders) == [ATTEMPT]


async def test_an_address_that_no_page_leads_to_is_not_taken(
    server: EpayServer, gateway: EpayGateway
) -> None:
    server.payurl = "weixin://wxpay/bizpayurl?pr=1"
    outcome = await gateway.pay(REQUEST)
    assert outcome.status == "ACTION_REQUIRED"
    assert outcome.action_url.startswith(f"{server.url}submit.php?")


@pytest.mark.parametrize("fault", ["gbk", "bom"])
async def test_answers_in_other_encodings_are_read(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("order", fault), ("order", fault)]
    assert (await gateway.find_payment(ATTEMPT)).status == "NOT_FOUND"
    await gateway.pay(REQUEST)
    assert (await gateway.find_payment(ATTEMPT)).status == "ACTION_REQUIRED"


@pytest.mark.parametrize("fault", ["cut", "500 before", "html"])
async def test_a_question_without_an_answer_says_nothing(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    server.faults = [("order", fault)]
    assert (await gateway.find_payment(ATTEMPT)).status == "UNKNOWN"


async def test_a_server_that_is_not_there_heard_nothing(server: EpayServer) -> None:
    server.url = "http://127.0.0.1:9/pay/"
    gateway = gateway_of(server)
    assert (await gateway.pay(REQUEST)).status == "UNREACHABLE"
    assert (await gateway.refund(REFUND)).status == "UNREACHABLE"
    await gateway.close()


# What act=order adds or changes, and what it means.
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
async def test_what_an_order_says(
    server: EpayServer, gateway: EpayGateway, extra: dict[str, Any], status: str
) -> None:
    await gateway.pay(REQUEST)
    server.extra = extra
    assert (await gateway.find_payment(ATTEMPT)).status == status


async def test_a_refused_placing_may_be_tried_otherwise(server: EpayServer) -> None:
    gateway = gateway_of(server, key="another-key-of-somebody")
    outcome = await gateway.pay(REQUEST)
    assert (outcome.status, outcome.reason) == ("DECLINED", "-3: 签名校验失败")
    assert (await gateway.refund(REFUND)).status == "UNREACHABLE"  # the key can be put right
    await gateway.close()


@pytest.mark.parametrize("fault", ["cut", "500 after"])
async def test_a_whole_refund_whose_answer_was_lost_is_found_and_never_sent_again(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.faults = [("refund", fault)]
    assert (await gateway.refund(REFUND)).status == "UNKNOWN"
    again = msgspec.structs.replace(REFUND, repeated=True)
    assert (await gateway.refund(again)).status == "SUCCEEDED"
    assert server.refunds == [(ATTEMPT, "9.99")]


@pytest.mark.parametrize("fault", ["cut", "500 before", "html"])
async def test_a_lost_refund_that_cannot_be_told_waits_for_the_operator(
    server: EpayServer, gateway: EpayGateway, fault: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.faults = [("refund", fault)]
    part = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    assert (await gateway.refund(part)).status == "UNKNOWN"
    sent = len(server.refunds)
    again = msgspec.structs.replace(part, repeated=True)
    for _ in range(3):
        outcome = await gateway.refund(again)
        assert outcome.status == "UNKNOWN"
        assert "opentill refunds" in outcome.reason
    second = msgspec.structs.replace(again, refund_id=ATTEMPT)  # a payment that came in twice
    assert "opentill orders given-back" in (await gateway.refund(second)).reason
    assert len(server.refunds) == sent <= 1


async def test_a_refused_refund_is_refused_only_if_the_order_still_stands(
    server: EpayServer, gateway: EpayGateway
) -> None:
    await gateway.pay(REQUEST)
    outcome = await gateway.refund(REFUND)  # not paid at all: nothing that can be believed
    assert outcome.status == "UNKNOWN"
    server.pay(ATTEMPT)
    server.refund_response = {"code": -1, "msg": "商户余额不足，请先充值"}
    part = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    outcome = await gateway.refund(part)
    assert (outcome.status, outcome.reason) == ("REFUSED", "-1: 商户余额不足，请先充值")


# What a server says to a refund whose order stays paid, done or not, and what it means.
TOLD: Final = [
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


@pytest.mark.parametrize(("code", "message", "status"), TOLD)
async def test_only_what_was_refused_beforehand_is_refused(
    server: EpayServer, gateway: EpayGateway, code: int, message: str, status: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    server.refund_response = {"code": code, "msg": message}
    part = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    outcome = await gateway.refund(part)
    assert (outcome.status, server.orders[ATTEMPT]["status"]) == (status, 1)
    assert outcome.reason.startswith(f"{code}: {message}")


@pytest.mark.parametrize("message", ["退款成功", "退款成功！退款金额￥1.00"])
async def test_a_refund_is_done_where_the_usual_server_says_so_with_code_0(
    server: EpayServer, gateway: EpayGateway, message: str
) -> None:
    await gateway.pay(REQUEST)
    server.pay(ATTEMPT)
    part = msgspec.structs.replace(REFUND, amount=Money(100, "CNY"))
    server.refund_response = {"code": 0, "msg": message, "money": "1.00", "refund_no": "2026"}
    outcome = await gateway.refund(part)
    assert (outcome.status, outcome.provider_ref) == ("SUCCEEDED", "2026")
    server.refund_response["money"] = "2.00"
    assert (await gateway.refund(part)).status == "UNKNOWN"  # it is about another amount


async def test_a_notice_counts_only_if_the_server_says_so_too(
    server: EpayServer, gateway: EpayGateway
) -> None:
    assert isinstance(gateway, Notified)
    assert gateway.acknowledgement == b"success"
    await gateway.pay(REQUEST)
    order = server.orders[ATTEMPT]
    with pytest.raises(BadCallback, match="otherwise"):
        await gateway.read_notice(server.notice(order))  # well signed, and not paid
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


WRONG: Final = [
    ("url", ""), ("url", "pay.example.com"), ("url", "https://pay.example.com/?a=1"),
    ("pid", "abc"), ("key", "short"), ("key", "with space in it"), ("methods", "ALIPAY,CASH"),
    ("methods", "ALIPAY,ALIPAY"), ("methods", "ALIPAY=a b"), ("mode", "curl"), ("query", "put"),
    ("currency", "RMB"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_a_wrong_setting_is_named(name: str, text: str) -> None:
    given = {"epay_url": "https://pay.example.com", "epay_pid": PID, "epay_key": KEY}
    with pytest.raises(ConfigurationError, match=f"OPENTILL_GATEWAY_EPAY_{name.upper()} must be"):
        configuration.read(given | {f"epay_{name}": text})


def test_settings_say_which_server_and_which_of_its_types() -> None:
    given = {"epay_url": "https://pay.example.com/epay/submit.php", "epay_pid": PID}
    given |= {"epay_key": KEY, "epay_methods": "WECHAT_PAY=wxpay2, ALIPAY"}
    options = configuration.read(given)
    assert options.url == "https://pay.example.com/epay/"
    assert options.methods == {"WECHAT_PAY": "wxpay2", "ALIPAY": "alipay"}
    assert KEY not in repr(options)
    gateway = EpayGateway(options, Outgoing(Policy.only(options.url)))
    assert gateway.methods("CNY") == ("WECHAT_PAY", "ALIPAY")
    assert gateway.methods("USD") == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Tea & Co", "Tea ＆ Co"), ("\\\\", "//"), ("  a \n b ", "a b"), ("&", "＆"), (" ", "-"),
     ("茶" * 60, "茶" * 42)],
)  # fmt: skip
def test_a_name_is_one_that_every_server_signs_alike(text: str, wanted: str) -> None:
    assert wire.name(text) == wanted
    assert signature.embedded_fields(wire.name(text + "&trade_no=1")) == []


HOSTILE: Final = [
    b"", b"[]", b"null", b'"1"', b"{}", b'{"code":[1]}', b'{"code":1e999999999}', b"[" * 60000,
    b'{"code":"' + b"9" * 6000 + b'"}', b'{"code":' + b"9" * 6000 + b"}", b"\xff\xfe",
    b'{"code":NaN}',
]  # fmt: skip


@pytest.mark.parametrize("body", HOSTILE, ids=lambda body: body[:12])
def test_whatever_a_server_sends_is_an_answer_or_none(body: bytes) -> None:
    assert wire.read(body) is None
