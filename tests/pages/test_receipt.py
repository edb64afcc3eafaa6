"""A paid session has a receipt, as a page for anybody with the link and as a PDF."""

import asyncio
import os
import re
import signal
import sys
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboard.pages import text_of
from opentill import disputes, merchants, orders
from opentill.core.errors import Unavailable
from opentill.db.database import Tx
from opentill.gateways.model import Card
from opentill.receipts import pdf
from opentill.receipts.pdf_workers import Failed, Limits, PdfCache, PdfWorkers
from support import world
from support.api_server import ApiServer, Shop
from support.pdf_streams import streams_of
from support.people import TESTER, create_person


def _path(order: dict[str, Any]) -> str:
    return f"/receipt/{order['checkoutSessionId']}"


def _create_paid_order(shop: Shop, **changes: Any) -> dict[str, Any]:
    return shop.create_paid_order(
        **{"customerEmail": "annabel@example.com", "customerName": "Bel Tide"} | changes
    )


def test_a_receipt_shows_the_payment_and_masks_the_e_mail(
    api_server: ApiServer, shop: Shop
) -> None:
    order = _create_paid_order(shop)
    refund = shop.refund(order["id"], amount="1.00")
    shop.report_refund(refund["id"])
    response = api_server.http.get(_path(order))
    assert response.status_code == 200
    page = response.text
    number = orders.receipt_number(order["id"])
    for text in (order["id"], number, "Harbour Books", "$9.99", "$1.00", "$8.99", "Test mode"):
        assert text in page
    assert "annabel" not in page
    assert "Bel Tide" not in page  # everybody with the address can open the page
    assert "a•••@example.com" in page
    assert response.headers["x-robots-tag"] == "noindex, nofollow"
    assert response.headers["cache-control"] == "no-store"
    assert _path(order) in api_server.http.get(f"/checkout{_path(order)[8:]}?hold=1").text


def test_a_receipt_shows_what_a_lost_dispute_took_back(api_server: ApiServer, shop: Shop) -> None:
    order = _create_paid_order(shop)
    dispute = shop.open_dispute(order["id"])
    own_page = f"/dashboard/{shop.id}/payments/{order['id']}/receipt"
    owner = create_person(api_server, shop.id, "owner")
    for path, visitor in ((_path(order), api_server.http), (own_page, owner)):
        assert "Chargeback" not in visitor.get(path).text
    key, now = (shop.id, dispute.id), api_server.app.clock()
    api_server.tx(lambda tx: disputes.decide(tx, *key, "lost", who="op", reason="bank", now=now))
    page = text_of(api_server.http.get(_path(order)))
    assert re.search(r"Total paid \$9\.99 USD Chargeback on \S.*? -\$9\.99", page)
    assert "Total after chargeback $0.00 USD" in page
    page = text_of(owner.get(own_page))
    assert re.search(r"\$9\.99 Paid on .*Chargeback, \S.*? -\$9\.99", page)
    assert "Paid after chargeback $0.00" in page
    content = api_server.http.get(f"{_path(order)}.pdf").content
    assert b"Total after chargeback" in b"".join(streams_of(content))


def test_times_are_in_the_zones_of_shop_and_customer(api_server: ApiServer, shop: Shop) -> None:
    now = api_server.app.clock()
    api_server.tx(
        lambda tx: merchants.change_profile(
            tx, shop.id, {"time_zone": "Asia/Kathmandu"}, now, actor=TESTER
        )
    )
    order = _create_paid_order(shop)

    def zones(query: str = "", language: str = "en") -> set[str]:
        page = api_server.http.get(_path(order) + query, headers={"accept-language": language})
        return set(re.findall(r"\(([A-Z]\w+/\w+)\)", page.text))

    assert zones() == {"Asia/Kathmandu"}
    assert zones(language="fr-BE") == {"Asia/Kathmandu", "Europe/Brussels"}
    assert zones("?zone=Asia/Tokyo", "fr-BE") == {"Asia/Kathmandu", "Asia/Tokyo"}
    page_with_error = api_server.http.get(_path(order) + "?zone=Mars/Base&lang=en").text
    assert 'aria-invalid="true"' in page_with_error
    assert 'value="Mars/Base"' in page_with_error


def test_the_receipt_shows_the_last_digits_of_the_card(api_server: ApiServer, shop: Shop) -> None:
    order = shop.create_order()

    async def pay(tx: Tx) -> None:
        attempt = await world.submit_attempt(tx, await orders.find(tx, shop.id, order["id"]))
        await world.report_payment(tx, attempt, "SUCCEEDED", card=Card(brand="visa", last4="0005"))

    api_server.tx(pay)
    assert "<bdi>Visa ••••\N{NO-BREAK SPACE}0005</bdi>" in api_server.http.get(_path(order)).text
    assert api_server.http.get(f"{_path(order)}.pdf?lang=en").content.startswith(b"%PDF-")


@pytest.mark.parametrize("suffix", ["", ".pdf"])
def test_an_unpaid_or_unknown_session_has_no_receipt(
    api_server: ApiServer, shop: Shop, suffix: str
) -> None:
    for path in (_path(shop.create_order()), "/receipt/cs_" + "0" * 32):
        assert api_server.http.get(path + suffix).status_code == 404


def test_the_pdf_shows_the_order_and_masks_the_e_mail(api_server: ApiServer, shop: Shop) -> None:
    order = _create_paid_order(shop)
    response = api_server.http.get(_path(order) + ".pdf")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/pdf"
    assert response.content.startswith(b"%PDF-")
    streams = re.findall(rb"FlateDecode.*?stream\n(.*?)\nendstream", response.content, re.DOTALL)
    text = b"".join(map(zlib.decompress, streams))
    assert order["id"].encode() in text
    assert b"annabel" not in text
    assert b"Bel Tide" not in text


def test_the_merchants_pdf_shows_the_customers_name_and_whole_e_mail(shop: Shop) -> None:
    server, order = shop.api_server, _create_paid_order(shop)
    support = create_person(server, shop.id, "support")
    path = f"/dashboard/{shop.id}/payments/{order['id']}/receipt"
    assert f'href="{path}.pdf"' in support.get(path).text
    response = support.get(f"{path}.pdf")
    assert response.headers["content-type"] == "application/pdf"
    number = orders.receipt_number(order["id"])
    assert f"receipt-{number}.pdf" in response.headers["content-disposition"]
    text = b"".join(streams_of(response.content))
    for part in ("Bel Tide", "annabel@example.com", number):
        assert part.encode() in text, part
    unpaid = shop.create_order()
    assert support.get(path.replace(order["id"], unpaid["id"]) + ".pdf").status_code == 404
    developer = create_person(server, shop.id, "developer")
    other_shop = server.create_shop()
    stranger = create_person(server, other_shop.id, "owner")
    assert developer.get(f"{path}.pdf").status_code == developer.get(path).status_code
    assert stranger.get(f"{path}.pdf").status_code == 404


def test_a_receipt_is_in_german_as_a_page_and_as_a_pdf(api_server: ApiServer, shop: Shop) -> None:
    order = _create_paid_order(shop)
    german = {"accept-language": "de-DE,de;q=0.9"}
    page = api_server.http.get(_path(order), headers=german)
    assert page.headers["content-language"] == "de"
    assert "Zahlungsbeleg" in page.text
    response = api_server.http.get(_path(order) + ".pdf", headers=german)
    assert response.content.startswith(b"%PDF-")
    streams = re.findall(rb"FlateDecode.*?stream\n(.*?)\nendstream", response.content, re.DOTALL)
    assert b"Insgesamt bezahlt" in b"".join(map(zlib.decompress, streams))


def test_a_receipt_whose_characters_no_font_has_is_shown_without_a_pdf(
    api_server: ApiServer, shop: Shop
) -> None:
    app = api_server.app
    before = app.settings
    app.settings = msgspec.structs.replace(before, receipt_font=app.settings.data_dir / "none.ttf")
    try:
        product = shop.create_product(name="茶")["id"]
        order = _create_paid_order(shop, product_id=product)
        response = api_server.http.get(_path(order) + ".pdf", follow_redirects=True)
    finally:
        app.settings = before
    assert response.status_code == 200
    assert "This receipt is not available as a PDF" in response.text


# This PDF worker hangs if the sheet is the path of a file, after it has appended a line to the
# file: its process id, and how many earlier workers are still running. It draws other sheets
# immediately.
FAKE_WORKER = """
import os, pathlib, sys, time
source, target = sys.stdin.buffer, sys.stdout.buffer
while length := source.read(4):
    sheet = source.read(int.from_bytes(length, "big")).decode()
    if sheet.startswith("/"):
        with pathlib.Path(sheet).open("a+") as file:
            file.seek(0)
            others = sum(os.path.exists(f"/proc/{line.split()[0]}") for line in file)
            file.write(f"{os.getpid()} {others}\\n")
        time.sleep(60)
    if sheet == "dies":
        sys.exit("no paper")
    pid = str(os.getpid()).encode()
    target.write(bytes([int(sheet == "fails")]) + len(pid).to_bytes(4, "big") + pid + b"+")
    target.flush()
"""
COMMAND = [sys.executable, "-I", "-S", "-c", FAKE_WORKER]


async def test_a_worker_that_hangs_is_killed_and_sheets_over_the_limit_are_refused(
    tmp_path: Path,
) -> None:
    workers = PdfWorkers(COMMAND, Limits(at_once=2, most=3, each=3, timeout_s=5))
    pids = tmp_path / "pids"
    draws = [workers.draw("cs_1", str(pids).encode()) for _ in range(5)]
    results = await asyncio.gather(*draws, return_exceptions=True)
    assert [type(result) for result in results] == [Unavailable] * 5
    assert sum("too many receipts" in str(result) for result in results) == 2
    # The first two sheets use all PDF workers. The third sheet gets a worker only if it times out a
    # moment later than the first two.
    runs = [line.split() for line in pids.read_text().splitlines()]
    assert runs
    assert {other_workers for _, other_workers in runs} <= {"0", "1"}, (
        "at most two workers run at once"
    )
    async with asyncio.timeout(30):
        while any(Path(f"/proc/{pid}").exists() for pid, _ in runs):
            await asyncio.sleep(0.01)
        workers._limits = Limits()
        status, _ = await workers.draw("cs_1", b"at once")
    assert status == 0
    workers.close()


async def test_a_worker_is_reused_and_replaced_if_it_was_closed_or_killed() -> None:
    """The PDF of the fake PDF worker consists of its process id."""
    workers = PdfWorkers(COMMAND)
    first_pid = await workers.draw("cs_1", b"one")
    assert await workers.draw("cs_2", b"two") == first_pid
    workers.close()
    second_pid = await workers.draw("cs_3", b"three")
    assert second_pid != first_pid
    os.kill(int(second_pid[1]), signal.SIGKILL)  # the kernel does this when memory runs out
    async with asyncio.timeout(10):
        while workers._idle[0].is_running():
            await asyncio.sleep(0.01)
    assert (await workers.draw("cs_4", b"four"))[0] == 0
    workers.close()


@pytest.mark.parametrize("sheet", [b"dies", b"fails"])
async def test_a_worker_that_fails_reports_a_reason_and_the_next_sheet_is_drawn(
    sheet: bytes,
) -> None:
    workers = PdfWorkers(COMMAND)
    with pytest.raises(Failed) as failure:
        await workers.draw("cs_1", sheet)
    assert str(failure.value)
    assert (await workers.draw("cs_1", b"another"))[0] == 0
    workers.close()


async def test_requests_for_one_receipt_leave_room_for_others(tmp_path: Path) -> None:
    """Requests for one receipt in every time zone must not fill the queue."""
    workers = PdfWorkers(COMMAND, Limits(at_once=2, most=16, each=1, timeout_s=3))
    hanging_draw = asyncio.create_task(workers.draw("cs_1", str(tmp_path / "pids").encode()))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await workers.draw("cs_1", b"another zone")
    assert (await workers.draw("cs_2", b"another receipt"))[0] == 0
    with pytest.raises(Unavailable):
        await hanging_draw
    workers.close()


def test_the_cache_drops_the_least_recently_used_pdfs() -> None:
    cache = PdfCache(most_bytes=10, each=2)
    for number in range(3):
        cache.add("cs_1", bytes([number]), b"123")
    assert [cache.find("cs_1", bytes([number])) for number in range(3)] == [None, b"123", b"123"]
    cache.add("cs_2", b"x", b"1234")
    assert cache.find("cs_1", b"\x02") == b"123"
    cache.add("cs_3", b"y", b"1")
    assert cache.find("cs_2", b"x") is None  # cs_2 was the least recently used
    assert cache.find("cs_1", b"\x02") == b"123"
    cache.add("cs_4", b"z", b"12345678901")
    assert cache.find("cs_4", b"z") is None  # the PDF is larger than the cache


def test_a_receipt_is_drawn_once_until_its_order_changes(
    api_server: ApiServer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = _create_paid_order(shop)
    drawn = api_server.http.get(_path(order) + ".pdf")
    assert drawn.status_code == 200
    with monkeypatch.context() as broken:
        broken.setattr(pdf, "_PAGE_WORKERS", PdfWorkers([sys.executable], Limits(most=0)))
        for _ in range(40):  # the limit does not apply to cached PDFs
            assert api_server.http.get(_path(order) + ".pdf").content == drawn.content
        shop.report_refund(shop.refund(order["id"], amount="1.00")["id"])
        assert api_server.http.get(_path(order) + ".pdf").status_code == 503
    redrawn = api_server.http.get(_path(order) + ".pdf")
    assert redrawn.status_code == 200
    assert redrawn.content != drawn.content


def test_a_receipt_over_the_limit_gets_503_and_a_time_to_retry(
    api_server: ApiServer, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "_PAGE_WORKERS", PdfWorkers([sys.executable], Limits(most=0)))
    response = api_server.http.get(_path(_create_paid_order(shop)) + ".pdf")
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert "be right back" in response.text
