"""The faults of merchants' addresses are named: on real connections, and for known responses."""

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from opentill.core.encryption import encrypt
from opentill.epay import jobs
from opentill.outgoing import client
from opentill.outgoing.client import Response
from opentill.outgoing.faults import FAULTS, Evidence, Fault, classify, says_success
from opentill.web import delivery_faults
from opentill.webhooks import sending
from opentill.webhooks.endpoint_secrets import purpose
from opentill.webhooks.model import DeliveryAttempt, DueDelivery
from support.faulty_server import FaultyServer, faulty_server

_KEY = "test-secret-key-test-secret-key-0123"
_TIMEOUT_S = 0.7  # the server that hangs does so for longer


async def _attempt(server: FaultyServer, url: str) -> DeliveryAttempt:
    secret = encrypt(_KEY, purpose("mer_1", "whe_1"), "whsec_" + "A" * 32)
    fields: dict[str, Any] = dict.fromkeys(DueDelivery.__struct_fields__, 0)
    texts = {"merchant_id": "mer_1", "endpoint_id": "whe_1", "event_id": "evt_1", "body": "{}"}
    secrets = {"secret": secret, "old_secret": None, "old_secret_until": None}
    due = DueDelivery(**(fields | texts | secrets | {"url": url, "failing_since": None}))
    return await sending.attempt(server.outgoing, _KEY, due, 0, _TIMEOUT_S)


async def test_twelve_faults_of_addresses_are_named_for_webhooks_and_epay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    monkeypatch.setattr(client, "_tls_context", ssl.create_default_context)  # not the one of before
    monkeypatch.setattr(jobs, "TIMEOUT_S", _TIMEOUT_S)
    async with faulty_server(tmp_path) as server:
        planted = server.planted()
        assert len(planted) == 12
        webhook = {name: await _attempt(server, one.url) for name, one in planted.items()}
        epay = {
            name: await jobs.send_once(server.outgoing, one.url) for name, one in planted.items()
        }
        works = f"https://shop.example:{server.valid_tls}/works"
        assert (await _attempt(server, works)).fault is None
        assert await jobs.send_once(server.outgoing, works) == jobs.NoticeAttempt(
            is_acknowledged=True, result="HTTP 200", fault=None, status=200
        )
    assert {name: one.fault for name, one in webhook.items()} == {
        name: one.webhook for name, one in planted.items()
    }
    assert {name: one.fault for name, one in epay.items()} == {
        name: one.epay for name, one in planted.items()
    }
    # The contract decides what counts as delivered: any 2xx, and "success" in the text.
    delivered = {name for name, one in webhook.items() if one.outcome == "delivered"}
    assert delivered == {"login page", "HTML", "BOM before success"}
    assert {name for name, one in epay.items() if one.is_acknowledged} == {"BOM before success"}


_HTML = "<!doctype html><html><body>{}</body></html>"
_Case = tuple[int, dict[str, str], str, Fault | None]
_WEBHOOK: list[_Case] = [
    (200, {}, "", None),
    (204, {}, "", None),
    (200, {"content-type": "text/html"}, "ok", None),
    (200, {}, '{"signature": "ok"}', None),
    (302, {"location": "/wp-login.php?redirect_to=hook"}, "", "login_page"),
    (302, {"location": "https://www.shop.example/blog"}, "", "redirect"),
    (401, {"www-authenticate": 'Basic realm="x"'}, "", "login_page"),
    (401, {}, '{"error": "unauthorized"}', "signature_refused"),
    (400, {}, "invalid signature", "signature_refused"),
    (400, {}, "Webhook signature verification failed", "signature_refused"),
    (403, {}, "bad sign", "signature_refused"),
    (400, {}, "unknown type of event", "other_status"),
    (403, {"cf-mitigated": "challenge"}, "", "block_page"),
    (503, {}, _HTML.format("Checking your browser"), "block_page"),
    (405, {}, _HTML.format('<a href="https://errors.aliyun.com/">x</a>'), "block_page"),
    (502, {"server": "cloudflare"}, _HTML.format("Bad gateway"), "server_error"),
    (421, {}, "", "wrong_host"),
    (404, {}, "<html><body>没有找到站点</body></html>", "wrong_host"),
    (404, {}, "", "not_found"),
    (410, {}, "", "not_found"),
    (429, {}, "", "other_status"),
]
_EPAY: list[_Case] = [
    (200, {}, "success", None),
    (200, {}, " SUCCESS\n", None),
    (200, {}, _HTML.format("<p>支付成功 success</p>"), None),
    (200, {}, _HTML.format("<style>.success{}</style>"), "html_page"),
    (200, {}, _HTML.format("网站防火墙 <i class=success>"), "block_page"),
    (200, {}, "\ufefffail", "bom"),
    (200, {}, "fail", "no_success"),
    (200, {}, "", "no_success"),
    (201, {}, "success", "no_success"),
    (200, {}, "签名校验失败", "signature_refused"),
    (200, {}, '{"code":-3,"msg":"sign error"}', "signature_refused"),
    (200, {}, "\ufeff\n<html>", "html_page"),
]


@pytest.mark.parametrize(
    ("expected", "case"),
    [*(("2xx", case) for case in _WEBHOOK), *(("success", case) for case in _EPAY)],
)
def test_a_response_has_the_fault_of_its_first_matching_rule(expected: Any, case: _Case) -> None:
    status, headers, body, fault = case
    response = Response(status, tuple(headers.items()), body.encode())
    assert classify(Evidence.of_response(response, expected)) == fault


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        (client.REFUSED, "refused"),
        (client.NO_ROUTE, "unreachable"),
        (client.CONNECT_TIMEOUT, "timeout"),
        (client.WRONG_CERTIFICATE, "certificate_invalid"),
        (client.NO_TLS, "tls_failed"),
        (client.MALFORMED, "not_http"),
        ("internal error", None),
    ],
)
def test_a_request_without_a_response_has_the_fault_of_its_reason(
    reason: str, fault: Fault | None
) -> None:
    assert classify(Evidence.of_failure(reason, "2xx")) == fault


def test_a_refused_address_is_called_that_whatever_the_reason() -> None:
    evidence = Evidence.of_failure("10.0.0.1 stands for …", "success", is_forbidden=True)
    assert classify(evidence) == "address_not_allowed"


def test_a_page_that_never_ends_is_read_in_linear_time() -> None:
    started = time.perf_counter()
    for unfinished in ("<script", "<", "<!--", "<a ", "<input "):
        says_success("<html>" + unfinished * (65536 // len(unfinished)))
        classify(_html(unfinished * (65536 // len(unfinished))))
    assert time.perf_counter() - started < 5


def _html(text: str) -> Evidence:
    return Evidence.of_response(Response(200, (), f"<html>{text}".encode()), "success")


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_advice_in_each_language_of_merchants(fault: Fault) -> None:
    texts = [
        delivery_faults.text_of(fault, language, to_epay=to_epay)
        for language in ("en", "zh-Hans", "zh-Hant")
        for to_epay in (False, True)
    ]
    assert all("\x04" not in text for text in texts)
    assert texts[0] not in texts[2:]
    assert texts[2] != texts[4]
