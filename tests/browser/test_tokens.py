"""An administrator adds an account on a chain, and a customer pays USDT on the hosted page."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, Page, expect
from starlette.applications import Starlette

from browser.test_gateway_accounts import labeled, log_in_administrator
from opentill import merchants
from opentill.db.clock import now_ms
from opentill.gateways import accounts
from opentill.gateways.evm.addresses import with_checksum
from support.ganache import ACCOUNT_XPUB, CHAIN_ID, Ganache, ganache
from support.people import TESTER

__all__ = ["ganache"]
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def add_account(page: Page, url: str, chain: Ganache) -> str:
    """Choose the gateway and enter the settings, at first with wrong ones; return the id."""
    await page.goto(f"{url}/console/gateway-accounts")
    await page.get_by_role("link", name="Add an account").click()
    await page.get_by_role("link", name="USDT and USDC", exact=True).click()
    await page.get_by_label("Label").fill("Local chain")
    await page.get_by_text("Other settings").click()
    await page.get_by_label("Money", exact=True).select_option("test")
    right = {
        "Number of the chain": str(CHAIN_ID),
        "Tokens": f"USDT:{chain.usdt}:6",
        "Confirmations": "2",
        "Address of the node": chain.url,
        "Extended public key": ACCOUNT_XPUB,
    }
    # A field, a wrong value, and what the field then says: the first two are refused by OpenTill,
    # the others by what the node reports.
    wrong = [
        ("Extended public key", "xprv9s21ZrQH143K", "copied completely"),
        ("Tokens", "USDT:0x1:6", "such as USDT"),
        ("Number of the chain", "31337", "one of the chain 1337, not 31337"),
        ("Tokens", f"USDT:{chain.usdc}:6", "has 18 decimals, not 6"),
    ]
    for field, text, error in [*wrong, ("", "", "")]:
        for name, value in right.items():
            await labeled(page, name).fill(text if name == field else value)
        await page.get_by_role("button", name="Check and add").click()
        if field:
            await expect(labeled(page, field)).to_be_focused()
            await expect(page.locator("main .error").first).to_contain_text(error)
            assert ACCOUNT_XPUB not in await page.content()
    await expect(page.locator(".box.good")).to_contain_text("The account is added")
    return str(re.findall(r"gat_\w+", page.url)[0])


async def test_a_customer_pays_usdt_to_an_account_that_was_added_in_the_console(
    browser: Browser, page_server: Starlette, ganache: Ganache
) -> None:
    app, url = page_server.state.app, page_server.state.settings.public_url
    shop = await app.db.run(
        lambda tx: merchants.create(
            tx, name="Tea House on a chain", settlement_currency="USD", now=now_ms()
        )
    )
    page = await log_in_administrator(browser, page_server)
    account_id = await add_account(page, url, ganache)
    await page.get_by_role("button", name="Test payment").click()
    await page.get_by_label("Merchant", exact=True).fill(shop.id)
    await page.get_by_role("button", name="Create test payment").click()
    payment_url = await page.get_by_label("Link to the payment page").input_value()

    context = await browser.new_context(locale="en-US", java_script_enabled=False)
    customer = await context.new_page()
    await customer.goto(payment_url)
    await customer.fill("[autocomplete=email]", "maria@example.com")
    await customer.click("button[type=submit]")
    await expect(customer.locator("h1")).to_have_text("Send your payment")
    await expect(customer.locator("img.qr")).to_be_visible()
    address = with_checksum(ganache.accounts[0])  # the first one of the wallet
    await expect(customer.locator("code.address")).to_have_text(address)
    amount = await customer.locator("dd", has_text="USDT").inner_text()
    units = round(float(amount.removesuffix(" USDT")) * 10**6)
    await asyncio.to_thread(ganache.transfer, ganache.usdt, address, units)
    await expect(customer.locator("h1")).to_have_text(re.compile("Waiting|Payment"), timeout=60_000)
    for _ in range(60):
        await asyncio.to_thread(ganache.mine)
        await customer.goto(payment_url)
        if "Payment received" in await customer.inner_text("body"):
            break
        await asyncio.sleep(1)
    await expect(customer.locator("body")).to_contain_text("Payment received")
    await context.close()
    await app.db.run(
        lambda tx: accounts.set_status(tx, account_id, "RETIRED", now_ms(), actor=TESTER)
    )
    await page.context.close()
