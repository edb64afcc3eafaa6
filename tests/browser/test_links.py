"""Payment links in a real browser: made, gone on from, and looked at on every device."""

import pytest
from playwright.async_api import Browser

from browser.test_products import Owner, owner
from support.page_checks import looked_at

__all__ = ["owner"]
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_link_is_made_and_gone_on_from_without_any_script_and_its_pages_can_be_read(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=False)
    page = await context.new_page()
    await page.goto(f"{owner.home}/links")
    await page.get_by_label("Name").fill("A gift for somebody")
    await page.get_by_label("Least amount").fill("5")
    await page.get_by_label("Uses").fill("2")
    await page.get_by_role("button", name="Make the link").click()
    assert await page.get_by_label("Price").get_attribute("aria-invalid") == "true"
    await page.get_by_label("Largest amount").fill("500")
    await page.get_by_role("button", name="Make the link").click()
    made = page.url.partition("?")[0]
    link = await page.get_by_role("textbox", name="Payment link").input_value()
    await page.goto(link)
    await page.get_by_label("Amount in USD").fill("4")
    await page.get_by_role("button", name="Go on to payment").click()
    assert await page.get_by_label("Amount in USD").input_value() == "4"
    await page.get_by_label("Amount in USD").fill("12.50")
    await page.get_by_role("button", name="Go on to payment").click()
    assert "/checkout/cs_" in page.url
    assert await page.get_by_text("$12.50").first.is_visible()
    await page.go_back()
    await page.goto(link)
    assert await page.get_by_role("link", name="Go on with it").is_visible()
    await context.close()

    looking = await owner.context(browser, scripts=True)
    page = await looking.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    wrong: list[object] = []
    # In English: test_accessibility.py, and what customers see test_pages_look.py
    for path in (f"{owner.home}/links", made, link):
        await page.goto(f"{path}?lang=zh-Hant")
        await page.evaluate("document.querySelectorAll('main details').forEach(e => e.open = 1)")
        wrong += await looked_at(page)
    assert complaints == []
    await looking.close()
    assert wrong == []
