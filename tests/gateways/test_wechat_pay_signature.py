"""Signatures, certificates and encryption agree with wechatpayv3, another implementation."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from opentill.core.errors import ConfigurationError
from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.gateways import masked_settings
from opentill.gateways.wechat_pay import WeChatPayGateway, configuration, keys
from opentill.gateways.wechat_pay.keys import BadCertificate
from opentill.sandbox.wechat_pay import keys as platform
from support.wechat_pay_shop import WeChatPayShop

# The other implementation has no types.
other: Any = import_module("wechatpayv3")
other_core: Any = import_module("wechatpayv3.core")
other_utils: Any = import_module("wechatpayv3.utils")
NOW_MS: Final = time.time_ns() // 1_000_000


@pytest.fixture
async def gateway(wechat_pay_shop: WeChatPayShop) -> AsyncIterator[WeChatPayGateway]:
    """Our gateway."""
    gateway = wechat_pay_shop.gateway()
    yield gateway
    await gateway.close()


@pytest.fixture(params=["certificates", "public key"])
def client(
    request: pytest.FixtureRequest,
    wechat_pay_shop: WeChatPayShop,
    monkeypatch: pytest.MonkeyPatch,
) -> Any:
    """A client of the other implementation, which calls the sandbox bank."""
    by_public_key = request.param == "public key"
    requested = other_core.Core.request

    def request_here(self: Any, *args: Any, **options: Any) -> Any:
        self._gate_way, self._proxy = wechat_pay_shop.bank_url, {"http": ""}
        return requested(self, *args, **options)

    monkeypatch.setattr(other_core.Core, "request", request_here)
    private_key = "".join(wechat_pay_shop.file("apiclient_key.pem").strip().splitlines()[1:-1])
    return other.WeChatPay(
        wechatpay_type=other.WeChatPayType.NATIVE,
        mchid=platform.MCHID,
        private_key=private_key,
        cert_serial_no=platform.Merchant(wechat_pay_shop.folder).serial,
        apiv3_key=wechat_pay_shop.file("api_v3_key.txt"),
        appid=platform.APPID,
        notify_url=f"{wechat_pay_shop.receiver.url}/notify",
        timeout=60,
        public_key=wechat_pay_shop.file("pub_key.pem") if by_public_key else None,
        public_key_id=platform.PUBLIC_KEY_ID if by_public_key else None,
    )


async def test_the_other_client_pays_and_refunds_at_the_sandbox_bank(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway, client: Any
) -> None:
    attempt_id, refund_id = new_id("att"), new_id("re")

    def pay() -> tuple[Any, Any, Any, Any]:
        code, placed = client.pay(description="tea", out_trade_no=attempt_id, amount={"total": 999})
        assert code == 200, placed
        wechat_pay_shop.open(json.loads(placed)["code_url"])
        wechat_pay_shop.decide(attempt_id)
        ((headers, body),) = wechat_pay_shop.wait_for_notices(attempt_id)
        notified = client.callback(headers, body)
        _, queried_order = client.query(out_trade_no=attempt_id)
        amount = {"refund": 400, "total": 999, "currency": "CNY"}
        code, refunded = client.refund(
            out_refund_no=refund_id, out_trade_no=attempt_id, amount=amount
        )
        assert code == 200, refunded
        _, refund = client.query_refund(refund_id)
        return notified, json.loads(queried_order), json.loads(refund), (headers, body)

    notified, queried_order, refund, (headers, body) = await asyncio.to_thread(pay)
    assert notified["resource"]["out_trade_no"] == attempt_id
    assert (queried_order["trade_state"], refund["status"]) == ("SUCCESS", "SUCCESS")
    # Our gateway reads the same notification and the same state.
    await gateway.fetch_keys(headers)
    by_public_key = headers["wechatpay-serial"] == platform.PUBLIC_KEY_ID
    if not by_public_key:
        (event,) = gateway.read_callback(headers, body, time.time_ns() // 1_000_000)
        assert event.attempt_id == attempt_id
    assert (await gateway.find_refund(refund_id)).status == "SUCCEEDED"
    assert (await gateway.find_payment(attempt_id)).status == "SUCCEEDED"


async def test_the_other_client_reads_an_order_of_our_gateway(
    wechat_pay_shop: WeChatPayShop, gateway: WeChatPayGateway, client: Any
) -> None:
    attempt_id = await wechat_pay_shop.pay(gateway)
    code, queried_order = await asyncio.to_thread(client.query, out_trade_no=attempt_id)
    assert (code, json.loads(queried_order)["trade_state"]) == (200, "SUCCESS")


def test_signatures_agree_in_both_directions() -> None:
    private = platform.new_key()
    body = '{"amount": "九"}'
    message = f"1700000000\nn\n{body}\n"
    assert keys.is_signed(
        private.public_key(), message.encode(), other_utils.rsa_sign(private, message)
    )
    signature = keys.sign(private, message.encode())
    assert other_utils.rsa_verify("1700000000", "n", body, signature, private.public_key())
    assert signature == other_utils.rsa_sign(private, message)
    assert not keys.is_signed(platform.new_key().public_key(), message.encode(), signature)


def test_encryption_agrees_in_both_directions(wechat_pay_shop: WeChatPayShop) -> None:
    key = wechat_pay_shop.file("api_v3_key.txt")
    resource = platform.Merchant(wechat_pay_shop.folder).encrypt("茶".encode(), "transaction")
    parts = {name: resource[name] for name in ("nonce", "ciphertext", "associated_data")}
    assert keys.decrypt(key.encode(), **parts) == "茶".encode()
    assert other_utils.aes_decrypt(**parts, apiv3_key=key) == "茶"
    tampered = parts | {"ciphertext": "AAAA" + parts["ciphertext"][4:]}
    assert other_utils.aes_decrypt(**tampered, apiv3_key=key) is None
    with pytest.raises(ValueError, match="APIv3 key"):
        keys.decrypt(key.encode(), **tampered)


# ── the formats of keys ──

KEY: Final = platform.new_key()
PEM: Final = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
OLD_PEM: Final = KEY.private_bytes(
    Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
).decode()


def _bare(pem: str) -> str:
    return "".join(pem.strip().splitlines()[1:-1])


@pytest.mark.parametrize(
    "text",
    [PEM, OLD_PEM, _bare(PEM), _bare(OLD_PEM), PEM.replace("\n", "\\n"), PEM.replace("\n", " ")],
    ids=["PKCS #8", "PKCS #1", "Base64", "Base64 of PKCS #1", "escaped lines", "one line"],
)
def test_private_keys_are_read_in_every_usual_format(text: str) -> None:
    assert keys.read_private_key(text).private_numbers() == KEY.private_numbers()


def _certificate(key: rsa.RSAPrivateKey, days: int = 1, start_days: int = -1) -> str:
    now = datetime.now(UTC)
    start, end = now + timedelta(days=start_days), now + timedelta(days=days)
    return platform.certificate_of(key, "merchant", start, end).decode()


def test_public_keys_and_certificates_are_read_with_and_without_pem() -> None:
    public = platform.public_pem(KEY.public_key()).decode()
    certificate = _certificate(KEY)
    for text in (public, _bare(public)):
        assert keys.read_public_key(text).public_numbers() == KEY.public_key().public_numbers()
    for text in (certificate, _bare(certificate)):
        assert keys.public_key_of(keys.read_certificate(text)).key_size == 2048


def _elliptic() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _small() -> str:
    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it is to be refused
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize("text", ["", "?", "AAAA", _elliptic(), _small(), _certificate(KEY)])
def test_other_private_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it is (no private RSA key of at least 2048|neither)"):
        keys.read_private_key(text)


def test_a_certificate_that_is_not_valid_now_is_named_with_its_end() -> None:
    expired = keys.read_certificate(_certificate(KEY, days=-1, start_days=-9))
    early = keys.read_certificate(_certificate(KEY, days=9, start_days=1))
    serial = keys.serial_of(expired)
    with pytest.raises(BadCertificate, match=rf"^the merchant {serial} was valid until 20\d\d-"):
        keys.check_time(expired, "the merchant", NOW_MS)
    with pytest.raises(BadCertificate, match=r"is valid only from 20\d\d-"):
        keys.check_time(early, "the merchant", NOW_MS)


# ── settings ──

PUBLIC_PEM: Final = platform.public_pem(platform.new_key().public_key()).decode()
OPTIONS: Final = {
    "mchid": "1900000001",
    "appid": "wxd678efh567hg6787",
    "private_key": PEM,
    "serial": "0b77373c3a93aa83",
    "api_v3_key": "k" * 32,
}
OTHER: Final = _certificate(platform.new_key())


def _read(**changes: str) -> Any:
    return configuration.read(
        {f"wechat_pay_{name}": text for name, text in (OPTIONS | changes).items()}
    )


def test_the_settings_have_defaults() -> None:
    options = _read()
    assert (options.url, options.products) == ("https://api.mch.weixin.qq.com", ("native",))
    assert (options.serial, options.public_key_id) == ("0B77373C3A93AA83", "")
    assert "k" * 32 not in repr(options)


def test_a_certificate_replaces_its_number() -> None:
    certificate = _certificate(KEY)
    serial = keys.serial_of(keys.read_certificate(certificate))
    assert _read(certificate=certificate, serial="").serial == serial
    assert _read(certificate=_bare(certificate), serial=serial.lower()).serial == serial


WRONG_SETTINGS: Final = (
    ({"mchid": "x"}, "MCHID must be the number"),
    ({"appid": ""}, "APPID must be the appid"),
    ({"private_key": ""}, "PRIVATE_KEY must be the content of apiclient_key.pem"),
    ({"private_key": "AAAA"}, "PRIVATE_KEY must be the content of apiclient_key.pem, in PEM or"),
    ({"serial": ""}, "SERIAL must be the serial number of the merchant certificate, or set"),
    ({"certificate": PEM}, "CERTIFICATE must be the content of apiclient_cert.pem"),
    ({"certificate": OTHER, "serial": ""}, "CERTIFICATE must be that of the private key"),
    ({"certificate": _certificate(KEY)}, "SERIAL must be [0-9A-F]+, or left out"),
    ({"api_v3_key": "short"}, "API_V3_KEY must be the APIv3 key of the account: 32 characters"),
    ({"public_key": PUBLIC_PEM}, "PUBLIC_KEY_ID must be set, since its other part is"),
    ({"public_key_id": "PUB_KEY_ID_1"}, "PUBLIC_KEY must be set, since its other part is"),
    ({"public_key": PUBLIC_PEM, "public_key_id": "1"}, "PUBLIC_KEY_ID must be the id that begins"),
    ({"public_key": "?", "public_key_id": "1"}, "PUBLIC_KEY must be the content of pub_key.pem"),
    ({"products": "jsapi"}, "PRODUCTS must be different ones of native, h5"),
    ({"products": "h5,h5"}, "PRODUCTS must be different ones of native, h5"),
    ({"url": "ftp://x"}, "URL must be"),
)


@pytest.mark.parametrize(("changes", "expected"), WRONG_SETTINGS)
def test_wrong_settings_are_named(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^OPENTILL_GATEWAY_WECHAT_PAY_{expected}"):
        _read(**changes)


async def test_nothing_is_sent_with_an_expired_merchant_certificate(
    wechat_pay_shop: WeChatPayShop,
) -> None:
    options = {"private_key": PEM, "certificate": _certificate(KEY, days=-1, start_days=-9)}
    gateway = wechat_pay_shop.gateway(by_public_key=False, timeout_s=4.0, **options)
    outcome = await gateway.pay(wechat_pay_shop.request())
    assert outcome.status == "UNREACHABLE"
    assert "the merchant certificate" in outcome.reason
    assert " was valid until 20" in str(await gateway.check())
    await gateway.close()


def test_every_setting_of_the_recipe_is_listed_with_its_text() -> None:
    recipe = Path(__file__).parents[2] / "docs" / "recipes" / "take-wechat-pay.md"
    named = re.findall("OPENTILL_GATEWAY_[A-Z_0-9]*[A-Z]", recipe.read_text(encoding="utf-8"))
    named = {name.removesuffix("_FILE") for name in named}
    options = Settings(gateways=("wechat_pay",))
    listed = {
        variable
        for variable, _, _ in masked_settings.masked_rows(options)
        if "WECHAT_PAY" in variable
    }
    assert named == listed
