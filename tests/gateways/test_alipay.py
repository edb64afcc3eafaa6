"""The Alipay gateway against the sandbox bank's Alipay dialect: payments, refunds and faults."""

import asyncio
from collections.abc import AsyncIterator
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


async def test_a_refund_is_found_only_by_its_payment(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    assert (await gateway.find_refund(new_id("re"))).status == "UNKNOWN"
    outcome = await gateway.find_refund(new_id("re"), "2026112722001400000000000000")
    assert outcome.status == "NOT_FOUND"
    gone = alipay_shop.gateway(url="http://127.0.0.1:9/gateway.do")
    assert (await gone.find_refund(new_id("re"), "20261127")).status == "UNKNOWN"
    await gone.close()


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
        assert text in str(problem)
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
