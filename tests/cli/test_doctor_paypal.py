"""The findings of ``opentill doctor`` about an account at PayPal."""

import json
from typing import Any

import pytest

from support.commands import Commands, opentill
from support.paypal_shop import PayPalShop, paypal_bank, paypal_shop

__all__ = ["opentill", "paypal_bank", "paypal_shop"]

# Each row: the webhook's id ("" for the right one), level, part of the text of the finding.
ACCOUNTS = [
    ("", "ok", "paypal accepts queries of your account"),
    ("0WRONG", "fail", "correct OPENTILL_GATEWAY_PAYPAL_WEBHOOK_ID"),
]


@pytest.mark.parametrize(("webhook_id", "level", "text"), ACCOUNTS)
def test_doctor_checks_whether_paypal_accepts_the_account(
    opentill: Commands, paypal_shop: PayPalShop, webhook_id: str, level: str, text: str
) -> None:
    options = paypal_shop.options(webhook_id=webhook_id or paypal_shop.webhook_id)
    environ: dict[str, Any] = {
        f"OPENTILL_GATEWAY_{name.upper()}": value for name, value in options.items()
    }
    process = opentill.run("doctor", "--json", **environ, OPENTILL_GATEWAYS="paypal")
    findings = [row for row in json.loads(process.stdout) if row["subject"] == "gateway"]
    assert findings[0]["text"] == "paypal takes CREDIT_CARD in 24 currencies"
    assert (findings[1]["level"], text in findings[1]["text"]) == (level, True), findings
    assert paypal_shop.file("client_secret.txt").encode() not in process.stdout + process.stderr
