"""Pages as a browser draws them, from made-up payments: contrast, sizes, no overflow, no errors."""

from collections.abc import AsyncIterator
from functools import cache

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.core.languages import Language, offered
from opentill.pages.render import Page as RenderedPage
from opentill.pages.responses import page as answer
from opentill.web import assets
from opentill.web.language import Localizer
from support.page_checks import LOOKS, WIDER, Scheme, looked_at
from support.page_examples import HOSTILE_PAYMENT, made
from support.page_server import serving
from support.ports import free_socket, url_of

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PICTURE = b"<svg xmlns='http://www.w3.org/2000/svg'/>"


@cache
def _pages(language: Language) -> dict[str, RenderedPage]:
    localizer = Localizer("customer", language)
    return made(localizer) | {
        f"hostile-{name}": one for name, one in made(localizer, HOSTILE_PAYMENT).items()
    }


async def _shown(request: Request) -> Response:
    """Answer with a page; with a picture where there is none."""
    language, name = (request.path_params.get(part, "") for part in ("language", "name"))
    if language not in offered("customer") or name not in _pages(language):
        return Response(PICTURE, media_type="image/svg+xml")
    sent = answer(_pages(language)[name], language)
    headers = {key: value for key, value in sent.headers.items() if key != "content-length"}
    body = bytes(sent.body).replace(b'http-equiv="refresh"', b'http-equiv="x-refresh"')
    return Response(body, headers=headers)


ROUTES = [*assets.routes, *(Route(path, _shown) for path in ("/{language}/{name}", "/{rest:path}"))]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def host() -> AsyncIterator[str]:
    """Address of a server of the pages, below their language, and of what they are drawn with."""
    listener = free_socket()
    async with serving(Starlette(routes=ROUTES), listener):
        yield url_of(listener)


def _watched(page: Page, host: str) -> list[str]:
    """Return a list that gathers what goes wrong."""
    wrong: list[str] = []
    page.on("request", lambda sent: sent.url.startswith(host) or wrong.append(f"asked {sent.url}"))
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    return wrong


async def test_every_page_is_readable_and_fits(browser: Browser, host: str) -> None:
    # Loaded once for all looks; what moves would show colours on their way from one to another.
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    wrong = _watched(page, host)
    for name in [
        *made(Localizer("customer", "en")),
        "hostile-open",
        "hostile-errors",
        "hostile-paid",
    ]:
        await page.goto(f"{host}/en/{name}")
        assert await page.evaluate("document.documentElement.lang") == "en"
        assert await looked_at(page) == []
    assert wrong == []
    await context.close()


async def look(page: Page, scheme: Scheme, width: int, height: int, place: object) -> None:
    """Show a page that is loaded in another size and scheme of colours, and look at it."""
    await page.set_viewport_size({"width": width, "height": height})
    await page.emulate_media(color_scheme=scheme)
    assert await page.evaluate(LOOKS) == {
        "shown": [scheme, width], "faint": [], "small": [], "wider": 0,
    }, place  # fmt: skip


@pytest.mark.parametrize("language", [one for one in offered("customer") if one != "en"])
async def test_every_language_fits_on_a_phone(
    browser: Browser, host: str, language: Language
) -> None:
    context = await browser.new_context(viewport={"width": 320, "height": 568})
    page = await context.new_page()
    wrong = _watched(page, host)
    for name in made(Localizer("customer", language)):
        await page.goto(f"{host}/{language}/{name}")
        assert await page.evaluate(WIDER) <= 0, name
        assert await page.evaluate("document.documentElement.lang") == language
    assert wrong == []
    await context.close()


async def test_the_form_is_used_with_the_keyboard_alone(browser: Browser, host: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{host}/en/open")
    reached = []
    for _ in range(6):
        await page.keyboard.press("Tab")
        reached.append(
            await page.evaluate("document.activeElement.name || document.activeElement.className")
        )
    assert reached == ["skip", "email", "name", "method", "button", ""]
    await page.close()


async def test_the_summary_of_errors_has_the_focus_and_leads_to_the_field(
    browser: Browser, host: str
) -> None:
    page = await browser.new_page()
    await page.goto(f"{host}/en/errors")
    assert await page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    await page.click("[role=alert] a >> nth=0")
    assert await page.evaluate("document.activeElement.id") == "email"
    await page.close()


async def test_nothing_turns_for_those_who_want_no_motion(browser: Browser, host: str) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(f"{host}/en/waiting")
    assert await page.evaluate("document.getAnimations().length") == 0
    await context.close()
