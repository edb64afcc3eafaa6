"""Alipay's and WeChat Pay's bills are fetched by day, and faults of links and files are refused."""

import asyncio
import gzip
import hashlib
import io
import json
import subprocess
import zipfile
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import alipay as alipay_sdk
import httpx2
import pytest

from gateways.test_wechat_pay_signature import client as wechat_client
from opentill.core import unzip
from opentill.core.errors import ConfigurationError, Invalid
from opentill.gateways import bills
from opentill.gateways.alipay.bills import Downloads
from opentill.gateways.model import Bills
from opentill.outgoing.client import Outgoing, Policy
from opentill.reconciliation.model import Period, Row
from opentill.reconciliation.report import read
from opentill.sandbox import link_tokens
from opentill.sandbox.alipay import APP_ID, SELLER_ID
from opentill.sandbox.wechat_pay import MCHID
from support.alipay_shop import AlipayShop
from support.past_bills import DAY_MS, bounds, move_to_past, yesterday
from support.sandbox_bank import SECRET
from support.wechat_pay_shop import WeChatPayShop

__all__ = ["wechat_client"]
DAY: Final = yesterday()
Shop: TypeAlias = AlipayShop | WeChatPayShop


@pytest.fixture(params=["alipay", "wechat_pay"])
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop of each provider; failed requests are repeated at once."""
    monkeypatch.setattr(bills, "_PAUSES_S", (0.0, 0.0))
    wallet_shop: Shop = request.getfixturevalue(f"{request.param}_shop")
    return wallet_shop


@pytest.fixture
async def gateway(shop: Shop) -> AsyncIterator[Any]:
    """A gateway of the shop."""
    gateway = shop.gateway()
    yield gateway
    await gateway.close()


async def pay_yesterday(shop: Shop, gateway: Any, days_ago: int = 1) -> tuple[str, str, str]:
    """Return a payment of 9.99 yuan, its refund of 4 yuan, and one made at the provider."""
    attempt_id = await shop.pay(gateway)
    refund = shop.refund_request(attempt_id, 400)
    await gateway.refund(refund)
    path = f"/payments/{attempt_id}/refunds"
    made_there = await asyncio.to_thread(shop.api.post, path, json={"amount_minor": 100})
    move_to_past(shop.folder.parent, attempt_id, days_ago)
    return attempt_id, refund.refund_id, made_there.json()["id"]


async def fetch(gateway: Any, first: str = DAY, last: str = DAY) -> list[Row]:
    """Fetch the bills of days and read them as reconciliation does."""
    file = io.BytesIO()
    await gateway.settlement_report(file, bounds(first)[0], bounds(last)[1])
    text = file.getvalue().decode()
    return list(read(io.StringIO(text, newline=""), Period()))


def known_refund(shop: Shop, refund_id: str) -> str:
    """Return the reference by which a bill names a refund that was made at the provider."""
    number = import_module("opentill.sandbox.wechat_pay.orders").refund_number_of(refund_id)
    return number if isinstance(shop, WeChatPayShop) else refund_id


async def test_the_bills_of_days_have_their_payments_and_refunds(shop: Shop, gateway: Any) -> None:
    assert isinstance(gateway, Bills)
    earlier = await pay_yesterday(shop, gateway, 3)
    attempt_id, refund_id, made_there = await pay_yesterday(shop, gateway)
    rows = await fetch(gateway, yesterday(4), DAY)  # two of the four days have no bill
    ours = {
        (row.kind, row.reference): (row.amount_minor, row.currency)
        for row in rows
        if row.reference in {*earlier[:2], attempt_id, refund_id, known_refund(shop, made_there)}
    }
    assert ours == {
        ("payment", earlier[0]): (999, "CNY"),
        ("refund", earlier[1]): (400, "CNY"),
        ("payment", attempt_id): (999, "CNY"),
        ("refund", refund_id): (400, "CNY"),
        ("refund", known_refund(shop, made_there)): (100, "CNY"),
    }
    first, last = bounds(DAY)
    (row,) = (row for row in rows if row.reference == attempt_id)
    assert first <= row.settled_at <= last
    only_yesterday = {row.reference for row in await fetch(gateway)}
    assert attempt_id in only_yesterday
    assert earlier[0] not in only_yesterday


async def test_days_without_a_bill_count_as_empty_only_a_day_later(
    shop: Shop, gateway: Any
) -> None:
    old = yesterday(90)
    assert await fetch(gateway, old, yesterday(80)) == []
    await pay_yesterday(shop, gateway)
    shop.inject_fault("bill", "not_ready", match=DAY, times=2)
    assert await fetch(gateway)  # a bill that comes late is fetched again
    shop.inject_fault("bill", "not_ready", match=DAY, times=3)
    with pytest.raises(ConfigurationError, match=rf"bill of {DAY}.*half an hour"):
        await fetch(gateway)
    assert shop.api.get("/faults").json() == []  # it was tried three times
    with pytest.raises(ConfigurationError, match="does not return the bill"):
        await fetch(gateway, yesterday(0), yesterday(0))
    with pytest.raises(Invalid, match="from must be a day"):
        await gateway.settlement_report(io.BytesIO())


RESPONSE_FAULTS: Final = ("timeout_after", "error_500", "wrong_signature")


@pytest.mark.parametrize("kind", RESPONSE_FAULTS)
async def test_a_failed_query_of_a_link_is_repeated(shop: Shop, kind: str) -> None:
    gateway: Any = shop.gateway(timeout_s=0.5)
    await pay_yesterday(shop, gateway)
    shop.inject_fault("bill", kind, times=2)
    assert await fetch(gateway)
    shop.inject_fault("bill", kind, times=3)
    with pytest.raises(ConfigurationError, match=rf"bill of {DAY} was not received"):
        await fetch(gateway)
    await gateway.close()


# Each row: fault of the file, error at Alipay and at WeChat Pay; "" if the provider notices it by
# another fault
FILE_FAULTS: Final = [
    ("error_500", "HTTP 500", "HTTP 500"),
    ("reset", "complete|closed", "complete|closed"),
    ("cut_half", "complete|closed", "complete|closed"),
    ("only_half", "cannot be unpacked", "cannot be unpacked"),
    ("redirect", "HTTP 302", "HTTP 302"),
    ("bomb", "larger than can be read", "larger than can be read"),
    ("other_content", "cannot be unpacked", "its SHA-1 differs"),
]


@pytest.mark.parametrize(("kind", "at_alipay", "at_wechat_pay"), FILE_FAULTS)
async def test_a_file_that_is_not_the_bill_is_refused(
    shop: Shop, gateway: Any, kind: str, at_alipay: str, at_wechat_pay: str
) -> None:
    await pay_yesterday(shop, gateway)
    shop.inject_fault("bill_file", kind, match=DAY, times=3)
    expected = at_alipay if isinstance(shop, AlipayShop) else at_wechat_pay
    with pytest.raises(ConfigurationError, match=expected):
        await fetch(gateway)
    shop.api.delete("/faults")
    assert await fetch(gateway)


@pytest.mark.parametrize("kind", ["cut_half", "only_half"])
async def test_a_bill_that_is_cut_midway_is_downloaded_again_and_no_row_is_doubled(
    shop: Shop, gateway: Any, kind: str
) -> None:
    """The connection ends after half of the file, with or without an announced length."""
    await pay_yesterday(shop, gateway, 3)
    await pay_yesterday(shop, gateway)
    whole = await fetch(gateway, yesterday(4), DAY)
    shop.inject_fault("bill_file", kind, match=DAY, times=2)
    assert await fetch(gateway, yesterday(4), DAY) == whole
    assert shop.api.get("/faults").json() == []  # both were cut


async def test_a_bill_of_another_day_or_with_other_columns_is_refused(
    alipay_shop: AlipayShop, wechat_pay_shop: WeChatPayShop
) -> None:
    alipay: Any = alipay_shop.gateway()
    await pay_yesterday(alipay_shop, alipay)
    alipay_shop.inject_fault("bill", "other_day", match=DAY)
    with pytest.raises(ConfigurationError, match=rf"bill of {DAY} cannot be read: it begins on 2"):
        await fetch(alipay)
    await alipay.close()
    joined = bills.JoinedBills(io.BytesIO())
    joined.begin_bill("a,b")
    with pytest.raises(ConfigurationError, match="other columns"):
        joined.begin_bill("a,c", next(bills.days(0, 0)))
    assert wechat_pay_shop.api.get("/v3/bill/tradebill").status_code == 401  # it is not signed


async def test_a_link_expires_after_half_a_minute(shop: Shop) -> None:
    old, now = 1_000_000, 1_000_000 + link_tokens.LINK_S
    token = link_tokens.token_of("key", DAY, old)
    assert link_tokens.day_of("key", token, now) == DAY
    assert link_tokens.day_of("key", token, now + 1) == ""
    assert link_tokens.day_of("other", token, now) == ""
    page = httpx2.get(
        f"{shop.bank_url}/alipay/downloadBillFile.resource",
        params={"bizType": "trade", "token": link_tokens.token_of(SECRET, DAY, old)},
        trust_env=False,
    )
    if isinstance(shop, AlipayShop):
        assert (page.status_code, "下载超时" in page.text) == (200, True)


@pytest.mark.parametrize(
    ("api", "link", "address"),
    [
        ("https://openapi.alipay.com/gateway.do", "http://dwbillcenter.alipay.com/f?a=b%2F",
         "https://dwbillcenter.alipay.com/f?a=b%2F"),
        ("https://openapi.alipay.com/gateway.do", "https://dwbillcenter.alipay.com/f",
         "https://dwbillcenter.alipay.com/f"),
        ("https://openapi.alipay.com/gateway.do", "https://evilalipay.com/f", ""),
        ("https://openapi.alipay.com/gateway.do", "https://alipay.com.evil.example/f", ""),
        ("https://openapi.alipay.com/gateway.do", "https://user@dwbillcenter.alipay.com/", ""),
        ("https://openapi.alipay.com/gateway.do", "http://dwbillcenter.alipay.com:8080/f", ""),
        ("https://openapi.alipay.com/gateway.do", "http://127.0.0.1/f", ""),
        ("https://openapi.alipay.com/gateway.do", "", ""),
        ("http://127.0.0.1:9911/alipay/gateway.do", "http://127.0.0.1:9911/alipay/bill",
         "http://127.0.0.1:9911/alipay/bill"),
        ("http://127.0.0.1:9911/alipay/gateway.do", "http://127.0.0.1:9912/alipay/bill", ""),
        ("http://127.0.0.1:9911/alipay/gateway.do", "https://dwbillcenter.alipay.com/f", ""),
    ],
)  # fmt: skip
def test_links_lead_only_to_alipays_hosts_and_by_https(api: str, link: str, address: str) -> None:
    own, public = Outgoing(Policy.only(api)), Outgoing(Policy())
    downloads = Downloads(api, own, public)
    if not address:
        with pytest.raises(ConfigurationError, match="link to a bill is refused"):
            downloads.choose(link)
        return
    client, url = downloads.choose(link)
    assert (client is own, url) == (api.startswith("http:"), address)
    client.check(url)  # the client's policy allows it


def test_days_are_those_of_china() -> None:
    start = 1_795_708_800_000  # 2026-11-27 00:00 in China
    (day,) = bills.days(start, start + DAY_MS - 1)
    assert (day.name, day.start_ms, day.end_ms) == ("2026-11-27", start, start + DAY_MS)
    names = [each.name for each in bills.days(start - 1, start + DAY_MS)]
    assert names == ["2026-11-26", "2026-11-27", "2026-11-28"]


# ── other implementations fetch and unpack the same bills ──


def unpack_by_program(content: bytes, path: Path, *command: str) -> bytes:
    """Return what a program of the system unpacks."""
    path.write_bytes(content)
    return subprocess.run([*command, str(path)], check=True, capture_output=True).stdout


async def test_alipays_other_client_gets_the_archive_that_we_read(
    alipay_shop: AlipayShop, tmp_path: Path
) -> None:
    gateway: Any = alipay_shop.gateway()
    attempt_id, refund_id, _ = await pay_yesterday(alipay_shop, gateway)
    client = alipay_sdk.AliPay(
        appid=APP_ID,
        app_notify_url="",
        app_private_key_string=alipay_shop.file("app_private_key.pem"),
        alipay_public_key_string=alipay_shop.file("alipay_public_key.pem"),
    )
    client._gateway = alipay_shop.url

    def download(bill_type: str) -> bytes:
        answer = client.server_api(
            "alipay.data.dataservice.bill.downloadurl.query",
            {"bill_type": bill_type, "bill_date": DAY},
        )
        return httpx2.get(answer["bill_download_url"], trust_env=False).content

    content = await asyncio.to_thread(download, "trade")
    names = [
        name.encode("cp437").decode("gbk")
        for name in zipfile.ZipFile(io.BytesIO(content)).namelist()
    ]
    stem = f"{SELLER_ID}0156_{DAY.replace('-', '')}_业务明细"
    assert names == [f"{stem}.csv", f"{stem}(汇总).csv"]
    text = unpack_by_program(content, tmp_path / "bill.zip", "unzip", "-p").decode("gb18030")
    stated = Period()
    rows = list(read(io.StringIO(text.partition("#支付宝业务明细汇总")[0], newline=""), stated))
    assert rows_of(rows) == rows_of(await fetch(gateway))
    assert {(row.kind, row.reference) for row in rows} >= {
        ("payment", attempt_id), ("refund", refund_id),
    }  # fmt: skip
    assert (stated.account, stated.since, stated.until) == (SELLER_ID, *bounds(DAY))
    funds = await asyncio.to_thread(download, "signcustomer")
    text = unpack_by_program(funds, tmp_path / "funds.zip", "unzip", "-p").decode("gb18030")
    assert text.startswith("#支付宝账务明细查询")
    assert f"{attempt_id}\t" in text
    await gateway.close()


async def test_wechat_pays_other_client_gets_the_file_that_we_read(
    wechat_pay_shop: WeChatPayShop, wechat_client: Any, tmp_path: Path
) -> None:
    gateway: Any = wechat_pay_shop.gateway()
    attempt_id, refund_id, _ = await pay_yesterday(wechat_pay_shop, gateway)

    def download(ask: Callable[..., Any], **options: str) -> bytes:
        code, answer = ask(DAY, **options)
        assert code == 200, answer
        link = json.loads(answer)
        path = link["download_url"].removeprefix(wechat_pay_shop.bank_url)
        code, content = wechat_client.download_bill(path)
        assert code == 200, content
        if options.get("tar_type") == "GZIP":
            content = unpack_by_program(content, tmp_path / "bill.gz", "gzip", "-dc")
        assert hashlib.sha1(content, usedforsecurity=False).hexdigest() == link["hash_value"]
        text: bytes = content
        return text

    texts = [
        await asyncio.to_thread(download, wechat_client.trade_bill, tar_type=tar_type)
        for tar_type in ("GZIP", "")
    ]
    assert texts[0] == texts[1]
    stated = Period()
    rows = list(read(io.StringIO(texts[0].decode("utf-8-sig"), newline=""), stated))
    assert rows_of(rows) == rows_of(await fetch(gateway))
    assert {(row.kind, row.reference) for row in rows} >= {
        ("payment", attempt_id), ("refund", refund_id),
    }  # fmt: skip
    assert stated.account == MCHID
    for bill_type, kinds in (("SUCCESS", {"payment"}), ("REFUND", {"refund"})):
        part = await asyncio.to_thread(
            download, wechat_client.trade_bill, bill_type=bill_type, tar_type="GZIP"
        )
        part_rows = list(read(io.StringIO(part.decode("utf-8-sig"), newline=""), Period()))
        assert {row.kind for row in part_rows} == kinds
    funds = await asyncio.to_thread(download, wechat_client.fundflow_bill, tar_type="GZIP")
    assert f"`{attempt_id}" in funds.decode()
    await gateway.close()


def rows_of(rows: list[Row]) -> list[tuple[str, str, int, int]]:
    return [(row.kind, row.reference, row.amount_minor, row.settled_at) for row in rows]


def test_gzip_files_are_read_whole_and_bounded() -> None:
    def unpack(content: bytes, most: int) -> bytes:
        with unzip.open_gunzipped(io.BytesIO(content), most) as file:
            return file.read()

    text = b"0123456789abcdef" * 8
    assert unpack(gzip.compress(text), 1000) == text
    assert unpack(gzip.compress(text[:64]) + gzip.compress(text[64:]), 1000) == text
    assert unpack(text, 1) == text  # it is not compressed
    for content, reason in (
        (gzip.compress(text), "larger than can be read"),
        (gzip.compress(text)[:-3], "cannot be unpacked"),
        (b"\x1f\x8b" + text, "cannot be unpacked"),
    ):
        with pytest.raises(Invalid, match=reason):
            unpack(content, 100 if reason.startswith("larger") else 1000)
