"""What a page's layout may not do at any width: scroll sideways, break a number, lack a style.

On screens from 390 pixels, it may not break an email address or the name of an event either.
"""

from typing import Final

from playwright.async_api import Page

WIDTHS: Final = (320, 390, 640, 768, 1024, 1280, 1440)
_HEIGHT: Final = 800

# This script gives every amount twelve digits, every customer and merchant a long name, and every
# email address a length that fits in one line of a phone.
_STRETCH: Final = r"""() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    if (text.parentElement.closest('script, style, svg, textarea, code, pre, option')) continue;
    text.data = text.data
      .replace(/(?<![\d.=+])\d[\d,]*\.\d\d(?![\d%.])/g, '1,234,567,890.12')
      .replace(/Harbour Books|Ada Example/g, '$& of Saint-Rémy-de-Provence Ltd')
      .replace(/[\w.+-]+@[\w.-]+\w/g, 'katherine.lang@harbour.example');
  }
}"""

# Returns by how many pixels the page is wider than its window, and the numbers that wrap; from 390
# pixels also the email addresses (except after the @) and names of events.
_LAYOUT: Final = r"""() => {
  const root = document.documentElement, broken = [];
  const find = (text, pattern) => {
    for (const match of text.data.matchAll(pattern)) {
      const range = document.createRange();
      range.setStart(text, match.index);
      range.setEnd(text, match.index + match[0].length);
      const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (lines.size > 1)
        broken.push(`${match[0]} in ${text.parentElement.outerHTML.slice(0, 80)}`);
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, parent = text.parentElement;
    if (!parent.checkVisibility()) continue;
    if (parent.closest('pre, svg, option')) continue;
    const addresses = /[^\s@,;:()<>]+(?=@)|@[^\s@,;:()<>]+/g;
    const events = /\b(?:order|checkout|refund|dispute|payout)\.[a-z]+\b/g;
    if (innerWidth >= 390) [addresses, events].forEach(pattern => find(text, pattern));
    if (parent.closest('code, bdi')) continue;
    const numbers = /(?<![\w@/.=+…-])[^\s\w…]{0,2}\d[\d,.]*\d(?![\w@/-])/g;
    find(text, numbers);
  }
  const wider = Math.max(0, root.scrollWidth - root.clientWidth);
  return wider || broken.length ? { wider, broken: [...new Set(broken)].slice(0, 3) } : null;
}"""

# Returns the classes in the page that none of its style sheets names.
_UNSTYLED: Final = r"""() => {
  const named = new Set();
  const read = rules => [...rules].forEach(rule => {
    for (const match of (rule.selectorText || '').matchAll(/\.([\w-]+)/g)) named.add(match[1]);
    if (rule.cssRules) read(rule.cssRules);
  });
  [...document.styleSheets].forEach(sheet => read(sheet.cssRules));
  const used = new Set([...document.querySelectorAll('[class]')].flatMap(e => [...e.classList]));
  return [...used].filter(name => !named.has(name) && !name.startsWith('status-')).sort();
}"""


async def layout_problems(page: Page) -> list[object]:
    """Return what is wrong with a loaded page at each width, with long amounts and names."""
    problems: list[object] = []
    if unstyled := await page.evaluate(_UNSTYLED):
        problems.append(("no style for", unstyled))
    await page.evaluate(_STRETCH)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": _HEIGHT})
        if layout := await page.evaluate(_LAYOUT):
            problems.append((width, layout))
    return problems
