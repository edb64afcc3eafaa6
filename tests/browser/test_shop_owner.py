"""A new owner can do everything in a browser, with and without scripts.

The owner accepts the invitation and the agreement, refunds a payment, replaces an API key and tests
a webhook endpoint.
"""

from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect
from starlette.applications import Starlette

from browser.page_members import create_merchant, follow_menu, join
from support.books import ledger_violations
from support.webhook_receiver import receiving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
TIMEOUT_MS: Final = 60_000


async def _press_button(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def _accept_agreement(page: Page) -> None:
    await follow_menu(page, "Agreement")
    await page.get_by_role("checkbox").check()
    await page.locator("main form button[type=submit]").click()
    await expect(page.get_by_role("heading", name="is accepted")).to_be_visible()


async def _open_session(page: Page) -> str:
    """Create a product and open a session for it; return the address of the payment page."""
    await follow_menu(page, "Products")
    await page.get_by_role("button", name="Add a product").first.click()
    await page.get_by_label("Name", exact=True).fill("Tea, 100 g")
    await page.get_by_label("Price").fill("9.99")
    await page.get_by_label("Currency").select_option("USD")
    await _press_button(page, "Add the product")
    await (
        page.get_by_role("link", name="Tea, 100 g")
        .or_(page.get_by_role("heading", name="Tea, 100 g", level=1))
        .first.wait_for()
    )
    if await page.get_by_role("heading", name="Tea, 100 g", level=1).count() == 0:
        await page.get_by_role("link", name="Tea, 100 g").click()
    await page.get_by_title("More actions").click()
    await _press_button(page, "Create a checkout session")
    await _press_button(page, "Create the session")
    return await page.locator("#link").input_value()


async def _pay(page: Page, link: str) -> None:
    """Pay by card on the payment page."""
    await page.goto(link)
    await page.fill("[autocomplete=email]", "maria@example.com")
    await page.check("[value=CREDIT_CARD]")
    await page.click("button[type=submit]")
    await page.fill("[autocomplete=cc-number]", "4242 4242 4242 4242")
    await page.fill("[autocomplete=cc-exp]", "12/34")
    await page.fill("[autocomplete=cc-csc]", "123")
    await page.click("button")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=TIMEOUT_MS)


async def _refund(page: Page, *, scripts: bool) -> None:
    """Find the payment by the customer's address, and refund a part of it."""
    await follow_menu(page, "Payments")
    await page.get_by_role("searchbox", name="Search payments").fill("maria@example.com")
    await page.get_by_role("searchbox", name="Search payments").press("Enter")
    await page.wait_for_url("**query=maria*")
    await page.locator("a[href*='/payments/order_']").first.click()
    await page.get_by_role("link", name="Refund", exact=True).click()
    dialog = page.get_by_role("dialog", name="Refund payment")
    if scripts:
        await expect(page.locator("dialog:modal")).to_have_count(1)  # its script has run
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await page.get_by_role("link", name="Refund", exact=True).click()
        await expect(page.locator("dialog:modal")).to_have_count(1)
        await dialog.get_by_label("Amount to refund").fill("999")
        await expect(dialog).to_contain_text("You can refund at most")
    else:
        await dialog.get_by_label("Reason").select_option("other")
        await dialog.get_by_label("Details").fill("broken lid")
    await dialog.get_by_label("Amount to refund").fill("2.00")
    if not scripts:
        await dialog.get_by_role("button", name="Update").click()
        await expect(dialog.get_by_label("Reason")).to_have_value("other")
        await expect(dialog.get_by_label("Details")).to_have_value("broken lid")
    await dialog.get_by_role("button", name="Refund $2.00").click()
    await expect(page.locator("main")).to_contain_text("refund of $2.00")


async def _replace_key(page: Page) -> tuple[str, str]:
    """Create an API key and replace it; return the old and the new key."""
    await follow_menu(page, "Developers")
    await page.get_by_role("main").get_by_role("link", name="Create API key").click()
    await page.get_by_label("Name", exact=True).fill("Shop")
    await page.locator("#create").get_by_role("button", name="Create API key").click()
    old_key = await page.locator("#secret").input_value()
    await page.get_by_role("link", name="Shop", exact=True).click()
    await _press_button(page, "Replace")
    confirmation = await page.locator("label[for=replace] code").inner_text()
    await page.locator("#replace").fill(confirmation)
    await _press_button(page, "Replace key")
    return old_key, await page.locator("#secret").input_value()


async def _send_test_event(page: Page, url: str) -> None:
    """Add an endpoint, send a test event to it, and wait until the page shows its delivery."""
    await follow_menu(page, "Developers")
    await page.get_by_role("main").get_by_role("link", name="Add endpoint").click()
    await page.get_by_label("Endpoint URL").fill(url)
    await page.locator("#add").get_by_role("button", name="Add endpoint").click()
    if await page.get_by_role("button", name="Send a test event").count() == 0:
        await page.get_by_role("link", name=url).click()
    await _press_button(page, "Send a test event")
    success = page.get_by_text("Your server accepted it.")
    reload_link = page.get_by_role("link", name="Look again")
    for _ in range(100):
        await success.or_(reload_link).first.wait_for(timeout=TIMEOUT_MS)
        if await success.count():
            return
        await page.wait_for_timeout(200)
        await page.reload()
    pytest.fail("the test event was not delivered")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_a_new_owner_needs_only_a_browser_to_take_and_refund_payments(
    browser: Browser, page_server: Starlette, *, scripts: bool
) -> None:
    settings, app = page_server.state.settings, page_server.state.app
    _, link = await create_merchant(page_server)
    context = await browser.new_context(java_script_enabled=scripts, locale="en-US")
    page = await context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    await join(page, settings.public_url + link.path)
    home = page.url
    await _accept_agreement(page)
    await _pay(page, await _open_session(page))
    await page.goto(home)
    await _refund(page, scripts=scripts)
    old_key, new_key = await _replace_key(page)
    orders_url = f"{settings.public_url}/v1/orders"
    for key, status in ((old_key, 401), (new_key, 200)):
        response = await context.request.get(orders_url, headers={"x-api-key": key})
        assert response.status == status, key[:12]
    async with receiving() as receiver:
        await _send_test_event(page, f"{receiver.url}/hook")
        assert b"webhook.test" in receiver.accepted[0].body
    await context.close()
    async with app.db.connection() as tx:
        assert await ledger_violations(tx) == []
