"""A browser without scripts sends test events on the page of a webhook endpoint."""

from typing import Final

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_checks import problems_on_all_displays
from browser.page_members import create_merchant, join

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
UNREACHABLE: Final = "https://shop.invalid/hook"  # this host never exists (RFC 2606)


async def test_the_result_of_a_test_event_appears_on_a_page_that_fits_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    merchant_id, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await join(page, url + link.path)
    await page.goto(f"{url}/dashboard/{merchant_id}/developers/webhooks")
    await page.get_by_role("button", name="Add endpoint").first.click()
    await page.get_by_label("Endpoint URL").fill(UNREACHABLE)
    await page.locator("#add").get_by_role("button", name="Add endpoint").click()
    await page.get_by_text("The endpoint was added.").wait_for()
    await page.get_by_role("button", name="Send a test event").click()
    await page.get_by_text(
        "Your server could not be reached."
    ).wait_for()  # the page reloads itself
    violations: list[object] = []
    for language in ("en", "zh-Hant"):
        await page.goto(f"{page.url.partition('&')[0]}&lang={language}")
        violations += await problems_on_all_displays(page)
    await context.close()
    assert violations == []
