"""Payment pages have readable contrast and sizes, no overflow and no console errors."""

from collections.abc import AsyncIterator
from functools import cache

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from browser.layout_checks import layout_problems
from browser.page_checks import OVERFLOW_WIDTH, PAGE_PROBLEMS, Scheme, problems_on_all_displays
from opentill.core.languages import Language, offered
from opentill.pages.render import Page as RenderedPage
from opentill.pages.responses import page as page_response
from opentill.web import assets
from opentill.web.language import Localizer
from support.examples import pairwise
from support.page_examples import HOSTILE_PAYMENT, render_pages
from support.page_server import serving
from support.ports import free_socket, url_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


@cache
def _pages(language: Language) -> dict[str, RenderedPage]:
    localizer = Localizer("customer", language)
    return render_pages(localizer) | {
        f"hostile-{name}": page for name, page in render_pages(localizer, HOSTILE_PAYMENT).items()
    }


async def _serve_page(request: Request) -> Response:
    """Return a page, or a picture for any other path."""
    language, name = (request.path_params.get(part, "") for part in ("language", "name"))
    if language not in offered("customer") or name not in _pages(language):
        return Response(PICTURE, media_type="image/svg+xml")
    response = page_response(_pages(language)[name], language)
    headers = {key: value for key, value in response.headers.items() if key != "content-length"}
    body = bytes(response.body).replace(b'http-equiv="refresh"', b'http-equiv="x-refresh"')
    return Response(body, headers=headers)


ROUTES = [
    *assets.routes,
    *(Route(path, _serve_page) for path in ("/{language}/{name}", "/{path:path}")),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def host() -> AsyncIterator[str]:
    """The URL of a server that has the pages at /LANGUAGE/NAME, and their assets."""
    listener = free_socket()
    async with serving(Starlette(routes=ROUTES), listener):
        yield url_of(listener)


def _collect_problems(page: Page, host: str) -> list[str]:
    """Return a list to which requests to other hosts, messages, errors and dialogs are added."""
    problems: list[str] = []
    page.on("request", lambda request: request.url.startswith(host) or problems.append(request.url))
    page.on("console", lambda message: problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    return problems


async def test_every_page_is_readable_and_fits_the_window(
    layout_browser: Browser, host: str
) -> None:
    # Each page is loaded once for all sizes and schemes. Reduced motion switches off color
    # transitions, so that no color is changing while a page is checked.
    context = await layout_browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    problems = _collect_problems(page, host)
    results: list[tuple[object, ...]] = []
    for name in [
        *render_pages(Localizer("customer", "en")),
        "hostile-open",
        "hostile-errors",
        "hostile-paid",
    ]:
        await page.goto(f"{host}/en/{name}")
        assert await page.evaluate("document.documentElement.lang") == "en"
        results += [(name, *(await problems_on_all_displays(page)), *(await layout_problems(page)))]
    assert [result for result in results if len(result) > 1] == []
    assert problems == []
    await context.close()


async def check_display(page: Page, scheme: Scheme, width: int, height: int, label: object) -> None:
    """Check a loaded page in another size and color scheme."""
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme=scheme)
    assert await page.evaluate(PAGE_PROBLEMS) == {
        "shown": [scheme, width], "faint": [], "small": [], "boxes": [], "wider": 0,
    }, label  # fmt: skip


@pytest.mark.parametrize("language", [name for name in offered("customer") if name != "en"])
async def test_every_language_fits_on_a_phone(
    layout_browser: Browser, host: str, language: Language
) -> None:
    context = await layout_browser.new_context(viewport={"width": 320, "height": 568})
    page = await context.new_page()
    problems = _collect_problems(page, host)
    names = list(render_pages(Localizer("customer", language)))
    for name in pairwise(names, offered("customer"), language):
        await page.goto(f"{host}/{language}/{name}")
        assert await page.evaluate(OVERFLOW_WIDTH) <= 0, name
        assert await page.evaluate("document.documentElement.lang") == language
    assert problems == []
    await context.close()


async def test_the_form_can_be_used_with_the_keyboard_alone(browser: Browser, host: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{host}/en/open")
    focused_elements = []
    for _ in range(6):
        await page.keyboard.press("Tab")
        focused_elements.append(
            await page.evaluate("document.activeElement.name || document.activeElement.className")
        )
    assert focused_elements == ["skip", "shop", "email", "name", "method", "button"]
    await page.close()


async def test_the_error_summary_has_the_focus_and_links_to_the_field(
    browser: Browser, host: str
) -> None:
    page = await browser.new_page()
    await page.goto(f"{host}/en/errors")
    assert await page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    await page.click("[role=alert] a >> nth=0")
    assert await page.evaluate("document.activeElement.id") == "email"
    await page.close()


async def test_nothing_is_animated_with_reduced_motion(browser: Browser, host: str) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(f"{host}/en/waiting")
    assert await page.evaluate("document.getAnimations().length") == 0
    await context.close()
