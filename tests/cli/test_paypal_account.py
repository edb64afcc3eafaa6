"""Accounts at PayPal: the findings of ``opentill doctor``, and accounts in the database."""

import json
from pathlib import Path
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


def test_an_account_in_the_database_is_checked_by_paypal(
    opentill: Commands, paypal_shop: PayPalShop, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.json"

    def add(label: str, **changes: str) -> tuple[str, ...]:
        options = paypal_shop.options(**changes)
        credentials = {name.removeprefix("paypal_"): text for name, text in options.items()}
        path.write_text(json.dumps(credentials))
        return ("gateways", "add", "paypal", label, "--credentials", str(path), "--test")

    refusal = opentill.refusal(*add("Wrong", client_secret="not-the-secret-of-it"))
    assert "refuses the credentials: correct client_id and client_secret" in refusal
    assert "not-the-secret-of-it" not in refusal
    refusal = opentill.refusal(*add("Wrong", webhook_id="0OTHER"))
    assert "correct webhook_id, the id of a webhook of the same app" in refusal
    assert "client_id must be the client ID" in opentill.refusal(*add("Wrong", client_id=""))
    account = json.loads(opentill.run(*add("PayPal EU"), "--json").stdout)
    assert account["callbackUrl"].endswith(f"/gateways/paypal/{account['id']}/callback")
    assert account["credentials"]["webhook_id"] == paypal_shop.webhook_id
    secret = paypal_shop.file("client_secret.txt")
    assert secret not in json.dumps(account)
    assert opentill.json("gateways", "test", "PayPal EU")["accepted"] is True
