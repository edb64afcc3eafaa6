"""An administrator adds an Alipay account in three actions, and a customer pays with it."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.db.clock import now_ms
from opentill.gateways import accounts
from opentill.people import Browser as Device
from opentill.sandbox.alipay import keys
from support.alipay_shop import AlipayShop
from support.people import CHEAP_HASH, PASSWORD, TESTER, new_address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def log_in_administrator(browser: Browser, server: Starlette) -> Page:
    """Return a page of a browser in which a new administrator is logged in."""
    app, url, now = server.state.app, server.state.settings.public_url, now_ms()

    async def invite(tx: Any) -> people.NewLink:
        return await people.invite(tx, new_address(), now, staff_role="admin", actor=TESTER)

    link = await app.db.run(invite)
    device = Device("127.0.0.1", "Test")
    login = await people.join(app.db, link.token, "Ada", PASSWORD, device, now, cost=CHEAP_HASH)
    context = await browser.new_context(locale="en-US")
    await context.add_cookies([{"name": "opentill", "value": login.token, "url": url}])
    return await context.new_page()


async def add_account(page: Page, url: str, bank: AlipayShop, label: str) -> str:
    """Choose the gateway and paste the credentials, at first with a wrong key; return the id."""
    await page.goto(f"{url}/console/gateway-accounts")
    # The drawer is no action.
    await page.get_by_role("button", name="Add an account").click()
    # 1. Choose the gateway.
    await page.get_by_role("link", name="Alipay", exact=True).click()
    # 2. Paste the credentials.
    await page.get_by_label("Label").fill(label)
    await page.get_by_label("App ID").fill(keys.APP_ID)
    await page.get_by_text("Other settings").click()
    await page.get_by_label("Address of the API").fill(bank.url)
    for private_key in ("not a key", bank.file("app_private_key.pem")):
        await page.get_by_label("Private key of the application").fill(private_key)
        await page.get_by_label("Alipay’s public key").fill(bank.file("alipay_public_key.pem"))
        await page.get_by_role("button", name="Check and add").click()
        if private_key == "not a key":
            error = page.locator("#secret_private_key-error")
            await expect(error).to_contain_text("is not acceptable")
            await expect(page.locator("#secret_private_key")).to_be_focused()
            await expect(page.locator("#secret_private_key")).to_have_value("")
    await expect(page.locator(".box.good")).to_contain_text("The account is added")
    await expect(page.locator("h1")).to_have_text(label)
    assert "PRIVATE KEY" not in await page.content()
    return str(re.findall(r"gat_\w+", page.url)[0])


async def pay(customer: Page, payment_url: str, bank: AlipayShop) -> None:
    """Choose Alipay on the hosted page, and approve the payment on the phone."""
    await customer.goto(payment_url)
    await customer.fill("[autocomplete=email]", "maria@example.com")
    await customer.click("button[type=submit]")
    await customer.wait_for_url(re.compile(re.escape(bank.bank_url)))
    await asyncio.to_thread(bank.decide, re.findall(r"att_\w+", customer.url)[0])
    for _ in range(60):  # until Alipay's notification has arrived
        await customer.goto(payment_url)
        if "Payment received" in await customer.inner_text("body"):
            break
        await asyncio.sleep(0.5)
    await expect(customer.locator("body")).to_contain_text("Payment received")


@pytest.mark.parametrize("javascript", [True, False])
async def test_a_customer_pays_with_an_account_that_was_added_in_three_actions(
    browser: Browser, page_server: Starlette, alipay_shop: AlipayShop, javascript: bool
) -> None:
    app, url = page_server.state.app, page_server.state.settings.public_url
    label = f"Alipay {'with' if javascript else 'without'} script"
    shop = await app.db.run(
        lambda tx: merchants.create(
            tx, name=f"Tea House, {label}", settlement_currency="CNY", now=now_ms()
        )
    )
    page = await log_in_administrator(browser, page_server)
    account_id = await add_account(page, url, alipay_shop, label)
    # 3. Test it: the payment is bound to the account, though the sandbox bank comes first.
    await page.get_by_role("button", name="Test payment").click()
    await page.get_by_label("Merchant", exact=True).fill(shop.id)
    await page.get_by_role("button", name="Create test payment").click()
    payment_url = await page.get_by_label("Link to the payment page").input_value()
    await page.get_by_role("link", name="View the payment").click()

    context = await browser.new_context(locale="en-US", java_script_enabled=javascript)
    await pay(await context.new_page(), payment_url, alipay_shop)
    await context.close()

    await page.reload()
    await expect(page.locator("main")).to_contain_text("test payment of this account")
    await expect(page.locator("main")).to_contain_text(f"{label} (alipay)")
    await app.db.run(
        lambda tx: accounts.set_status(tx, account_id, "RETIRED", now_ms(), actor=TESTER)
    )
    await page.context.close()
