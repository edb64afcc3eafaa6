"""A browser pays an Epay order, from submit.php through the bank to the signed return."""

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


async def test_a_customer_of_an_epay_shop_returns_with_a_signature(
    browser: Browser, page_server: Starlette
) -> None:
    app = page_server.state.app
    merchant = await app.db.run(
        lambda tx: merchants.create(
            tx, name="Harbour Books", settlement_currency="USD", now=now_ms()
        )
    )
    credentials = await app.db.run(lambda tx: epay.enable(tx, app.settings, merchant.id, now_ms()))
    form = {
        "pid": str(credentials.pid),
        "out_trade_no": "B-1",
        "notify_url": "https://shop.example/notify",
        "return_url": "https://shop.example/back?lang=zh",
        "name": "VIP会员",
        "money": "9.99",
        "money_type": "USD",
        "param": "uid=7",
    }
    signed_form = form | {"sign": signature.sign(form, credentials.key), "sign_type": "MD5"}
    context = await browser.new_context(locale="zh-CN")
    page = await context.new_page()
    requests: list[Request] = []

    async def respond_as_shop(route: Route) -> None:
        requests.append(route.request)
        await route.fulfill(body="thank you", content_type="text/plain")

    await page.route("https://shop.example/**", respond_as_shop)
    await page.goto(f"{app.settings.public_url}/epay/submit.php?{urlencode(signed_form)}")
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
    message = dict(parse_qsl(urlsplit(page.url).query))
    assert message.pop("lang") == "zh"
    assert signature.verify(message, credentials.key)
    fields = ("type", "money", "name", "param", "trade_status")
    assert {name: message[name] for name in fields} == {
        "type": "creditcard",
        "money": "9.99",
        "name": "VIP会员",
        "param": "uid=7",
        "trade_status": "TRADE_SUCCESS",
    }
    assert "referer" not in requests[0].headers  # the payment page's address must not leak
    await context.close()
    # The worker attempts the notification, which must fail because the host is forbidden.
    for _ in range(150):
        async with app.db.connection() as tx:
            rows = await epay.list_notices(tx, merchant.id)
        if rows and rows[0].tries:
            break
        await asyncio.sleep(0.1)
    assert [(row.state, row.tries) for row in rows] == [("WAITING", 1)]


@pytest.fixture
def reset_clock(deployment: Deployment) -> Iterator[None]:
    """Reset the business clock after the test."""
    yield
    deployment.run_checked("clock", "reset")


@pytest.mark.usefixtures("reset_clock")
async def test_an_invoice_link_can_be_paid_after_its_first_session_has_expired(
    browser: Browser, deployment: Deployment
) -> None:
    def run_command(*arguments: str) -> dict[str, str]:
        return dict(json.loads(deployment.run_checked(*arguments, "--json")))

    merchant = await asyncio.to_thread(run_command, "merchants", "create", "Harbour Books")
    credentials = await asyncio.to_thread(run_command, "epay", "enable", merchant["id"])
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
    signed_form = form | {"sign": signature.sign(form, credentials["key"]), "sign_type": "MD5"}
    invoice_url = f"http://127.0.0.1:{deployment.port}/epay/submit.php?{urlencode(signed_form)}"
    context = await browser.new_context(locale="zh-CN")
    page = await context.new_page()
    await page.route("https://shop.example/**", lambda route: route.fulfill(body="thank you"))
    await page.goto(invoice_url)
    await expect(page.locator("body")).to_contain_text("发票 INV-2026-7")
    first_session_url = page.url
    await asyncio.to_thread(run_command, "clock", "advance", "2d", "--yes")
    for _ in range(150):  # repeat until the server has expired the session
        await page.goto(first_session_url)
        if await page.locator("button[type=submit]").count() == 0:
            break
        await asyncio.sleep(0.1)
    await expect(page.locator("h1")).to_contain_text("过期")
    await page.goto(invoice_url)
    assert page.url != first_session_url
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
    await page.goto(invoice_url)  # the customer opens the paid invoice again
    await expect(page.locator("body")).to_contain_text("已支付")
    await context.close()
