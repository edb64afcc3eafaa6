"""A browser creates and uses payment links."""

import pytest
from playwright.async_api import Browser, expect

from browser.page_checks import UNFOLD, problems_on_all_displays
from browser.test_products import Owner, owner

__all__ = ["owner"]
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_link_is_created_and_used_without_scripts_on_pages_that_fit_every_device(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=False)
    page = await context.new_page()
    await page.goto(f"{owner.home}/links")
    await page.get_by_role("button", name="Create a payment link").first.click()
    await page.locator("#product").select_option("")
    await page.get_by_text("Advanced", exact=True).click()
    await page.get_by_label("Name", exact=True).fill("A gift for somebody")
    assert await page.get_by_label("Price").is_visible()
    assert not await page.get_by_label("Minimum amount").is_visible()
    await page.get_by_label("Pricing").select_option("open")
    assert not await page.get_by_label("Price").is_visible()
    assert not await page.get_by_label("Maximum quantity").is_visible()
    await page.get_by_label("Minimum amount").fill("5")
    await page.get_by_label("Maximum payments").fill("2")
    await page.get_by_role("button", name="Create the link").click()
    assert await page.get_by_label("Maximum amount").get_attribute("aria-invalid") == "true"
    await page.get_by_label("Maximum amount").fill("500")
    await page.get_by_role("button", name="Create the link").click()
    link_page = page.url.partition("?")[0]
    link = await page.get_by_role("textbox", name="Payment link").input_value()
    await page.goto(link)
    await page.get_by_label("Amount in USD").fill("4")
    await page.get_by_role("button", name="Continue to payment").click()
    assert await page.get_by_label("Amount in USD").input_value() == "4"
    await page.get_by_label("Amount in USD").fill("12.50")
    await page.get_by_role("button", name="Continue to payment").click()
    assert "/checkout/cs_" in page.url
    assert await page.get_by_text("$12.50").first.is_visible()
    await page.go_back()
    await page.goto(link)
    assert await page.get_by_role("link", name="Continue payment").is_visible()
    await context.close()

    with_scripts = await owner.context(browser, scripts=True)
    page = await with_scripts.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    violations: list[object] = []
    # test_accessibility.py and test_pages_look.py check the English pages.
    for path in (f"{owner.home}/links", link_page, link):
        await page.goto(f"{path}?lang=zh-Hant")
        await page.evaluate(UNFOLD)
        violations += await problems_on_all_displays(page)
    assert messages == []
    await with_scripts.close()
    assert violations == []


async def test_escape_closes_a_form_beside_the_page_that_is_open_for_its_errors(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=True)
    page = await context.new_page()
    await page.goto(f"{owner.home}/links")
    sheet, opener = (
        page.locator("#add"),
        page.get_by_role("button", name="Create a payment link").first,
    )
    await opener.click()
    await page.locator("#product").select_option("")
    await page.get_by_label("Name", exact=True).fill("A gift")
    await page.get_by_label("Price").fill("\u20ac5")
    await page.get_by_role("button", name="Create the link").click()
    await expect(page.get_by_label("Price")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(sheet).to_be_hidden()
    await opener.click()
    assert await page.get_by_label("Name", exact=True).input_value() == "A gift"
    await context.close()


async def test_errors_are_in_the_form_beside_the_page_which_can_be_closed_and_opened_again(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=False)
    page = await context.new_page()
    await page.goto(f"{owner.home}/links")
    sheet, opener = (
        page.locator("#add"),
        page.get_by_role("button", name="Create a payment link").first,
    )
    await opener.click()
    await page.locator("#product").select_option("")
    await page.get_by_label("Name", exact=True).fill("A gift")
    await page.get_by_label("Price").fill("\u20ac5")
    await page.get_by_role("button", name="Create the link").click()
    assert "of another currency" in await sheet.locator("#price-error").inner_text()
    for _ in range(2):  # the first time it is open for its errors
        await sheet.get_by_role("button", name="Close").click()
        assert not await sheet.is_visible()
        await opener.click()
        assert await page.get_by_label("Name", exact=True).input_value() == "A gift"
    await context.close()
