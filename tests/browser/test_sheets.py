"""Enter in a field of a sheet that the page has opened sends its form."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_members import create_merchant, join
from opentill.db.clock import now_ms

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("scripts", [True, False])
async def test_enter_sends_the_form_of_a_sheet_opened_by_its_address(
    browser: Browser, page_server: Starlette, *, scripts: bool
) -> None:
    shop, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    await join(page, url + link.path)
    await page.goto(f"{url}/dashboard/{shop}/products?sheet=add")
    name = f"Tea {now_ms()}"
    await page.get_by_label("Name").first.fill(name)
    price = page.get_by_label("Price")
    await price.fill("4.50")
    await price.press("Enter")
    await page.wait_for_url("**/products/**")
    assert name in await page.get_by_role("heading", level=1).inner_text()
    await context.close()


@pytest.mark.parametrize("scripts", [True, False])
async def test_cancel_closes_a_sheet_opened_by_its_address(
    browser: Browser, page_server: Starlette, *, scripts: bool
) -> None:
    shop, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    await join(page, url + link.path)
    await page.goto(f"{url}/dashboard/{shop}/products?sheet=add")
    sheet = page.locator("dialog.sheet")
    assert await sheet.is_visible()
    await sheet.get_by_role("button", name="Cancel").click()
    assert not await sheet.is_visible()
    await context.close()
