"""What is looked at in a page that a browser has drawn: JavaScript that returns what is wrong."""

from collections.abc import AsyncIterator
from typing import Final, Literal

from playwright.async_api import Page

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
DEVICES = {"phone": (390, 844), "small": (320, 568), "desktop": (1280, 800)}
# What is shown depends on the size, and colors on the scheme: both phones show the same things, so
# each of them is looked at in one scheme. In this order as little as can be changes in between.
SHOWN: Final[tuple[tuple[str, Scheme], ...]] = (
    ("phone", "light"),
    ("small", "dark"),
    ("desktop", "dark"),
    ("desktop", "light"),
)

# For each visible piece of text: how far its contrast is below what WCAG 2.2 asks (1.4.3), worst
# of all colours that lie behind it.
FAINT_TEXT = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => {
    const a = top[3] === undefined ? 1 : top[3];
    return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a));
  };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const known = new Map([[null, [dark ? [18, 18, 18] : [255, 255, 255]]]]);
  const behind = element => {
    if (known.has(element)) return known.get(element);
    let grounds = behind(element.parentElement);
    const style = getComputedStyle(element);
    const stops = style.backgroundImage.match(/rgba?\\([^)]*\\)/g);
    const colour = parse(style.backgroundColor);
    const layer = stops ? stops.map(parse) : colour.length && colour[3] !== 0 ? [colour] : [];
    if (layer.length)
      grounds = layer.flatMap(top => grounds.map(ground => over(top, ground)));
    known.set(element, grounds);
    return grounds;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 600) ? 3 : 4.5;
    for (const ground of behind(element)) {
      const [a, b] = [light(over(parse(style.color), ground)), light(ground)];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < least) found.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
    }
  }
  return found;
}"""

# Things to press that are smaller than 24 by 24 pixels and not within a sentence (WCAG 2.5.8).
SMALL_TARGETS = """() => [...document.querySelectorAll('a, button, input, summary')]
  .filter(e => e.checkVisibility() && !e.closest('.skip') && e.type !== 'hidden')
  .filter(e => !(e.ariaHidden && e.tabIndex < 0))
  .map(e => e.closest('label') || e)
  .filter(e => { const r = e.getBoundingClientRect();
                 return (r.width < 24 || r.height < 24)
                   && getComputedStyle(e).display !== 'inline'; })
  .map(e => e.outerHTML.slice(0, 80))"""

# How much wider a page is than its window.
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

# All of these, in one question to the browser, after what it is shown as.
LOOKS = f"""() => ({{
  shown: [matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light', innerWidth],
  faint: ({FAINT_TEXT})(), small: ({SMALL_TARGETS})(), wider: Math.max(0, ({WIDER})()),
}})"""


async def looks(page: Page) -> AsyncIterator[tuple[str, Scheme]]:
    """Show a page that is loaded in each size and scheme, and yield which."""
    size = scheme = None
    for device, schemes in SHOWN:
        if size != DEVICES[device]:
            size = DEVICES[device]
            await page.set_viewport_size({"width": size[0], "height": size[1]})
        if scheme != schemes:
            scheme = schemes
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield device, schemes


async def looked_at(page: Page) -> list[object]:
    """Return what is wrong with a page that is loaded, in each size and scheme."""
    return [one async for device, scheme in looks(page) for one in await look(page, device, scheme)]


async def look(page: Page, device: str, scheme: Scheme) -> list[object]:
    """Return what is wrong with a page as it is shown."""
    problems = await page.evaluate(LOOKS)
    assert problems.pop("shown") == [scheme, DEVICES[device][0]]
    return [(page.url, device, scheme, problems)] if any(problems.values()) else []
