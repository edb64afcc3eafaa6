"""The findings of ``opentill doctor`` about Alipay's keys."""

import json
from typing import Any

import pytest

from support.alipay_shop import AlipayShop, alipay_bank, alipay_shop
from support.commands import Commands, opentill

__all__ = ["alipay_bank", "alipay_shop", "opentill"]

# Each row: file of the private key, level, part of the text of the finding.
KEYS = [
    ("app_private_key.pem", "ok", "alipay accepts queries of your account"),
    ("old_private_key.pem", "fail", "PRIVATE_KEY must belong to the public key or certificate"),
]


@pytest.mark.parametrize(("key", "level", "text"), KEYS)
def test_doctor_checks_whether_alipay_accepts_the_key(
    opentill: Commands, alipay_shop: AlipayShop, key: str, level: str, text: str
) -> None:
    options = alipay_shop.options(private_key=alipay_shop.file(key))
    environ: dict[str, Any] = {
        f"OPENTILL_GATEWAY_{name.upper()}": value for name, value in options.items()
    }
    process = opentill.run("doctor", "--json", **environ, OPENTILL_GATEWAYS="alipay")
    findings = [row for row in json.loads(process.stdout) if row["subject"] == "gateway"]
    assert findings[0]["text"] == "alipay takes ALIPAY in CNY"
    assert (findings[1]["level"], text in findings[1]["text"]) == (level, True), findings
    assert b"PRIVATE KEY--" not in process.stdout + process.stderr
