"""Responses that Alipay did not sign; ``test_conformance`` has the faults of any provider."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways.alipay import AlipayGateway
from support.alipay_shop import AlipayShop
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


UNTRUSTED: Final = ["wrong_signature", "expired_certificate"]


async def test_a_code_without_a_trustworthy_response_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*UNTRUSTED, "other_account"]:
        alipay_shop.inject_fault("pay", kind, delay_s=2)
        outcome = await gateway.pay(alipay_shop.request())
        assert (outcome.status, outcome.qr_text) == ("UNKNOWN", "")


async def test_a_payment_without_a_trustworthy_response_is_unknown(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*UNTRUSTED, "other_account"]:
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
    for kind in [*UNTRUSTED]:
        request = alipay_shop.request()
        await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)
        alipay_shop.inject_fault("close", kind, delay_s=2)
        assert (await gateway.expire(request.attempt_id, "")).status == "UNKNOWN"
        assert (await gateway.expire(request.attempt_id, "")).status == "DECLINED"


async def test_a_refund_whose_response_was_lost_is_done_once(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    for kind in [*UNTRUSTED, "other_account"]:
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
    for kind in [*UNTRUSTED, "other_account", "wrong_amount"]:
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
