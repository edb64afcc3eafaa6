"""An Epay order in a browser: from submit.php over the bank to the signed return."""

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.async_api import Browser, Request, Route, expect
from starlette.applications import Starlette

from opentill import epay, merchants
from opentill.db.clock import now_ms
from opentill.gateways.epay import signature
from support.deployment import Deployment

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_customer_who_comes_by_epay_returns_with_a_sign(
    browser: Browser, page_server: Starlette
) -> None:
    state = page_server.state.app
    merchant = await state.db.run(
        lambda tx: merchants.create(
            tx, name="Harbour Books", settlement_currency="USD", now=now_ms()
        )
    )
    door = await state.db.run(lambda tx: epay.enable(tx, state.settings, merchant.id, now_ms()))
    form = {
        "pid": str(door.pid),
        "out_trade_no": "B-1",
        "notify_url": "https://shop.example/notify",
        "return_url": "https://shop.example/back?lang=zh",
        "name": "VIP会员",
        "money": "9.99",
        "money_type": "USD",
        "param": "uid=7",
    }
    signed = form | {"sign": signature.sign(form, door.key), "sign_type": "MD5"}
    context = await browser.new_context(locale="zh-CN")
    page = await context.new_page()
    back: list[Request] = []

    async def shop(route: Route) -> None:
        back.append(route.request)
        await route.fulfill(body="thank you", content_type="text/plain")

    await page.route("https://shop.example/**", shop)
    await page.goto(f"{state.settings.public_url}/epay/submit.php?{urlencode(signed)}")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    await expect(page.locator("body")).to_contain_text("VIP会员")
    assert "shop.example" not in await page.content()
    await page.fill("[autocomplete=email]", "maria@example.com")
    await page.check("[value=CREDIT_CARD]")
    await page.click("button[type=submit]")
    await page.fill("[autocomplete=cc-number]", "4242 4242 4242 4242")
    await page.fill("[autocomplete=cc-exp]", "12/34")
    await page.fill("[autocomplete=cc-csc]", "123")
    await page.click("button")
    await page.wait_for_url("https://shop.example/**", timeout=60_000)
    got = dict(parse_qsl(urlsplit(page.url).query))
    assert got.pop("lang") == "zh"
    assert signature.verify(got, door.key)
    told = {name: got[name] for name in ("type", "money", "name", "param", "trade_status")}
    assert told == {
        "type": "creditcard",
        "money": "9.99",
        "name": "VIP会员",
        "param": "uid=7",
        "trade_status": "TRADE_SUCCESS",
    }
    assert "referer" not in back[0].headers  # the page's address is the customer's secret
    await context.close()
    for _ in range(150):  # the worker has tried the notice, which must not leave for nowhere
        async with state.db.connection() as tx:
            rows = await epay.list_notices(tx, merchant.id)
        if rows and rows[0].tries:
            break
        await asyncio.sleep(0.1)
    assert [(row.state, row.tries) for row in rows] == [("WAITING", 1)]


@pytest.fixture
def real_time_again(deployment: Deployment) -> Iterator[None]:
    """Afterwards, for whoever is next."""
    yield
    deployment.done("clock", "reset")


@pytest.mark.usefixtures("real_time_again")
async def test_an_invoice_that_a_customer_opens_again_after_two_days_can_be_paid(
    browser: Browser, deployment: Deployment
) -> None:
    def command(*words: str) -> dict[str, str]:
        return dict(json.loads(deployment.done(*words, "--json")))

    merchant = await asyncio.to_thread(command, "merchants", "create", "Harbour Books")
    credentials = await asyncio.to_thread(command, "epay", "enable", merchant["id"])
    form = {
        "pid": str(credentials["pid"]),
        "out_trade_no": "INV-2026-7",
        "notify_url": "https://shop.example/notify",
        "return_url": "https://shop.example/back",
        "name": "发票 INV-2026-7",
        "money": "9.99",
        "money_type": "USD",
        "type": "creditcard",
    }
    signed = form | {"sign": signature.sign(form, credentials["key"]), "sign_type": "MD5"}
    invoice = f"http://127.0.0.1:{deployment.port}/epay/submit.php?{urlencode(signed)}"
    context = await browser.new_context(locale="zh-CN")
    page = await context.new_page()
    await page.route("https://shop.example/**", lambda route: route.fulfill(body="thank you"))
    await page.goto(invoice)
    await expect(page.locator("body")).to_contain_text("发票 INV-2026-7")
    first = page.url
    await asyncio.to_thread(command, "clock", "advance", "2d", "--yes")
    for _ in range(150):  # the server follows within a second, and ends the session
        await page.goto(first)
        if await page.locator("button[type=submit]").count() == 0:
            break
        await asyncio.sleep(0.1)
    await expect(page.locator("h1")).to_contain_text("过期")
    await page.goto(invoice)
    assert page.url != first
    assert "/checkout/" in page.url
    await page.click("button[type=submit]")
    await page.fill("[autocomplete=cc-number]", "4242 4242 4242 4242")
    await page.fill("[autocomplete=cc-exp]", "12/34")
    await page.fill("[autocomplete=cc-csc]", "123")
    await page.click("button")
    await page.wait_for_url("https://shop.example/**", timeout=60_000)
    message = dict(parse_qsl(urlsplit(page.url).query))
    assert signature.verify(message, credentials["key"])
    assert (message["out_trade_no"], message["trade_status"]) == ("INV-2026-7", "TRADE_SUCCESS")
    await page.goto(invoice)  # the customer comes by the invoice once more
    await expect(page.locator("body")).to_contain_text("已支付")
    await context.close()
