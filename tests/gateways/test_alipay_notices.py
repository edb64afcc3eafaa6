"""Alipay's notifications: the bank's are read and forged ones are refused; signatures of an SDK."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import alipay as sdk
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from opentill.core.errors import Unavailable
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import BadCallback, GatewayPaymentEvent, GatewayRefundEvent
from opentill.gateways.alipay import AlipayGateway, configuration
from opentill.gateways.alipay.keys import content_of, utc_now
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox.alipay import APP_ID, SELLER_ID
from support.alipay_shop import AlipayShop, public_part
from support.wallet_shop import CNY

ATTEMPT: Final = "att_01m7y0m0jzefzv5n8efcf1hqw1"
NOTICE: Final = {
    "notify_type": "trade_status_sync",
    "app_id": APP_ID,
    "seller_id": SELLER_ID,
    "charset": "utf-8",
    "out_trade_no": ATTEMPT,
    "trade_no": "2026112722001400000000000000",
    "trade_status": "TRADE_SUCCESS",
    "total_amount": "9.99",
    "subject": "茶 & =",
    "empty": "",
    "gmt_payment": "2026-11-27 22:22:47",
}


@pytest.fixture
async def gateway(alipay_shop: AlipayShop) -> AsyncIterator[AlipayGateway]:
    """A gateway that shows QR codes."""
    gateway = alipay_shop.gateway(products="precreate")
    yield gateway
    await gateway.close()


def sdk_client(shop: AlipayShop, private_key: str, public_key: str) -> Any:
    """Return a client of python-alipay-sdk that signs and verifies with these files' keys."""
    client = sdk.AliPay(
        appid=APP_ID,
        app_notify_url=f"{shop.receiver.url}/notify",
        app_private_key_string=shop.file(private_key),
        alipay_public_key_string=shop.file(public_key)
        if public_key.startswith("alipay")
        else public_part(shop.file(public_key)),
    )
    client._gateway = shop.url
    return client


def signed_notice(shop: AlipayShop, **changes: str) -> dict[str, str]:
    """Return a notification that the SDK has signed with Alipay's key."""
    params = NOTICE | changes
    client = sdk_client(shop, "own_private_key.pem", "alipay_public_key.pem")
    sign = client._sign(content_of(params, without=("sign", "sign_type")))
    return {**params, "sign_type": "RSA2", "sign": sign}


# ── notifications of the bank ──


async def test_notifications_report_the_payment_and_each_refund(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    attempt_id = await alipay_shop.pay(gateway)
    refund = alipay_shop.refund_request(attempt_id, 300)
    await gateway.refund(refund)
    desk = await asyncio.to_thread(
        alipay_shop.api.post, f"/payments/{attempt_id}/refunds", json={"amount_minor": 699}
    )
    paid, part, rest = await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id, 3)
    (event,) = await gateway.read_notice(paid)
    assert isinstance(event, GatewayPaymentEvent)
    assert (event.attempt_id, event.outcome.amount) == (attempt_id, Money(999, CNY))
    assert event.outcome == await gateway.find_payment(attempt_id)
    payment, own = await gateway.read_notice(part)
    assert payment == event
    assert isinstance(own, GatewayRefundEvent)
    assert (own.refund_id, own.amount) == (refund.refund_id, Money(300, CNY))
    assert own.outcome.status == "SUCCEEDED"
    # A trade that was refunded in full is closed; the refund was made on the provider's pages.
    assert rest["trade_status"] == "TRADE_CLOSED"
    payment, foreign = await gateway.read_notice(rest)
    assert payment == event
    assert isinstance(foreign, GatewayRefundEvent)
    assert (foreign.refund_id, foreign.amount) == ("", Money(699, CNY))
    assert foreign.outcome.provider_ref == desk.json()["id"]
    alipay_shop.inject_fault("find_refund", "error_500")
    with pytest.raises(Unavailable):
        await gateway.read_notice(part)
    alipay_shop.inject_fault("find_refund", "other_account")
    with pytest.raises(Unavailable):
        await gateway.read_notice(part)


async def test_a_trade_that_was_closed_unpaid_is_declined(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    request = alipay_shop.request()
    await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)
    await gateway.expire(request.attempt_id, "")
    (notice,) = await asyncio.to_thread(alipay_shop.receiver.wait_for, request.attempt_id)
    (event,) = await gateway.read_notice(notice)
    assert isinstance(event, GatewayPaymentEvent)
    assert (event.outcome.status, event.outcome.reason) == ("DECLINED", "trade_closed")


async def test_a_notification_is_repeated_until_the_word_success(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    alipay_shop.receiver.content = b'{"code":0}'
    attempt_id = await alipay_shop.pay(gateway)
    await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id, 2)
    alipay_shop.receiver.content = gateway.acknowledgement
    notices = await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id, 3)
    events = [await gateway.read_notice(notice) for notice in notices]
    assert all(event == events[0] for event in events)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("wrong_signature", "the signature is not Alipay's"),
        ("expired_certificate", "the signature is not Alipay's"),
        ("other_account", "another account"),
        ("wrong_amount", ""),
        ("duplicate", ""),
    ],
)
async def test_faults_of_notifications(
    alipay_shop: AlipayShop, gateway: AlipayGateway, kind: str, error: str
) -> None:
    attempt_id = new_id("att")
    alipay_shop.inject_fault("callback", kind, match=attempt_id)
    await alipay_shop.pay(gateway, attempt_id=attempt_id)
    times = 2 if kind == "duplicate" else 1
    notices = await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id, times)
    if error:
        with pytest.raises(BadCallback, match=error):
            await gateway.read_notice(notices[0])
        return
    (event,) = await gateway.read_notice(notices[-1])
    assert isinstance(event, GatewayPaymentEvent)
    # Another amount is reported as it is: the order compares it with the amount due.
    assert event.outcome.amount == Money(1000 if kind == "wrong_amount" else 999, CNY)


async def test_the_banks_own_api_leaves_the_faults_of_dialects(alipay_shop: AlipayShop) -> None:
    alipay_shop.inject_fault("find", "wrong_amount")
    assert alipay_shop.api.get("/payments/att_none").status_code == 404
    assert [one["kind"] for one in alipay_shop.api.get("/faults").json()] == ["wrong_amount"]


async def test_a_trade_that_is_not_paid_in_time_is_closed(
    alipay_shop: AlipayShop, gateway: AlipayGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.gateways.alipay.wire.LIFETIME_MS", 1500)
    request = alipay_shop.request()
    await asyncio.to_thread(alipay_shop.open, (await gateway.pay(request)).qr_text)

    async def status() -> str:
        return (await gateway.find_payment(request.attempt_id)).status

    statuses = {await status()}
    while "DECLINED" not in statuses:
        await asyncio.sleep(0.2)
        statuses.add(await status())
    assert statuses <= {"ACTION_REQUIRED", "DECLINED"}


# ── forged notifications ──

FORGERIES: Final = [
    # Changes of a signed notification, and the reason why it is refused.
    ({"total_amount": "0.01"}, "signature"),
    ({"out_trade_no": "att_01m7y0m0jzefzv5n8efcf1hqw2"}, "signature"),
    ({"sign": ""}, "signature"),
    ({"sign": "AAAA"}, "signature"),
    ({"sign": "不"}, "signature"),
    ({"sign": "A" * 100_000}, "signature"),
    ({"further": "1"}, "signature"),
    ({"sign_type": "RSA"}, "sign_type"),
]
# Genuine notifications that are not about our payments, or not readable.
GENUINE: Final = [
    ({"app_id": "2021000000000009"}, "app_id"),
    ({"seller_id": "2088000000000009"}, "seller_id"),
    ({"seller_id": ""}, "seller_id"),
    ({"out_trade_no": "70501111111S001111119"}, "out_trade_no"),
    ({"out_trade_no": ""}, "out_trade_no"),
    ({"total_amount": "9,99"}, "readable amount"),
    ({"total_amount": "9.999"}, "readable amount"),
    ({"total_amount": ""}, "readable amount"),
    ({"trade_status": "TRADE_PENDING"}, "TRADE_PENDING"),
    ({"trade_status": "\x00<b>"}, "unreadable"),
]


async def test_forged_notifications_are_refused(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    notice = signed_notice(alipay_shop)
    assert len(await gateway.read_notice(notice)) == 1
    for changes, reason in FORGERIES:
        with pytest.raises(BadCallback, match=reason):
            await gateway.read_notice(notice | changes)
    for changes, reason in GENUINE:
        with pytest.raises(BadCallback, match=reason):
            await gateway.read_notice(signed_notice(alipay_shop, **changes))
    with pytest.raises(BadCallback):
        gateway.read_callback({}, b"{}", 0)


# Status and further fields of a notification, and the status of the payment that it reports.
STATUSES: Final[list[tuple[str, dict[str, str], list[str]]]] = [
    ("TRADE_SUCCESS", {}, ["SUCCEEDED"]),
    ("TRADE_FINISHED", {}, ["SUCCEEDED"]),
    ("TRADE_CLOSED", {"gmt_payment": ""}, ["DECLINED"]),
    ("TRADE_CLOSED", {}, ["SUCCEEDED"]),
    ("WAIT_BUYER_PAY", {"gmt_payment": ""}, []),
]


async def test_statuses_of_notifications(alipay_shop: AlipayShop, gateway: AlipayGateway) -> None:
    for trade_status, changes, statuses in STATUSES:
        notice = signed_notice(alipay_shop, trade_status=trade_status, **changes)
        events = await gateway.read_notice(notice)
        assert [getattr(event, "outcome", None).status for event in events] == statuses  # type: ignore[union-attr]


async def test_a_notification_of_another_or_expired_certificate_is_refused(
    alipay_shop: AlipayShop,
) -> None:
    gateway = alipay_shop.gateway(by_certificates=True)
    notice = signed_notice(alipay_shop)
    assert len(await gateway.read_notice(notice)) == 1
    other = signed_notice(alipay_shop, alipay_cert_sn="0" * 32)
    with pytest.raises(BadCallback, match="by its certificate 0{32}, but the configured one is"):
        await gateway.read_notice(other)
    credentials = gateway._options.credentials
    later = utc_now() + timedelta(days=4000)
    content = content_of(notice, without=("sign", "sign_type")).encode()
    problem = credentials.verify(content, notice["sign"], "", later)
    assert "Sandbox Alipay" in problem
    assert "was valid until" in problem
    await gateway.close()


# ── python-alipay-sdk, an implementation by other people ──


async def test_the_sdk_verifies_our_requests_and_the_banks_notifications(
    alipay_shop: AlipayShop, gateway: AlipayGateway
) -> None:
    page_gateway = alipay_shop.gateway()
    url = (await page_gateway.pay(alipay_shop.request())).action_url
    params = dict(parse_qsl(urlsplit(url).query))
    # The SDK leaves out ``sign_type``, as notifications do; requests sign it.
    verifier = sdk_client(alipay_shop, "own_private_key.pem", "app_private_key.pem")
    sign, content = params.pop("sign"), content_of(params, without=())
    assert verifier._verify(content, sign)
    attempt_id = await alipay_shop.pay(gateway)
    (notice,) = await asyncio.to_thread(alipay_shop.receiver.wait_for, attempt_id)
    client = sdk_client(alipay_shop, "app_private_key.pem", "alipay_public_key.pem")
    sign = notice.pop("sign")
    assert client.verify(dict(notice), sign)
    assert not client.verify(notice | {"total_amount": "0.01"}, sign)
    await page_gateway.close()


async def test_the_sdk_pays_and_refunds_at_the_bank(alipay_shop: AlipayShop) -> None:
    """The SDK verifies the bank's responses itself."""
    client = sdk_client(alipay_shop, "app_private_key.pem", "alipay_public_key.pem")
    attempt_id = alipay_shop.request().attempt_id

    def run() -> None:
        created = client.api_alipay_trade_precreate("茶", attempt_id, "9.99")
        assert created["code"] == "10000"
        absent = client.api_alipay_trade_query(out_trade_no=attempt_id)
        assert absent["sub_code"] == "ACQ.TRADE_NOT_EXIST"
        alipay_shop.open(created["qr_code"])
        alipay_shop.decide(attempt_id)
        paid = client.api_alipay_trade_query(out_trade_no=attempt_id)
        assert (paid["trade_status"], paid["total_amount"]) == ("TRADE_SUCCESS", "9.99")
        refund = client.api_alipay_trade_refund(
            "1.00", out_trade_no=attempt_id, out_request_no="re_of_the_sdk"
        )
        assert refund["fund_change"] == "Y"
        page = client.api_alipay_trade_page_pay(
            "茶", f"{attempt_id}2", "1.00", return_url="https://till.example/back"
        )
        assert alipay_shop.open(f"{alipay_shop.url}?{page}") == f"/pay/{attempt_id}2"

    await asyncio.to_thread(run)


@pytest.mark.filterwarnings("ignore:X509")  # the SDK uses deprecated functions
def test_the_sdk_computes_the_same_certificate_numbers(alipay_shop: AlipayShop) -> None:
    client = sdk.DCAliPay(
        appid=APP_ID,
        app_notify_url="",
        app_private_key_string=alipay_shop.file("app_private_key.pem"),
        app_public_key_cert_string=alipay_shop.file("app_cert.crt"),
        alipay_public_key_cert_string=alipay_shop.file("alipay_cert.crt"),
        alipay_root_cert_string=alipay_shop.file("alipay_root_cert.crt"),
    )
    options = configuration.read(alipay_shop.options(by_certificates=True), utc_now())
    certificates = options.credentials.certificates
    assert certificates is not None
    assert client.app_cert_sn == certificates.app_sn
    assert client.alipay_root_cert_sn == certificates.root_sn


def test_a_signature_of_a_short_message_is_that_of_the_sdk(alipay_shop: AlipayShop) -> None:
    client = sdk_client(alipay_shop, "app_private_key.pem", "alipay_public_key.pem")
    options = configuration.read(alipay_shop.options(), utc_now())
    assert options.credentials.sign({"b": "2", "a": "茶", "c": ""}) == client._sign("a=茶&b=2")
    key: Any = load_pem_private_key(alipay_shop.file("app_private_key.pem").encode(), None)
    assert len(base64.b64decode(options.credentials.sign({"a": "1"}))) == key.key_size // 8


async def test_the_outgoing_client_calls_only_alipay(alipay_shop: AlipayShop) -> None:
    options = configuration.read(alipay_shop.options(), utc_now())
    outgoing = Outgoing(Policy.only("http://127.0.0.1:9/"))
    gateway = AlipayGateway(options, outgoing)
    assert (await gateway.find_payment(ATTEMPT)).status == "UNREACHABLE"
    await gateway.close()
