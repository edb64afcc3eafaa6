"""The sandbox bank's pages as a browser draws them, in each language: readable, and they fit."""

import pytest
from playwright.async_api import Browser

from browser.test_pages_look import FAINT_TEXT, SMALL_TARGETS, WIDER
from opentill.sandbox.catalogue import SENTENCES, Language
from sandbox.fixtures import bank_url, receiver, shop
from sandbox.running import Shop

__all__ = ["bank_url", "receiver", "shop"]

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
async def test_the_bank_is_readable_in_every_language(
    browser: Browser, shop: Shop, language: Language, width: int, scheme: str
) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 700}, color_scheme=scheme, locale=language
    )
    page = await context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    await page.route("http://shop.example/**", lambda route: route.fulfill(body="the shop"))
    card = shop.start(locale="")
    wallet, transfer = (shop.start(locale="", method=m) for m in ("ALIPAY", "BANK_TRANSFER"))

    async def look() -> None:
        await page.wait_for_load_state("load")
        assert await page.evaluate("document.documentElement.lang") == language
        assert await page.evaluate(FAINT_TEXT) == [], page.url
        assert await page.evaluate(SMALL_TARGETS) == [], page.url
        assert await page.evaluate(WIDER) <= 0, page.url

    await page.goto(f"{shop.bank_url}/pay/{card}")
    await look()
    await page.click("button")
    await page.wait_for_selector("[role=alert]")
    await look()
    for name, text in (("number", "4000002500003155"), ("exp", "12/34"), ("csc", "123")):
        await page.fill(f"#{name}", text)
    await page.click("button")
    await page.wait_for_url("**/3ds/**")
    await look()
    for path in (f"pay/{wallet}", f"phone/{wallet}", f"pay/{transfer}", "pay/none"):
        await page.goto(f"{shop.bank_url}/{path}")
        await look()
    await page.goto(f"{shop.bank_url}/phone/{wallet}")
    await page.click("button >> nth=1")
    await page.wait_for_selector("h1.bad")
    await look()
    await page.goto(f"{shop.bank_url}/done/{wallet}")
    await look()
    assert wrong == []
    await context.close()
