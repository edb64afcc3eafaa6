"""Signatures follow contract.md#event-signatures and are valid for Standard Webhooks libraries."""

import base64
import time

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from opentill.webhooks import signing

BODY = b'{"id":"evt_abc123","type":"order.paid","created_at":1736932500000,"data":{}}'


def test_the_signature_matches_the_vector_of_the_contract() -> None:
    signature = signing.own_signature("whsec_example", 1736932500000, BODY)
    assert signature == "sha256=a9f76dda17e571c1828f1e4b343018464aa4c35331e3353bccf80e63a1c10413"


def test_a_secret_has_the_format_of_standard_webhooks() -> None:
    secret = signing.new_secret()
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret[6:], validate=True)) == 24
    assert secret != signing.new_secret()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_the_standard_webhooks_library_verifies_with_either_secret() -> None:
    new_secret, old_secret = signing.new_secret(), signing.new_secret()
    headers = dict(signing.headers([new_secret, old_secret], "evt_abc123", _now_ms(), BODY))
    for secret in (new_secret, old_secret):
        assert Webhook(secret).verify(BODY, headers)["id"] == "evt_abc123"
    with pytest.raises(WebhookVerificationError):
        Webhook(signing.new_secret()).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret).verify(BODY + b" ", headers)


def test_the_newest_secret_signs_first_and_the_old_one_in_a_header_of_its_own() -> None:
    new_secret, old_secret, now = signing.new_secret(), signing.new_secret(), _now_ms()
    headers = dict(signing.headers([new_secret, old_secret], "evt_1", now, BODY))
    assert headers["x-svc-timestamp"] == str(now)
    assert headers["webhook-timestamp"] == str(now // 1000)
    assert headers["x-svc-signature"] == signing.own_signature(new_secret, now, BODY)
    assert headers["x-svc-signature-old"] == signing.own_signature(old_secret, now, BODY)
    signature = signing.standard_signature(new_secret, "evt_1", now // 1000, BODY)
    assert headers["webhook-signature"].split(" ")[0] == signature
    assert "x-svc-signature-old" not in dict(signing.headers([new_secret], "evt_1", now, BODY))


def test_the_configured_prefix_applies_to_the_header_of_the_old_secret() -> None:
    headers = dict(signing.headers(["new", "old"], "evt_1", 1736932500000, BODY, "X-Acme-"))
    header_names = {name for name in headers if not name.startswith("webhook-")}
    assert header_names == {"x-acme-signature", "x-acme-timestamp", "x-acme-signature-old"}
    assert headers["x-acme-signature-old"] == signing.own_signature("old", 1736932500000, BODY)
