"""Epusdt's dialect of the sandbox bank: its errors, amounts, expiry and command."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opentill.gateways.epusdt.configuration import make
from opentill.sandbox.epusdt import keys
from opentill.sandbox.epusdt.orders import CURRENCY
from opentill.sandbox.purge import PAYMENTS_KEPT_S, purge
from opentill.sandbox.storage import Store, Tx
from support.commands import ForkServer, without_settings
from support.epusdt_shop import EpusdtShop
from support.ports import free_port

CREATE = "/api/v1/order/create-transaction"


def post(shop: EpusdtShop, path: str, **params: Any) -> tuple[int, Any]:
    content = msgspec.json.encode({**params, "signature": keys.sign(params, shop.token)})
    response = shop.browser.post(f"{shop.bank_url}{path}", content=content)
    return response.status_code, response.json()


def order(shop: EpusdtShop, **changes: Any) -> dict[str, Any]:
    request = shop.request()
    return {
        "order_id": request.attempt_id,
        "amount": 72,
        "notify_url": request.callback_url,
        "redirect_url": request.return_url,
        **changes,
    }


@pytest.mark.parametrize(
    ("path", "changes", "code", "message"),
    [
        ("/epusdt", {"amount": 0.01}, 400, "0.01"),
        ("/epusdt", {"amount": "72"}, 400, "float"),
        ("/epusdt", {"amount": True}, 400, "float"),
        ("/epusdt", {"order_id": ""}, 400, "订单号"),
        ("/epusdt", {"order_id": "a" * 33}, 400, "订单号"),
        ("/epusdt", {"notify_url": ""}, 400, "异步回调网址"),
        ("/epusdt", {"notify_url": "nowhere"}, 400, "callback_url"),
        ("/epusdt", {"amount": 0.05}, 10004, "最小"),
        ("/bepusdt", {"amount": "much"}, 400, "float"),
        ("/bepusdt", {"amount": 1e300}, 400, "金额"),
        ("/bepusdt", {"trade_type": "usdt.moon"}, 400, "交易类型(usdt.moon)不支持"),
        ("/bepusdt", {"rate": "0"}, 400, "汇率"),
    ],
)
def test_orders_that_make_no_sense_are_refused(
    epusdt_shop: EpusdtShop, path: str, changes: dict[str, Any], code: int, message: str
) -> None:
    status, reply = post(epusdt_shop, path + CREATE, **order(epusdt_shop, **changes))
    assert (status, reply["status_code"]) == (200, code)
    assert message in reply["message"]


def test_requests_that_are_not_signed_are_refused(epusdt_shop: EpusdtShop) -> None:
    for content in (b"", b"[]", b"\xff", b'{"order_id":"a"}', b'{"signature":[]}', b"[" * 9999):
        url = f"{epusdt_shop.bank_url}/epusdt{CREATE}"
        assert epusdt_shop.browser.post(url, content=content).json()["status_code"] == 401
        for path in (CREATE, "/api/v1/order/cancel-transaction"):
            response = epusdt_shop.browser.post(
                f"{epusdt_shop.bank_url}/bepusdt{path}", content=content
            )
            assert (response.status_code, response.json()) == (400, {"error": "签名错误"})
    for path in ("/epusdt", "/bepusdt"):
        status = epusdt_shop.browser.get(f"{epusdt_shop.bank_url}{path}/pay/check-status/T1").json()
        assert "订单不存在" in status["message"]
        page = epusdt_shop.browser.get(f"{epusdt_shop.bank_url}{path}/pay/checkout-counter/T1")
        assert page.status_code == 404


def test_two_open_orders_never_have_the_same_amount_in_tokens(epusdt_shop: EpusdtShop) -> None:
    orders = [post(epusdt_shop, f"/epusdt{CREATE}", **order(epusdt_shop))[1] for _ in range(2)]
    first, second = (one["data"]["actual_amount"] for one in orders)
    assert first >= 10  # 72 yuan at 7.2 for a token
    assert second > first
    _, fork = post(epusdt_shop, f"/bepusdt{CREATE}", **order(epusdt_shop, amount=3, rate="1"))
    assert fork["data"]["actual_amount"] == "3.00"
    _, again = post(epusdt_shop, f"/epusdt{CREATE}", **order(epusdt_shop, order_id="a1"))
    _, twice = post(epusdt_shop, f"/epusdt{CREATE}", **order(epusdt_shop, order_id="a1"))
    assert (again["status_code"], twice["status_code"]) == (200, 10002)


async def test_an_order_that_is_not_paid_in_time_has_expired(
    epusdt_shop: EpusdtShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.sandbox.epusdt.orders._LIFETIME_MS", 50)
    monkeypatch.setattr("opentill.sandbox.epusdt.orders._LEAST_LIFETIME_MS", 50)
    for fork in (False, True):
        gateway = epusdt_shop.gateway(fork=fork)
        request = epusdt_shop.request()
        outcome = await gateway.pay(request)
        end = time.monotonic() + 30
        while outcome.status != "DECLINED" and time.monotonic() < end:
            outcome = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
        assert outcome.reason == "expired"
        if fork:  # the fork reports it
            ((headers, body),) = epusdt_shop.receiver.wait_for(request.attempt_id)
            (event,) = gateway.read_callback(headers, body, 0)
            assert event.outcome.reason == "expired"  # type: ignore[union-attr]
        await gateway.close()


async def test_a_callback_is_repeated_until_it_is_acknowledged(epusdt_shop: EpusdtShop) -> None:
    epusdt_shop.receiver.content = b'{"code":0}'
    gateway, request = epusdt_shop.gateway(), epusdt_shop.request()
    await gateway.pay(request)
    await gateway.close()
    epusdt_shop.decide(request.attempt_id)
    epusdt_shop.receiver.wait_for(request.attempt_id, 2)


async def test_old_orders_are_deleted_with_their_payments(tmp_path: Path) -> None:
    store = Store(tmp_path / "bank.sqlite3", lambda _: None)
    await store.open()
    payment = {
        "id": "att_1", "currency": CURRENCY, "method": "CRYPTO", "description": "",
        "status": "voided", "merchant_name": "", "customer_email": "", "return_url": "",
        "callback_url": "", "locale": "", "challenged": 0, "refunds_fail": 0, "refunded_minor": 0,
        "amount_minor": 1, "created_at": 0, "updated_at": 0, "dialect": "epusdt",
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        tx.insert("payments", payment)
        row = {"payment_id": "att_1", "trade_id": "1", "is_fork": 0, "trade_type": "usdt.trc20"}
        more = {"actual": "1", "address": "T", "expires_at": 0, "canceled": 0}
        tx.insert("epusdt_orders", row | more)

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
        process = fork_server.start(["sandbox", "--epusdt"], environ, tmp_path, log.fileno())
    assert process.stdout is not None
    prefix = "OPENTILL_GATEWAY_"
    try:
        lines = [process.stdout.readline().strip() for _ in range(7)]
        settings = [one.removeprefix(prefix) for one in lines if one.startswith(prefix)]
        pairs = [
            (name.lower(), value) for name, _, value in (one.partition("=") for one in settings)
        ]
        options = dict(pairs[:2])
        options["epusdt_token"] = Path(options.pop("epusdt_token_file")).read_text()
        for changes in ({}, dict(pairs[2:])):
            gateway = make(options | changes)
            assert await gateway.check() is None
            await gateway.close()
        assert (tmp_path / "data" / "epusdt").stat().st_mode & 0o77 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
