"""The findings of ``opentill doctor`` about an account at WeChat Pay."""

import json
from typing import Any

import pytest

from support.commands import Commands, opentill
from support.wechat_pay_shop import WeChatPayShop, wechat_pay_bank, wechat_pay_shop

__all__ = ["opentill", "wechat_pay_bank", "wechat_pay_shop"]

# Each row: the merchant's number, level, part of the text of the finding.
ACCOUNTS = [
    ("1900000001", "ok", "wechat_pay accepts queries of your account"),
    ("1900000002", "fail", "refuses our signature: correct OPENTILL_GATEWAY_WECHAT_PAY_MCHID"),
]


@pytest.mark.parametrize(("mchid", "level", "text"), ACCOUNTS)
def test_doctor_checks_whether_wechat_pay_accepts_the_account(
    opentill: Commands, wechat_pay_shop: WeChatPayShop, mchid: str, level: str, text: str
) -> None:
    options = wechat_pay_shop.options(mchid=mchid)
    environ: dict[str, Any] = {
        f"OPENTILL_GATEWAY_{name.upper()}": value for name, value in options.items()
    }
    process = opentill.run("doctor", "--json", **environ, OPENTILL_GATEWAYS="wechat_pay")
    findings = [row for row in json.loads(process.stdout) if row["subject"] == "gateway"]
    assert findings[0]["text"] == "wechat_pay takes WECHAT_PAY in CNY"
    assert (findings[1]["level"], text in findings[1]["text"]) == (level, True), findings
    output = process.stdout + process.stderr
    assert b"PRIVATE KEY--" not in output
    assert wechat_pay_shop.file("api_v3_key.txt").encode() not in output
