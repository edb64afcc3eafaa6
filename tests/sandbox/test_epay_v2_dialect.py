"""Epay V2's dialect of the sandbox bank: its refusals, faults, notifications and command."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay_v2.configuration import make
from opentill.gateways.model import BadCallback
from opentill.sandbox.epay_v2 import PID
from opentill.sandbox.purge import PAYMENTS_KEPT_S, purge
from opentill.sandbox.storage import Store, Tx
from support.commands import ForkServer, without_settings
from support.epay_v2_bank import EpayV2BankShop
from support.ports import free_port


def post(shop: EpayV2BankShop, path: str, *, age_s: int = 0, **fields: Any) -> dict[str, Any]:
    """Send signed fields, and return the reply."""
    key = shop.gateway()._options.private_key
    stamped = {"pid": PID, "timestamp": str(int(time.time()) - age_s)} | fields
    signed = stamped | {"sign": rsa_signature.sign(stamped, key), "sign_type": "RSA"}
    reply: dict[str, Any] = shop.browser.post(
        f"{shop.bank_url}/epay_v2/api/{path}", data=signed
    ).json()
    public = rsa_signature.read_public_key(shop.file("platform_public_key.txt"))
    assert (reply["code"] == 0) is rsa_signature.verify(reply, public)  # refusals are unsigned
    return reply


def fields(shop: EpayV2BankShop, **changes: str) -> dict[str, str]:
    """Return the fields of a new order."""
    request = shop.request()
    return {
        "out_trade_no": request.attempt_id, "money": "9.99", "name": "Tea", "type": "alipay",
        "notify_url": request.callback_url, "return_url": request.return_url,
        "clientip": "203.0.113.7", "method": "jump", **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "changes", "code", "message"),
    [
        ("pay/create", {"name": ""}, -1, "name不能为空"),
        ("pay/create", {"money": "much"}, -1, "金额不合法"),
        ("pay/create", {"money": "0"}, -1, "金额不合法"),
        ("pay/create", {"type": "gold"}, -1, "没有可用的支付通道"),
        ("pay/create", {"out_trade_no": "a b"}, -1, "格式不正确"),
        ("pay/create", {"notify_url": "nowhere"}, -1, "callback_url"),
        ("pay/create", {"pid": "1002"}, -3, "RSA签名校验失败"),
        ("pay/create", {"pid": ""}, -4, "未传入任何参数"),
        ("pay/steal", {}, -5, "接口方法不存在"),
        ("pay/query", {}, -1, "订单号不存在"),
        ("pay/close", {}, -1, "当前订单不存在"),
        ("pay/refund", {}, -1, "当前订单不存在"),
        ("pay/refundquery", {"out_refund_no": "re_1"}, -1, "退款记录不存在"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    epay_v2_shop: EpayV2BankShop, path: str, changes: dict[str, str], code: int, message: str
) -> None:
    reply = post(epay_v2_shop, path, **fields(epay_v2_shop, **changes))
    assert (reply["code"], message in reply["msg"]) == (code, True), reply


def test_old_and_changed_requests_are_refused(epay_v2_shop: EpayV2BankShop) -> None:
    assert "时间戳" in post(epay_v2_shop, "merchant/info", age_s=301)["msg"]
    order = fields(epay_v2_shop)
    assert post(epay_v2_shop, "pay/create", **order)["code"] == 0
    number = post(epay_v2_shop, "pay/create", **order)["trade_no"]
    assert post(epay_v2_shop, "pay/query", trade_no=number)["status"] == 0
    assert "参数有变化" in post(epay_v2_shop, "pay/create", **(order | {"money": "9.98"}))["msg"]
    assert post(epay_v2_shop, "pay/close", trade_no=number)["code"] == 0
    assert post(epay_v2_shop, "pay/close", trade_no=number)["code"] == 0
    assert "参数有变化" in post(epay_v2_shop, "pay/create", **order)["msg"]


def test_a_refund_of_one_number_is_made_once(epay_v2_shop: EpayV2BankShop) -> None:
    order = fields(epay_v2_shop)
    page = post(epay_v2_shop, "pay/create", **order)["pay_info"]
    number = order["out_trade_no"]
    refund = {"out_trade_no": number, "money": "4.00", "out_refund_no": f"r{number}"}
    assert "不支持退款" in post(epay_v2_shop, "pay/refund", **refund)["msg"]
    epay_v2_shop.open(page)
    epay_v2_shop.decide(number)
    assert "已完成支付" in post(epay_v2_shop, "pay/create", **order)["msg"]
    assert "不支持关闭" in post(epay_v2_shop, "pay/close", out_trade_no=number)["msg"]
    assert post(epay_v2_shop, "pay/refund", **refund)["money"] == "4.00"
    again = post(epay_v2_shop, "pay/refund", **(refund | {"money": "5.00"}))
    assert (again["code"], again["money"]) == (0, "4.00")
    more = post(epay_v2_shop, "pay/refund", **(refund | {"money": "6.00", "out_refund_no": "no2"}))
    assert "剩余可退款金额" in more["msg"]
    shown = post(epay_v2_shop, "pay/query", out_trade_no=number)
    assert (shown["status"], shown["refundmoney"]) == (2, "4.00")
    queried = post(epay_v2_shop, "pay/refundquery", refund_no=again["refund_no"])
    assert (queried["status"], queried["out_refund_no"]) == ("1", refund["out_refund_no"])


@pytest.mark.parametrize("kind", ["wrong_signature", "expired_certificate"])
async def test_faults_of_signatures_are_noticed(epay_v2_shop: EpayV2BankShop, kind: str) -> None:
    gateway, request = epay_v2_shop.gateway(), epay_v2_shop.request()
    epay_v2_shop.inject_fault("pay", kind)
    assert (await gateway.pay(request)).status == "UNKNOWN"
    epay_v2_shop.inject_fault("callback", kind)
    outcome = await gateway.pay(request)
    await asyncio.to_thread(epay_v2_shop.open, outcome.action_url)
    await asyncio.to_thread(epay_v2_shop.decide, request.attempt_id)
    (notice,) = await asyncio.to_thread(epay_v2_shop.receiver.wait_for, request.attempt_id)
    with pytest.raises(BadCallback):
        await gateway.read_notice(notice)
    for operation in ("find", "refund", "find_refund", "close"):
        epay_v2_shop.inject_fault(operation, kind)
    assert (await gateway.find_payment(request.attempt_id, "1")).status == "UNKNOWN"
    assert (await gateway.find_payment(request.attempt_id, "1")).status == "SUCCEEDED"
    refund = epay_v2_shop.refund_request(request.attempt_id, 100)
    assert (await gateway.refund(refund)).status == "UNKNOWN"
    assert (await gateway.find_refund(refund.refund_id)).status == "UNKNOWN"
    assert (await gateway.find_refund(refund.refund_id)).status == "SUCCEEDED"
    await gateway.close()


@pytest.mark.parametrize("kind", ["wrong_amount", "other_account"])
async def test_faults_of_contents_are_noticed(epay_v2_shop: EpayV2BankShop, kind: str) -> None:
    gateway, request = epay_v2_shop.gateway(), epay_v2_shop.request()
    epay_v2_shop.inject_fault("callback", kind)
    outcome = await gateway.pay(request)
    await asyncio.to_thread(epay_v2_shop.open, outcome.action_url)
    epay_v2_shop.receiver.content = b"fail"
    await asyncio.to_thread(epay_v2_shop.decide, request.attempt_id)
    number = request.attempt_id if kind == "wrong_amount" else "att_of_another_account"
    notices = await asyncio.to_thread(epay_v2_shop.receiver.wait_for, number, 2)
    assert len({notice["sign"] for notice in notices}) in (1, 2)
    with pytest.raises(BadCallback):
        await gateway.read_notice(notices[0])
    epay_v2_shop.receiver.content = b"SUCCESS"
    epay_v2_shop.inject_fault("find", kind)
    queried = await gateway.find_payment(request.attempt_id, "1")
    if kind == "wrong_amount":
        assert queried.amount is not None
        assert queried.amount.text == "10.00"
    else:
        assert queried.status == "UNKNOWN"
    epay_v2_shop.inject_fault("refund", "unconfirmed")
    refund = epay_v2_shop.refund_request(request.attempt_id, 100)
    assert (await gateway.refund(refund)).status == "PENDING"
    assert (await gateway.find_refund(refund.refund_id)).status == "NOT_FOUND"
    await gateway.close()


async def test_old_orders_are_deleted_with_their_payments(tmp_path: Path) -> None:
    store = Store(tmp_path / "bank.sqlite3", lambda _: None)
    await store.open()
    texts = (
        "description",
        "merchant_name",
        "customer_email",
        "return_url",
        "callback_url",
        "locale",
    )
    payment = dict.fromkeys(texts, "") | {
        "id": "att_1", "currency": "CNY", "method": "ALIPAY", "status": "voided", "challenged": 0,
        "refunds_fail": 0, "refunded_minor": 0, "amount_minor": 1, "created_at": 0,
        "updated_at": 0, "dialect": "epay_v2",
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        tx.insert("payments", payment)
        row = {"payment_id": "att_1", "trade_no": "1", "type": "alipay", "name": "Tea"}
        tx.insert("epay_v2_orders", row | {"notify_url": "", "return_url": "", "param": ""})

    await store.do(fill)
    assert await store.do(lambda tx: purge(tx, PAYMENTS_KEPT_S * 1000 + 1)) == 2
    await store.close()


async def test_the_command_prints_the_settings_of_a_gateway(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    environ = without_settings(os.environ) | {
        "OPENTILL_DATA_DIR": str(tmp_path / "data"),
        "OPENTILL_SANDBOX_PORT": str(free_port()),
    }
    with (tmp_path / "log").open("wb") as log:
        process = fork_server.start(["sandbox", "--epay-v2"], environ, tmp_path, log.fileno())
    assert process.stdout is not None
    prefix = "OPENTILL_GATEWAY_"
    try:
        lines = [process.stdout.readline().strip() for _ in range(6)]
        settings = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
        options = {}
        for name, _, value in (line.partition("=") for line in settings):
            is_file = name.endswith("_FILE")
            options[name.removesuffix("_FILE").lower()] = (
                Path(value).read_text() if is_file else value
            )
        gateway = make(options)
        assert await gateway.check() is None
        await gateway.close()
        assert (tmp_path / "data" / "epay_v2").stat().st_mode & 0o77 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
