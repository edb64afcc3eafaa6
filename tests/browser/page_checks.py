"""Checks of a page that a browser has rendered: contrast, size of targets and overflow.

Each check is JavaScript that returns the problems of the page as it is displayed.
"""

from collections.abc import AsyncIterator
from typing import Final, Literal

from playwright.async_api import Page

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
DEVICES = {"phone": (390, 844), "small": (320, 568), "desktop": (1280, 800)}
# Both phones show the same elements, so each is checked in one color scheme only. In this order,
# size and scheme change as rarely as possible.
DISPLAYS: Final[tuple[tuple[str, Scheme], ...]] = (
    ("phone", "light"),
    ("small", "dark"),
    ("desktop", "dark"),
    ("desktop", "light"),
)

# Returns the texts whose contrast with any color behind them is too low for WCAG 2.2 (1.4.3), and
# their contrast ratios.
LOW_CONTRAST_TEXT = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => {
    const a = top[3] === undefined ? 1 : top[3];
    return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a));
  };
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const cache = new Map([[null, [dark ? [18, 18, 18] : [255, 255, 255]]]]);
  const behind = element => {
    if (cache.has(element)) return cache.get(element);
    let grounds = behind(element.parentElement);
    const style = getComputedStyle(element);
    const stops = style.backgroundImage.match(/rgba?\\([^)]*\\)/g);
    const color = parse(style.backgroundColor);
    const layer = stops ? stops.map(parse) : color.length && color[3] !== 0 ? [color] : [];
    if (layer.length)
      grounds = layer.flatMap(top => grounds.map(ground => over(top, ground)));
    cache.set(element, grounds);
    return grounds;
  };
  const texts = [];
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
      if (ratio < least) texts.push([walker.currentNode.data.trim().slice(0, 40), ratio]);
    }
  }
  return texts;
}"""

# Opens all details, and shows all sheets as cards.
UNFOLD = """() => {
  document.querySelectorAll('main details').forEach(e => e.open = true);
  document.querySelectorAll('.sheet[popover]').forEach(e => e.removeAttribute('popover'));
}"""

# Returns the check boxes and radio buttons in the browser's own color.
BROWSER_COLORED_BOXES = """() => [...document.querySelectorAll(
    'input:is([type="checkbox"], [type="radio"])')]
  .filter(e => getComputedStyle(e).accentColor === 'auto')
  .map(e => e.outerHTML.slice(0, 80))"""

# Returns the targets smaller than 24 by 24 pixels that are not within a sentence (WCAG 2.5.8).
# Those that are clipped away until they have the keyboard's focus cannot be touched.
SMALL_TARGETS = """() => [...document.querySelectorAll('a, button, input, summary')]
  .filter(e => e.checkVisibility() && !e.closest('.skip') && e.type !== 'hidden')
  .filter(e => !(e.ariaHidden && e.tabIndex < 0))
  .filter(e => getComputedStyle(e).clipPath !== 'inset(50%)')
  .map(e => e.closest('label') || e)
  .filter(e => { const r = e.getBoundingClientRect();
                 return (r.width < 24 || r.height < 24)
                   && getComputedStyle(e).display !== 'inline'; })
  .map(e => e.outerHTML.slice(0, 80))"""

# Returns by how many pixels a page is wider than its window.
OVERFLOW_WIDTH = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

# Returns the results of all checks, with the color scheme and width of the display.
PAGE_PROBLEMS = f"""() => ({{
  shown: [matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light', innerWidth],
  faint: ({LOW_CONTRAST_TEXT})(), small: ({SMALL_TARGETS})(), boxes: ({BROWSER_COLORED_BOXES})(),
  wider: Math.max(0, ({OVERFLOW_WIDTH})()),
}})"""


async def each_display(page: Page) -> AsyncIterator[tuple[str, Scheme]]:
    """Display a loaded page in each size and scheme, and yield the device and the scheme."""
    size = scheme = None
    for device, device_scheme in DISPLAYS:
        if size != DEVICES[device]:
            size = DEVICES[device]
            await page.set_viewport_size({"width": size[0], "height": size[1]})
        if scheme != device_scheme:
            scheme = device_scheme
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield device, scheme


async def problems_on_all_displays(page: Page) -> list[object]:
    """Return the problems of a loaded page in each size and scheme."""
    return [
        problem
        async for device, scheme in each_display(page)
        for problem in await display_problems(page, device, scheme)
    ]


async def display_problems(page: Page, device: str, scheme: Scheme) -> list[object]:
    """Return the problems of a page as it is displayed now."""
    problems = await page.evaluate(PAGE_PROBLEMS)
    assert problems.pop("shown") == [scheme, DEVICES[device][0]]
    return [(page.url, device, scheme, problems)] if any(problems.values()) else []
