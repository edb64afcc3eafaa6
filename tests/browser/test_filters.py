"""Filters of lists apply as soon as one changes, and by their button without scripts."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_members import create_merchant, join

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("has_scripts", [True, False])
async def test_a_chosen_filter_applies_at_once_or_by_its_button(
    browser: Browser, page_server: Starlette, *, has_scripts: bool
) -> None:
    shop, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url).replace("127.0.0.1", "localhost")
    context = await browser.new_context(java_script_enabled=has_scripts)
    page = await context.new_page()
    page.set_default_timeout(60_000)
    await join(page, url + link.path)
    await page.goto(f"{url}/dashboard/{shop}/payments?method=ALIPAY")
    filters = page.locator("form.filters")
    button = filters.get_by_role("button", name="Apply", exact=True).last
    await filters.locator("select[name=method]").select_option("CREDIT_CARD")
    if not has_scripts:
        await button.click()
    await page.wait_for_url(f"{url}/dashboard/{shop}/payments?*method=CREDIT_CARD*")
    if has_scripts:
        # With the keyboard, a choice applies when the reader leaves it: each arrow key changes it.
        field = filters.locator("select[name=method]")
        await field.focus()
        await page.keyboard.press("ArrowDown")
        assert "method=CREDIT_CARD" in page.url
        await page.keyboard.press("Tab")
        await page.wait_for_url(f"{url}/dashboard/{shop}/payments?*method=ALIPAY*")
    await context.close()
