"""A browser creates products and sessions, from the first product to the payment page."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page
from starlette.applications import Starlette

from browser.page_checks import UNFOLD, problems_on_all_displays
from browser.page_members import create_merchant
from opentill import people
from opentill.db.clock import now_ms
from support.people import CHEAP_HASH, PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PICTURE: Final = "https://pictures.example.com/tea.svg"
DRAWING: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path fill="#2a7" d="M0 0h9v9z"/>'
    "</svg>"
)


class Owner:
    """The owner of a new merchant, who is logged in."""

    def __init__(self, url: str, merchant_id: str, cookie: str) -> None:
        """Use the login whose cookie has the value ``cookie``."""
        self.home = f"{url}/dashboard/{merchant_id}"
        self.cookie = {"name": "opentill", "value": cookie, "url": url}

    async def context(self, browser: Browser, *, scripts: bool) -> BrowserContext:
        """Open a browser context with the owner's login, in which the test serves pictures."""
        context = await browser.new_context(java_script_enabled=scripts)
        context.set_default_timeout(10_000)
        await context.add_cookies([self.cookie])  # type: ignore[list-item] # a plain dictionary
        await context.route(
            "https://pictures.example.com/**",
            lambda route: route.fulfill(body=DRAWING, content_type="image/svg+xml"),
        )
        return context


@pytest_asyncio.fixture(loop_scope="session")
async def owner(page_server: Starlette) -> AsyncIterator[Owner]:
    """The owner of a new merchant."""
    merchant_id, link = await create_merchant(page_server)
    db, browser = page_server.state.app.db, people.Browser("127.0.0.1", "Testfox")
    login = await people.join(
        db, link.token, "Ada Example", PASSWORD, browser, now_ms(), cost=CHEAP_HASH
    )
    yield Owner(str(page_server.state.settings.public_url), merchant_id, login.token)


async def _add_tea(page: Page, owner: Owner) -> None:
    await page.goto(f"{owner.home}/")
    await page.get_by_text("Take payments with the API instead").click()
    await page.get_by_role("link", name="Add a product").click()
    await page.get_by_label("Name", exact=True).fill("Green tea, 100 g")
    await page.get_by_label("Price").fill("9,999.9.9")
    await page.get_by_label("Description").fill("Loose leaf.\nFrom a small garden.")
    await page.get_by_text("Use the address of an image").click()
    await page.get_by_label("Image URL").fill(PICTURE)
    await page.get_by_role("button", name="Add the product").click()
    assert await page.get_by_label("Price").get_attribute("aria-invalid") == "true"
    await page.get_by_label("Price").fill("9,99")
    await page.get_by_role("button", name="Add the product").click()
    assert "Green tea, 100 g" in await page.get_by_role("heading", level=1).inner_text()


async def test_a_session_can_be_opened_and_ended_without_scripts(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=False)
    page = await context.new_page()
    await _add_tea(page, owner)
    assert await page.locator(".about-product img").evaluate("e => e.naturalWidth") > 0
    await page.goto(f"{owner.home}/")
    await page.get_by_text("Take payments with the API instead").click()
    await page.get_by_role("link", name="Create a checkout session").click()
    await page.get_by_label("Customer’s email").fill("bob@example.com")
    await page.get_by_role("button", name="Create the session").click()
    link = await page.get_by_role("textbox", name="Checkout URL").input_value()
    await page.goto(link)
    assert await page.get_by_text("Green tea, 100 g").first.is_visible()
    await page.goto(f"{owner.home}/sessions")
    await page.locator("table.list a").first.click()
    await page.get_by_role("button", name="Cancel payment").click()
    confirmation = page.get_by_role("alertdialog", name="Cancel this payment?")
    assert await confirmation.get_by_role("button", name="Keep payment").is_visible()
    await confirmation.get_by_role("button", name="Cancel payment").click()
    assert await page.get_by_text("Nobody can pay it any more.").is_visible()
    await context.close()


async def test_pages_of_products_and_sessions_fit_every_device(
    browser: Browser, owner: Owner
) -> None:
    context = await owner.context(browser, scripts=True)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    await _add_tea(page, owner)
    product = page.url.partition("?")[0]
    await page.get_by_role("button", name="Edit").click()
    await page.get_by_label("Name", exact=True).fill("Black tea")
    await page.get_by_label("Price").fill("12")
    preview = page.get_by_role("complementary", name="Preview of the payment page")
    assert "Black tea\n\n$12.00" in await preview.inner_text()
    await page.goto(product)
    await page.get_by_title("More actions").click()
    await page.get_by_role("button", name="Create a checkout session").click()
    await page.get_by_role("button", name="Create the session").click()
    await page.get_by_role("button", name="Copy", exact=True).click()
    link = await page.get_by_role("textbox", name="Checkout URL").input_value()
    assert await page.evaluate("navigator.clipboard.readText()") == link
    session = page.url.partition("?")[0]
    await page.get_by_role("button", name="Copy the ID").click()
    await page.get_by_role("status").get_by_text("Copied").last.wait_for()
    assert await page.evaluate("navigator.clipboard.readText()") == session.rpartition("/")[2]
    violations: list[object] = []
    # test_accessibility.py checks the English pages.
    for path in (f"{owner.home}/products", product, f"{owner.home}/sessions", session):
        await page.goto(f"{path}?lang=zh-Hant")
        await page.evaluate(UNFOLD)
        violations += await problems_on_all_displays(page)
    assert violations == []
    # ``_add_tea`` may enter the price before the browser focuses the error.
    assert [text for text in messages if not text.startswith("Autofocus processing")] == [
        # the server refuses the wrong price that ``_add_tea`` submits first
        "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    ]
    await context.close()
