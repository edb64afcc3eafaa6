"""Certificates and the account of WeChat Pay: rotation, checks and secrecy."""

import asyncio
from typing import Any, Final

import pytest

from opentill.gateways.wechat_pay import WeChatPayGateway
from opentill.sandbox.wechat_pay import keys
from support.wallet_shop import id_of_age
from support.wechat_pay_shop import WeChatPayShop


async def test_a_new_platform_certificate_is_downloaded(wechat_pay_shop: WeChatPayShop) -> None:
    gateway = wechat_pay_shop.gateway()
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    serial = await asyncio.to_thread(wechat_pay_shop.rotate)
    # A forged serial number cannot cause a download each time.
    outcome = await gateway.find_payment(id_of_age(0))
    assert (outcome.status, serial.lstrip("0") in outcome.reason) == ("UNKNOWN", True)
    gateway._transport.keys._pause_s = 0
    assert (await gateway.find_payment(id_of_age(0))).status == "NOT_FOUND"
    await gateway.close()


async def test_a_working_account_has_no_problem(wechat_pay_gateway: WeChatPayGateway) -> None:
    assert await wechat_pay_gateway.check() is None


WRONG_ACCOUNTS: Final = (
    ({"mchid": "1900000002"}, "refuses our signature: correct OPENTILL_GATEWAY_WECHAT_PAY_MCHID"),
    ({"certificate": "", "serial": "7B77"}, "refuses our signature"),
    ({"api_v3_key": "x" * 32}, "cannot be decrypted with the APIv3 key"),
)


@pytest.mark.parametrize(("changes", "expected"), WRONG_ACCOUNTS)
async def test_a_check_names_the_setting_that_is_wrong(
    wechat_pay_shop: WeChatPayShop, changes: dict[str, Any], expected: str
) -> None:
    gateway = wechat_pay_shop.gateway(**changes)
    assert expected in str(await gateway.check())
    outcome = await gateway.pay(wechat_pay_shop.request())
    # Nothing was processed, so that another gateway may be tried.
    assert outcome.status == ("UNKNOWN" if "api_v3_key" in changes else "UNREACHABLE")
    await gateway.close()


async def test_a_check_notices_a_wrong_public_key(wechat_pay_shop: WeChatPayShop) -> None:
    key = keys.SigningKey(keys.new_key(), None).key.public_key()
    gateway = wechat_pay_shop.gateway(by_public_key=True, public_key=keys.public_pem(key).decode())
    assert "does not fit. If this stays, correct" in str(await gateway.check())
    await gateway.close()


async def test_secrets_are_not_shown_and_not_logged(
    wechat_pay_shop: WeChatPayShop, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = wechat_pay_shop.gateway(api_v3_key="s" * 32)
    outcome = await gateway.find_payment(id_of_age(0))
    assert "APIv3 key" in caplog.text
    shown = f"{gateway._options!r} {outcome!r} {caplog.text}"
    private = wechat_pay_shop.file("apiclient_key.pem").splitlines()[3]
    assert "s" * 32 not in shown
    assert private not in shown
    await gateway.close()
