"""Names of payment methods and the price neither break nor overflow at twice the text size."""

from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Route

from opentill.core.languages import offered
from opentill.web import assets
from opentill.web.language import Localizer
from support.page_examples import render_pages

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

WIDTHS: Final = (320, 900, 1280)
# Doubles the text size. Returns the words that break or overflow their tile, by how many pixels the
# page is wider than the window, and the number of tiles.
FIND_BROKEN_WORDS: Final = """() => {
  document.documentElement.style.fontSize = '200%';
  const broken = [];
  for (const span of document.querySelectorAll('.method .name, .price bdi')) {
    const tile = span.closest('label, .side').getBoundingClientRect();
    let at = 0;
    for (const word of span.firstChild.data.split(' ')) {
      const range = document.createRange();
      range.setStart(span.firstChild, at);
      range.setEnd(span.firstChild, at + word.length);
      at += word.length + 1;
      const lines = new Set([...range.getClientRects()].map(line => Math.round(line.top)));
      const box = range.getBoundingClientRect();
      if (lines.size > 1 || box.right > tile.right || box.left < tile.left) broken.push(word);
    }
  }
  const root = document.documentElement;
  return [broken, Math.max(0, root.scrollWidth - root.clientWidth),
          document.querySelectorAll('.method').length];
}"""


async def test_no_word_breaks_or_overflows_at_twice_the_text_size(
    layout_browser: Browser,
) -> None:
    page = await layout_browser.new_page()

    async def fulfill(route: Route) -> None:
        path = urlsplit(route.request.url).path
        name = path.removeprefix("/static/").removeprefix("/")
        if path.startswith("/static/"):
            file = assets.ASSETS[name]
            await route.fulfill(body=file.body, content_type=file.media_type)
        elif name in offered("customer"):
            html = render_pages(Localizer("customer", name))["open"].html
            await route.fulfill(body=html, content_type="text/html")
        else:
            await route.abort()

    await page.route("**/*", fulfill)
    for language in offered("customer"):
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 800})
            await page.goto(f"http://127.0.0.1:9/{language}")
            broken_words, overflow_px, tile_count = await page.evaluate(FIND_BROKEN_WORDS)
            assert (broken_words, overflow_px) == ([], 0), (language, width)
            assert tile_count >= 6
    await page.close()
