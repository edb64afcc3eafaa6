"""A browser draws charts from their tables, in both color schemes, without unsafe scripts."""

import asyncio
import time
from itertools import product
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route

from browser import chart_examples
from browser.page_checks import DEVICES, OVERFLOW_WIDTH, PAGE_PROBLEMS, SCHEMES
from opentill.core.languages import Language, offered
from opentill.web import assets, responses, translations
from opentill.web.language import Localizer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOST: Final = "http://127.0.0.1:9"
# Returns whether each chart shows the color of its first series, and whether its table is open.
READ_CHARTS: Final = """() => [...document.querySelectorAll('.chart:not(#empty)')].map(figure => {
  const drawn = figure.querySelector('canvas');
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [drawn.width, drawn.height];
  canvas.getContext('2d', { willReadFrequently: true }).drawImage(drawn, 0, 0);
  const probe = document.createElement('i');
  probe.style.color = getComputedStyle(figure).getPropertyValue('--chart-1');
  figure.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let at = 0; at < pixels.length; at += 4)
    count += pixels[at] === r && pixels[at + 1] === g && pixels[at + 2] === b
      && pixels[at + 3] === 255;
  return [figure.id, count > 100, figure.querySelector('details').open];
})"""
CHART_FITS: Final = """() => Math.abs(document.querySelector('#volume .uplot').clientWidth
  - document.querySelector('#volume .chart-plot').clientWidth) < 2"""
TIMEOUT_S: Final = 20.0
ALL_DRAWN: Final = [["volume", True, False], ["rate", True, False], ["hostile", True, False]]


async def _wait_for_value(page: Page, script: str, expected: object) -> None:
    """Wait until a script returns the expected value; fail with the last value."""
    deadline = time.monotonic() + TIMEOUT_S
    while (value := await page.evaluate(script)) != expected and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert value == expected


async def _open(context: BrowserContext, language: Language = "en") -> tuple[Page, list[str]]:
    """Open the page of charts; return it with the list to which its errors are added."""
    page = await context.new_page()
    errors: list[str] = []

    async def fulfill(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            file = assets.ASSETS[path.removeprefix("/static/")]
            await route.fulfill(body=file.body, content_type=file.media_type)
        else:
            html = chart_examples.page(Localizer("merchant", language))
            response = responses.page(html, language, scripts=True)
            headers = dict(response.headers)
            del headers["content-length"]
            assert "unsafe" not in headers["content-security-policy"]
            await route.fulfill(body=response.body, headers=headers)

    await page.route("**/*", fulfill)
    page.on("console", lambda message: errors.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: errors.append(f"script: {error}"))
    page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
    await page.goto(f"{HOST}/charts")
    return page, errors


async def test_charts_are_drawn_from_their_tables_in_both_color_schemes(browser: Browser) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page, errors = await _open(context)
    for scheme, device in product(SCHEMES, DEVICES):
        width, height = DEVICES[device]
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme=scheme)
        # A chart is drawn again in the next frame, which may be late on a busy machine.
        await page.wait_for_function(CHART_FITS)
        await _wait_for_value(page, READ_CHARTS, ALL_DRAWN)
        assert await page.evaluate(PAGE_PROBLEMS) == {
            "shown": [scheme, width], "faint": [], "small": [], "boxes": [], "wider": 0,
        }, (scheme, device)  # fmt: skip
        assert await page.locator("#volume .uplot").is_visible()
    # Without a number there is no axis, only the summary and the closed table.
    assert await page.locator("#empty canvas, #empty .chart-plot").count() == 0
    assert await page.locator("#empty details").get_attribute("open") is None
    box = await page.locator("#rate .u-over").bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 8, box["y"] + 40)
    reading = "() => document.querySelector('#rate .chart-reading').textContent"
    await _wait_for_value(page, reading, "Mon, Mar 30, 2026 · Payments 2 · Success rate 99.7%")
    await page.click("#rate summary")
    assert await page.locator("#rate tbody tr").count() == 30
    assert await page.get_by_role("figure", name="Payments and success rate").is_visible()
    assert errors == []
    await context.close()


async def test_a_chart_is_shown_as_a_table_without_javascript(browser: Browser) -> None:
    context = await browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 844}
    )
    page, errors = await _open(context)
    assert await page.locator("#volume td").first.is_visible()
    assert await page.locator("#volume .chart-plot").is_hidden()
    assert errors == []
    await context.close()


@pytest.mark.parametrize("language", offered("merchant"))
async def test_charts_use_the_language_of_the_page(browser: Browser, language: Language) -> None:
    context = await browser.new_context(viewport={"width": 320, "height": 568})
    page, errors = await _open(context, language)
    assert await page.evaluate(OVERFLOW_WIDTH) <= 0
    assert await page.evaluate(READ_CHARTS) == ALL_DRAWN
    summary = translations.translate("merchant", language, "Show the numbers")
    assert await page.locator("#volume summary").text_content() == summary
    assert errors == []
    await context.close()
