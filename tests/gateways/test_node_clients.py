"""Signatures and addresses agree with other people's clients for Node.js."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from opentill.core.ids import new_id
from opentill.gateways.alipay import AlipayGateway
from opentill.gateways.evm.addresses import with_checksum
from opentill.gateways.evm.extended_keys import ExtendedKey
from opentill.gateways.evm.keccak import keccak256
from opentill.gateways.wechat_pay import WeChatPayGateway
from opentill.sandbox.alipay import APP_ID
from opentill.sandbox.wechat_pay import APPID, MCHID, keys
from support.alipay_shop import AlipayShop, public_part
from support.ganache import XPUB
from support.javascript import npm_ci, require_programs
from support.once import once
from support.past_bills import move_to_past, yesterday
from support.wechat_pay_shop import WeChatPayShop

_NODE: Final = Path(__file__).parent / "node"
Call = Callable[[str, dict[str, Any]], Any]


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json", "clients.js"):
        shutil.copy(_NODE / name, folder)
    npm_ci(folder)


@pytest.fixture(scope="session")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """A function that lets the other clients work on an object."""
    require_programs("node", "npm")
    folder = once(tmp_path_factory, "gateway_clients", _install)

    def call_client(name: str, request: dict[str, Any]) -> Any:
        process = subprocess.run(
            ["node", "clients.js", name],
            cwd=folder,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return call_client


async def test_alipays_own_client_accepts_our_signatures_and_the_banks(
    alipay_shop: AlipayShop, call: Call
) -> None:
    gateway: AlipayGateway = alipay_shop.gateway()
    private_key = alipay_shop.file("app_private_key.pem")
    attempt_id = await alipay_shop.pay(gateway)
    (notice,) = await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id)
    move_to_past(alipay_shop.folder.parent, attempt_id)
    request = gateway._params("alipay.trade.query", {"out_trade_no": "茶 & 1+1=2"})
    result = await asyncio.to_thread(
        call,
        "alipay",
        {
            "options": {
                "appId": APP_ID,
                "privateKey": private_key,
                "keyType": "PKCS8",
                "alipayPublicKey": alipay_shop.file("alipay_public_key.pem"),
                "gateway": alipay_shop.url,
            },
            "order": {"out_trade_no": new_id("att"), "total_amount": "9.99", "subject": "茶 & Tea"},
            "notifyUrl": alipay_shop.callback_url,
            "bill": {"bill_type": "trade", "bill_date": yesterday()},
            "notices": [notice, notice | {"total_amount": "0.01"}],
            "requests": [request, request | {"app_id": "2021000000000009"}],
            "shopKey": public_part(private_key),
        },
    )
    assert (result["ordered"]["code"], result["bill"]["code"]) == ("10000", "10000")
    assert result["notices"] == [True, False]
    assert result["requests"] == [True, False]
    # The same parameters have the same signature, because RSA2 is deterministic.
    params = dict(parse_qsl(urlsplit(result["page"]).query))
    assert gateway._options.credentials.sign(params) == params["sign"]
    await gateway.close()


async def test_the_other_client_of_wechat_pay_agrees_on_signatures_and_secrets(
    wechat_pay_shop: WeChatPayShop, call: Call
) -> None:
    gateway: WeChatPayGateway = wechat_pay_shop.gateway()
    attempt_id = await wechat_pay_shop.pay(gateway)
    (headers, body) = wechat_pay_shop.notices(attempt_id)[0]
    merchant = keys.Merchant(wechat_pay_shop.folder)
    certificate = merchant.current.certificate
    assert certificate is not None
    pem = certificate.public_bytes(Encoding.PEM).decode()
    serial = headers["wechatpay-serial"]
    signed = {
        "timestamp": headers["wechatpay-timestamp"],
        "nonce": headers["wechatpay-nonce"],
        "body": body.decode(),
        "serial": serial,
        "signature": headers["wechatpay-signature"],
    }
    now = str(int(time.time()))
    requests = [
        {"method": "GET", "path": "/v3/bill/tradebill?bill_date=2026-11-27", "body": ""},
        {"method": "POST", "path": "/v3/pay/transactions/native", "body": '{"description":"茶"}'},
    ]
    requests = [{**each, "nonce": "n" * 32, "timestamp": now} for each in requests]
    result = await asyncio.to_thread(
        call,
        "wechatPay",
        {
            "options": {
                "appid": APPID,
                "mchid": MCHID,
                "publicKey": wechat_pay_shop.file("apiclient_cert.pem"),
                "privateKey": wechat_pay_shop.file("apiclient_key.pem"),
                "key": wechat_pay_shop.file("api_v3_key.txt"),
            },
            "certificates": {serial: pem},
            "requests": requests,
            "notices": [signed, signed | {"body": f"{signed['body']} "}],
            "resource": json.loads(body)["resource"],
        },
    )
    assert result["serial"].upper().zfill(40) == merchant.serial
    for request, signature in zip(requests, result["requests"], strict=True):
        lines = (request["method"], request["path"], now, request["nonce"], request["body"], "")
        assert merchant.is_signed("\n".join(lines).encode(), signature)
    assert result["notices"] == [True, False]
    assert result["resource"]["out_trade_no"] == attempt_id
    header = gateway._transport._authorization("GET", requests[0]["path"], b"")
    values = dict(part.split("=", 1) for part in header.partition(" ")[2].split(","))
    ours = {**requests[0], "nonce": values["nonce_str"].strip('"')}
    ours["timestamp"] = values["timestamp"].strip('"')
    lines = (ours["method"], ours["path"], ours["timestamp"], ours["nonce"], "", "")
    assert merchant.is_signed("\n".join(lines).encode(), values["signature"].strip('"'))
    await gateway.close()


def test_another_library_derives_the_same_addresses_and_digests(call: Call) -> None:
    numbers = [*range(20), 1_000_000, 2**31 - 1]
    texts = ["", "Transfer(address,address,uint256)", "茶" * 100]
    result = call("chains", {"key": XPUB, "numbers": numbers, "texts": texts})
    key = ExtendedKey.read(XPUB)
    assert result["addresses"] == [with_checksum(key.child(number).address) for number in numbers]
    assert [ExtendedKey.read(text) for text in result["keys"]] == list(map(key.child, numbers))
    assert result["digests"] == [f"0x{keccak256(text.encode()).hex()}" for text in texts]
