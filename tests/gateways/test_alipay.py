"""The Alipay gateway against the sandbox bank's Alipay dialect: payments, refunds and faults."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import Notified, PaymentRequest
from opentill.gateways.alipay import AlipayGateway, wire
from opentill.gateways.model import Checks, Expires
from support.alipay_shop import AlipayShop, public_part
from support.ports import free_socket, url_of
from support.sandbox_bank import serving
from support.wallet_shop import CNY, id_of_age

HOUR_MS: Final = 3_600_000


@pytest.fixture
async def gateway(alipay_shop: AlipayShop) -> AsyncIterator[AlipayGateway]:
    """A gateway that shows QR codes, and signs by certificates."""
    gateway = alipay_shop.gateway(by_certificates=True, timeout_s=1.0, products="precreate")
    yield gateway
    await gateway.close()


@pytest.fixture
async def page_gateway(alipay_shop: AlipayShop) -> AsyncIterator[AlipayGateway]:
    """A gateway that sends customers to Alipay's pages, and signs by public keys."""
    gateway = alipay_shop.gateway()
    yield gateway
    await gateway.close()


async def test_the_adapter_implements_the_optional_protocols(gateway: AlipayGateway) -> None:
    assert isinstance(gateway, Checks)
    assert isinstance(gateway, Expires)
    assert isinstance(gateway, Notified)


async def test_only_yuan_are_taken(gateway: AlipayGateway) -> None:
    assert (gateway.methods("CNY"), gateway.methods("USD")) == (("ALIPAY",), ())


async def test_a_scanned_code_is_paid_and_refunded(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    request = alipay_shop.request()
    outcome = await gateway.pay(request)
    assert (outcome.status, outcome.action_url) == ("ACTION_REQUIRED", "")
    assert (await gateway.find_payment(request.attempt_id)).status == "NOT_FOUND"
    path = await asyncio.to_thread(alipay_shop.open, outcome.qr_text)
    assert path == f"/phone/{request.attempt_id}"
    assert (await gateway.find_payment(request.attempt_id)).status == "ACTION_REQUIRED"
    assert (await gateway.pay(request)).qr_text == outcome.qr_text
    await asyncio.to_thread(alipay_shop.decide, request.attempt_id)
    paid = await gateway.find_payment(request.attempt_id)
    assert (paid.status, paid.amount, paid.method) == ("SUCCEEDED", Money(999, CNY), "ALIPAY")
    assert paid.provider_ref.isdigit()
    refund = alipay_shop.refund_request(request.attempt_id, 300)
    assert (await gateway.find_refund(refund.refund_id, paid.provider_ref)).status == "NOT_FOUND"
    assert (await gateway.refund(refund)).status == "SUCCEEDED"
    assert (await gateway.find_refund(refund.refund_id, paid.provider_ref)).status == "SUCCEEDED"
    assert (await gateway.find_payment(request.attempt_id)).status == "SUCCEEDED"
    rest = alipay_shop.refund_request(request.attempt_id, 699)
    assert (await gateway.refund(rest)).status == "SUCCEEDED"
    # A trade that was refunded in full is closed, and was paid nevertheless.
    assert (await gateway.find_payment(request.attempt_id)).status == "SUCCEEDED"


@pytest.mark.parametrize(
    ("on_phone", "page", "method"),
    [(False, "pay", "alipay.trade.page.pay"), (True, "phone", "alipay.trade.wap.pay")],
)
async def test_a_page_is_opened_by_a_signed_url(
    alipay_shop: AlipayShop, page_gateway: AlipayGateway, page: str, method: str, *, on_phone: bool
) -> None:
    request = alipay_shop.request(on_phone=on_phone)
    outcome = await page_gateway.pay(request)
    assert (outcome.status, outcome.qr_text) == ("ACTION_REQUIRED", "")
    query = parse_qs(urlsplit(outcome.action_url).query)
    assert query["method"] == [method]
    assert query["return_url"] == [request.return_url]
    assert (await page_gateway.find_payment(request.attempt_id)).status == "NOT_FOUND"
    path = await asyncio.to_thread(alipay_shop.open, outcome.action_url)
    assert path == f"/{page}/{request.attempt_id}"
    await asyncio.to_thread(alipay_shop.decide, request.attempt_id)
    assert (await page_gateway.find_payment(request.attempt_id)).status == "SUCCEEDED"
    changed = outcome.action_url.replace("9.99", "0.01")
    assert (await asyncio.to_thread(alipay_shop.browser.get, changed)).status_code == 400


# Products of the account, whether the customer uses a phone, the product that is chosen.
CHOICES = [
    ("page,wap,precreate", False, "page"),
    ("page,wap,precreate", True, "wap"),
    ("precreate,page,wap", False, "precreate"),
    ("precreate,wap", True, "wap"),
    ("wap,precreate", False, "precreate"),
    ("precreate", True, "precreate"),
    ("page", True, "page"),
    ("wap", False, "wap"),
    ("page,precreate", True, "page"),
]


@pytest.mark.parametrize(("products", "on_phone", "chosen"), CHOICES)
def test_the_product_suits_the_device(products: str, chosen: str, *, on_phone: bool) -> None:
    names: Any = products.split(",")
    assert wire.choose(names, on_phone=on_phone) == chosen


def order_of(**changes: Any) -> dict[str, str]:
    """Return the content of a request at 2026-01-01 00:00 UTC."""
    request = PaymentRequest(
        attempt_id="att_1", method="ALIPAY", amount=Money(999, CNY), description="Tea",
        merchant_name="", customer_email="", customer_name=None, payer_ip="",
        return_url="https://till.example/back", callback_url="", locale="zh",
    )  # fmt: skip
    return wire.order(msgspec.structs.replace(request, **changes), "page", 1_767_225_600_000)


@pytest.mark.parametrize(
    ("description", "subject"),
    [
        ("茶 & Tea / 100 g = 1", "茶 + Tea - 100 g - 1"),
        ("a\nb\x00\ud800c", "a b ?c"),
        ("x" * 500, "x" * 128),
        (" \n ", "-"),
    ],
)
def test_a_description_has_only_accepted_characters(description: str, subject: str) -> None:
    assert order_of(description=description)["subject"] == subject


@pytest.mark.parametrize(
    ("expires_at", "time_expire"),
    [
        (None, "2026-01-01 10:00:00"),  # two hours, in China's time
        (1_767_225_600_000 + HOUR_MS, "2026-01-01 09:00:00"),
        (1_767_225_600_000 + 24 * HOUR_MS, "2026-01-01 10:00:00"),
        (1_767_225_600_000 - 1, "2026-01-01 08:01:00"),
    ],
)
def test_a_trade_ends_with_the_session_and_after_two_hours(
    expires_at: int | None, time_expire: str
) -> None:
    assert order_of(expires_at=expires_at)["time_expire"] == time_expire


async def test_an_attempt_that_nobody_opened_fails_once_it_cannot_be_opened(
    gateway: AlipayGateway,
) -> None:
    fresh, old = id_of_age(2 * HOUR_MS), id_of_age(2 * HOUR_MS + 16 * 60_000)
    assert (await gateway.find_payment(fresh)).status == "NOT_FOUND"
    assert (await gateway.expire(fresh, "")).status == "NOT_FOUND"
    for outcome in (await gateway.find_payment(old), await gateway.expire(old, "")):
        assert (outcome.status, outcome.reason) == ("DECLINED", "never_opened")


async def test_an_open_trade_is_closed_and_a_paid_one_is_not(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    request = alipay_shop.request()
    await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)
    for _ in range(2):
        outcome = await gateway.expire(request.attempt_id, "")
        assert (outcome.status, outcome.reason) == ("DECLINED", "trade_closed")
    assert (await gateway.pay(request)).status == "DECLINED"
    paid = await alipay_shop.pay(gateway)
    assert (await gateway.expire(paid, "")).status == "SUCCEEDED"


async def test_a_trade_that_exists_is_not_opened_again(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    attempt_id = await alipay_shop.pay(gateway)
    again = alipay_shop.request(attempt_id=attempt_id)
    assert (await gateway.pay(again)).status == "SUCCEEDED"
    other = alipay_shop.request()
    await gateway.pay(other)
    changed = msgspec.structs.replace(other, amount=Money(1, CNY))
    assert (await gateway.pay(changed)).status == "UNKNOWN"


async def test_a_trade_whose_customer_declines_is_declined(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    request = alipay_shop.request()
    await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)
    await asyncio.to_thread(alipay_shop.decide, request.attempt_id, "decline")
    assert (await gateway.find_payment(request.attempt_id)).status == "DECLINED"


# ── faults ──

LOST: Final = ["error_500", "error_500_after", "reset_after"]
UNTRUSTED: Final = ["wrong_signature", "expired_certificate"]


async def test_a_code_without_a_trustworthy_response_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in ["timeout_after", *LOST, *UNTRUSTED, "other_account"]:
        alipay_shop.inject_fault("pay", kind, delay_s=2)
        outcome = await gateway.pay(alipay_shop.request())
        assert (outcome.status, outcome.qr_text) == ("UNKNOWN", "")


async def test_a_payment_without_a_trustworthy_response_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*LOST, *UNTRUSTED, "other_account"]:
        attempt_id = await alipay_shop.pay(gateway)
        alipay_shop.inject_fault("find", kind, delay_s=2)
        assert (await gateway.find_payment(attempt_id)).status == "UNKNOWN"
        assert (await gateway.find_payment(attempt_id)).status == "SUCCEEDED"


async def test_another_amount_is_reported_as_it_is(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    """The order compares it with the amount due."""
    attempt_id = await alipay_shop.pay(gateway)
    alipay_shop.inject_fault("find", "wrong_amount")
    assert (await gateway.find_payment(attempt_id)).amount == Money(1000, CNY)


async def test_a_trade_whose_closing_got_no_response_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*LOST, *UNTRUSTED]:
        request = alipay_shop.request()
        await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)
        alipay_shop.inject_fault("close", kind, delay_s=2)
        assert (await gateway.expire(request.attempt_id, "")).status == "UNKNOWN"
        assert (await gateway.expire(request.attempt_id, "")).status == "DECLINED"


async def test_a_refund_whose_response_was_lost_is_done_once(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in ["timeout_before", "timeout_after", *LOST, *UNTRUSTED, "other_account"]:
        attempt_id = await alipay_shop.pay(gateway)
        refund = alipay_shop.refund_request(attempt_id, 600)
        alipay_shop.inject_fault("refund", kind, delay_s=2)
        assert (await gateway.refund(refund)).status == "UNKNOWN"
        repeated = msgspec.structs.replace(refund, repeated=True)
        assert (await gateway.refund(repeated)).status == "SUCCEEDED"
        assert (await gateway.refund(repeated)).status == "SUCCEEDED"
        payment = alipay_shop.api.get(f"/payments/{attempt_id}").json()
        assert payment["refunded_minor"] == 600


async def test_a_refund_without_confirmation_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*LOST, *UNTRUSTED, "other_account", "wrong_amount"]:
        attempt_id = await alipay_shop.pay(gateway)
        refund = alipay_shop.refund_request(attempt_id, 600)
        assert (await gateway.refund(refund)).status == "SUCCEEDED"
        alipay_shop.inject_fault("find_refund", kind, delay_s=2)
        assert (await gateway.refund(refund)).status == "UNKNOWN"


async def test_a_refund_in_progress_is_pending_until_a_query_confirms_it(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    attempt_id = await alipay_shop.pay(gateway)
    refund = alipay_shop.refund_request(attempt_id, 600)
    alipay_shop.inject_fault("refund", "unconfirmed")
    assert (await gateway.refund(refund)).status == "PENDING"
    assert (await gateway.refund(refund)).status == "SUCCEEDED"


async def test_a_refund_is_refused_only_for_a_reason_and_if_there_is_none(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    attempt_id = await alipay_shop.pay(gateway)
    outcome = await gateway.refund(alipay_shop.refund_request(attempt_id, 1000))
    assert outcome.status == "REFUSED"
    assert "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL" in outcome.reason
    # The same refund of another amount: Alipay has one under this id.
    refund = alipay_shop.refund_request(attempt_id, 600)
    assert (await gateway.refund(refund)).status == "SUCCEEDED"
    other = msgspec.structs.replace(refund, amount=Money(1, CNY))
    assert (await gateway.refund(other)).status == "UNKNOWN"
    unpaid = alipay_shop.request()
    await asyncio.to_thread(alipay_shop.open, (await gateway.pay(unpaid)).qr_text)
    assert (
        await gateway.refund(alipay_shop.refund_request(unpaid.attempt_id, 1))
    ).status == "REFUSED"
    unknown = alipay_shop.refund_request(new_id("att"), 1)
    assert (await gateway.refund(unknown)).status == "REFUSED"


async def test_a_refund_is_not_refused_while_it_cannot_be_queried(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    attempt_id = await alipay_shop.pay(gateway)
    alipay_shop.inject_fault("find_refund", "error_500")
    outcome = await gateway.refund(alipay_shop.refund_request(attempt_id, 1000))
    assert outcome.status == "UNKNOWN"


async def test_a_refund_is_found_only_by_its_payment(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    assert (await gateway.find_refund(new_id("re"))).status == "UNKNOWN"
    outcome = await gateway.find_refund(new_id("re"), "2026112722001400000000000000")
    assert outcome.status == "NOT_FOUND"
    gone = alipay_shop.gateway(url="http://127.0.0.1:9/gateway.do")
    assert (await gone.find_refund(new_id("re"), "20261127")).status == "UNKNOWN"
    await gone.close()


async def test_an_unreachable_server_got_nothing(alipay_shop: AlipayShop) -> None:
    gateway = alipay_shop.gateway(url="http://127.0.0.1:9/gateway.do", products="precreate")
    attempt_id = new_id("att")
    outcomes = [
        await gateway.pay(alipay_shop.request()),
        await gateway.find_payment(attempt_id),
        await gateway.expire(attempt_id, ""),
        await gateway.refund(alipay_shop.refund_request(attempt_id, 1)),
    ]
    assert {outcome.status for outcome in outcomes} == {"UNREACHABLE"}
    await gateway.close()


async def test_a_request_that_is_refused_unprocessed_may_be_sent_again(
    alipay_shop: AlipayShop,
) -> None:
    """The application has another key at Alipay than we have."""
    key = alipay_shop.file("old_private_key.pem")
    gateway = alipay_shop.gateway(products="precreate", private_key=key)
    outcome = await gateway.pay(alipay_shop.request())
    # Alipay's message would quote the request.
    assert (outcome.status, outcome.reason) == ("DECLINED", "40002 isv.invalid-signature")
    attempt_id = new_id("att")
    outcomes = [
        await gateway.refund(alipay_shop.refund_request(attempt_id, 1)),
        await gateway.find_payment(attempt_id),
        await gateway.find_refund(new_id("re"), "20261127"),
        await gateway.expire(attempt_id, ""),
    ]
    assert [outcome.status for outcome in outcomes] == [
        "UNREACHABLE", "UNKNOWN", "UNKNOWN", "UNKNOWN",
    ]  # fmt: skip
    await gateway.close()


# ── servers that are not Alipay ──

NO_ALIPAY: Final = [
    b"",
    b"<html>502</html>",
    b"[]",
    b'"text"',
    b"{}",
    b"\xff\xfe",
    b"[" * 50_000,
    b'{"alipay_trade_query_response":' + b"[" * 50_000,
    b'{"sign":"AAAA"}',
    b'{"alipay_trade_query_response":{"code":"10000"}}',
    b'{"alipay_trade_query_response":{"code":"10000"},"sign":7}',
    b'{"alipay_trade_query_response":{"code":"10000"},"sign":"not Base64"}',
    b'{"alipay_trade_query_response":{"code":"10000"},"sign":"AAAA","alipay_cert_sn":[]}',
    b'{"alipay_trade_query_response":{"code":"40004","sub_code":"ACQ.TRADE_NOT_EXIST"}}',
    b'{"alipay_trade_query_response":null,"sign":"AAAA"}',
    b'{"error_response":{"code":"20000","sub_code":"isp.unknow-error"},"sign":"AAAA"}',
    b'{"alipay_trade_query_response":' + b'"x"' * 100_000,
]


class Impostor:
    """Responds to every request with the same body."""

    def __init__(self) -> None:
        """A test sets ``body``."""
        self.body, self.url = b"", ""

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": self.body})


@pytest.fixture(scope="module")
def impostor() -> Iterator[Impostor]:
    """A server that is not Alipay."""
    server, sock = Impostor(), free_socket()
    server.url = url_of(sock)
    with serving(server, sock):
        yield server


async def test_nothing_that_alipay_did_not_sign_counts(
    alipay_shop: AlipayShop, impostor: Impostor
) -> None:
    gateway = alipay_shop.gateway(url=f"{impostor.url}/gateway.do", products="precreate")
    attempt_id = id_of_age(24 * HOUR_MS)
    for body in NO_ALIPAY:
        impostor.body = body
        outcomes = [
            await gateway.find_payment(attempt_id),
            await gateway.expire(attempt_id, ""),
            await gateway.refund(alipay_shop.refund_request(attempt_id, 1)),
            await gateway.find_refund(new_id("re"), "20261127"),
            await gateway.pay(alipay_shop.request()),
        ]
        assert {outcome.status for outcome in outcomes} == {"UNKNOWN"}, body[:100]
        assert all(len(outcome.reason) < 300 for outcome in outcomes)
    await gateway.close()


# ── check ──


async def test_a_check_finds_nothing_wrong(gateway: AlipayGateway) -> None:
    assert await gateway.check() is None


async def test_a_check_names_the_problem_and_its_remedy(
    alipay_shop: AlipayShop,
) -> None:
    key = alipay_shop.file("old_private_key.pem")
    public_key = public_part(key)
    cases: dict[str, dict[str, Any]] = {
        "PRIVATE_KEY must belong to the public key": {"private_key": key},
        "the signature is not Alipay's": {"public_key": public_key},
        "isv.invalid-app-id": {"app_id": "2021000000000009"},
        "The server refused the connection.": {"url": "http://127.0.0.1:9/gateway.do"},
    }
    for text, changes in cases.items():
        gateway = alipay_shop.gateway(**changes)
        problem = await gateway.check()
        assert text in (problem or ""), problem
        await gateway.close()


async def test_keys_are_in_no_text(
    alipay_shop: AlipayShop, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = alipay_shop.gateway(products="precreate", url="http://127.0.0.1:9/gateway.do")
    outcome = await gateway.pay(alipay_shop.request())
    secret = alipay_shop.file("app_private_key.pem").splitlines()[1]
    texts = [repr(gateway._options), repr(vars(gateway)), repr(outcome), caplog.text]
    assert not any(secret in text or "RSAPrivateKey" in text for text in texts)
    await gateway.close()
