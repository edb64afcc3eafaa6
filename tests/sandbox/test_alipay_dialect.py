"""Alipay's dialect of the sandbox bank: its errors, its storage and its command."""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
import msgspec

from opentill.gateways.alipay import AlipayGateway, configuration
from opentill.gateways.alipay.keys import utc_now
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox.purge import PAYMENTS_KEPT_S, purge
from opentill.sandbox.storage import Store, Tx
from support.alipay_shop import AlipayShop
from support.commands import ForkServer, without_settings
from support.ports import free_port

# Changes of a signed request, then code and sub_code of the response.
ERRORS: Final[list[tuple[dict[str, str], str, str]]] = [
    ({"sign": ""}, "40001", "isv.missing-sign"),
    ({"timestamp": ""}, "40001", "isv.missing-timestamp"),
    ({"app_id": "2021000000000009"}, "40002", "isv.invalid-app-id"),
    ({"sign_type": "RSA"}, "40002", "isv.invalid-signature-type"),
    ({"timestamp": "yesterday"}, "40002", "isv.invalid-timestamp"),
    ({"app_cert_sn": "0" * 32}, "40002", "isv.app-cert-sn-is-not-match"),
    ({"biz_content": "{}"}, "40002", "isv.invalid-signature"),
    ({"sign": "AAAA"}, "40002", "isv.invalid-signature"),
]
# Signed requests that the business refuses, and their sub_code.
REFUSED: Final[list[tuple[str, Any, str]]] = [
    ("alipay.trade.pay", {}, "isv.invalid-method"),
    ("alipay.trade.query", [], "isv.invalid-parameter"),
    ("alipay.trade.query", {"out_trade_no": 7}, "ACQ.TRADE_NOT_EXIST"),
    ("alipay.trade.precreate", {"out_trade_no": "a b"}, "ACQ.INVALID_PARAMETER"),
    (
        "alipay.trade.precreate",
        {"out_trade_no": "a", "total_amount": "1.00", "subject": "x", "time_expire": "soon"},
        "ACQ.INVALID_PARAMETER",
    ),
]


async def signed_params(shop: AlipayShop) -> dict[str, str]:
    """Return the parameters of a signed request for a page."""
    gateway = shop.gateway()
    url = (await gateway.pay(shop.request())).action_url
    await gateway.close()
    return dict(parse_qsl(urlsplit(url).query))


async def test_requests_that_are_not_signed_are_errors(alipay_shop: AlipayShop) -> None:
    params = await signed_params(alipay_shop)
    for changes, code, sub_code in ERRORS:
        response = alipay_shop.browser.post(alipay_shop.url, data=params | changes)
        assert response.status_code == 200
        content = response.json()
        node = content["alipay_trade_page_pay_response"]
        assert (node["code"], node["sub_code"]) == (code, sub_code)
        assert ("sign" in content) is (sub_code != "isv.invalid-app-id")
    page = alipay_shop.browser.get(alipay_shop.url, params=params | {"sign": "AAAA"})
    assert page.status_code == 400


async def test_requests_that_make_no_sense_are_refused(alipay_shop: AlipayShop) -> None:
    credentials = configuration.read(alipay_shop.options(), utc_now()).credentials
    params = await signed_params(alipay_shop)
    for method, content, sub_code in REFUSED:
        request = params | {"method": method, "biz_content": msgspec.json.encode(content).decode()}
        request["sign"] = credentials.sign(request)
        response = alipay_shop.browser.post(alipay_shop.url, data=request)
        node = response.json()[method.replace(".", "_") + "_response"]
        assert node["sub_code"] == sub_code, (method, content)


def test_a_code_that_nobody_made_is_not_found(alipay_shop: AlipayShop) -> None:
    response = alipay_shop.browser.get(f"{alipay_shop.bank_url}/alipay/qr/20261127")
    assert response.status_code == 404


def test_a_bank_without_keys_does_not_speak_it(bank_url: str) -> None:
    with httpx2.Client(trust_env=False) as browser:
        assert browser.post(f"{bank_url}/alipay/gateway.do").status_code == 404


async def test_a_file_of_an_earlier_version_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite3"
    store = Store(path, lambda _: None)
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as file:
        for table in ("payments", "callbacks"):
            file.execute(f"alter table {table} drop column dialect")
        file.execute("drop table alipay_trades")
        file.commit()
    await store.open()
    await store.close()
    with closing(sqlite3.connect(path)) as file:
        for table in ("payments", "callbacks"):
            file.execute(f"select dialect from {table}")
        file.execute("select trade_no from alipay_trades")


async def test_old_trades_are_deleted_with_their_payments(tmp_path: Path) -> None:
    store = Store(tmp_path / "bank.sqlite3", lambda _: None)
    await store.open()
    payment = {
        "id": "att_1", "currency": "CNY", "method": "ALIPAY", "description": "", "status": "voided",
        "merchant_name": "", "customer_email": "", "return_url": "", "callback_url": "",
        "locale": "", "challenged": 0, "refunds_fail": 0, "refunded_minor": 0, "amount_minor": 1,
        "created_at": 0, "updated_at": 0, "dialect": "alipay",
    }  # fmt: skip

    def fill(tx: Tx) -> None:
        tx.insert("payments", payment)
        trade = {"payment_id": "att_1", "trade_no": "1", "product": "page"}
        tx.insert("alipay_trades", trade | {"opened": 1, "expires_at": 0})

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
        process = fork_server.start(["sandbox", "--alipay"], environ, tmp_path, log.fileno())
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(11)]
        settings = dict(one.split("=", 1) for one in lines if one.startswith("OPENTILL_GATEWAY_"))
        options = {
            name.removeprefix("OPENTILL_GATEWAY_").removesuffix("_FILE").lower(): (
                Path(value).read_text() if name.endswith("_FILE") else value
            )
            for name, value in settings.items()
        }
        certificates = {"alipay_app_cert", "alipay_cert", "alipay_root_cert"}
        for left_out in (certificates, {"alipay_public_key"}):
            chosen = {name: value for name, value in options.items() if name not in left_out}
            configured = configuration.read(chosen, utc_now())
            gateway = AlipayGateway(configured, Outgoing(Policy.only(configured.url)))
            assert await gateway.check() is None
            await gateway.close()
        assert (tmp_path / "data" / "alipay").stat().st_mode & 0o77 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
