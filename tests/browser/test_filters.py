"""Filters of lists apply as soon as one changes, and by their button without scripts."""

import pytest
from playwright.async_api import Browser, FloatRect, Page
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
        # On a phone, each panel opens below its chip and is as wide as the filters.
        await page.set_viewport_size({"width": 390, "height": 844})
        form = await _box(page, "form.filters")
        for name in ("More filters", "Date"):  # a panel hides what is below it
            await page.click(f".filters summary:has-text('{name}')")
            chip = await _box(page, ".filters > .chip:has(> details[open])")
            panel = await _box(page, ".filters details[open] > .panel-below")
            assert chip["width"] == pytest.approx(form["width"] / 2, abs=8), name
            assert panel["y"] - chip["y"] - chip["height"] == pytest.approx(4, abs=2), name
            assert panel["width"] == pytest.approx(form["width"], abs=2), name
    await context.close()


async def _box(page: Page, selector: str) -> FloatRect:
    box = await page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box
