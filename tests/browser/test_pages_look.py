"""Pages as a browser draws them, from made-up payments: contrast, sizes, no overflow, no errors."""

from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, Route

from opentill.pages.catalogue import SENTENCES
from opentill.pages.responses import page as answer
from opentill.web import assets
from opentill.web.catalogue import LANGUAGES, Language
from opentill.web.language import Localizer
from support.page_checks import LOOKS, WIDER, Scheme, looked_at
from support.page_examples import HOSTILE_PAYMENT, made

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOST = "http://127.0.0.1:9"  # nobody is there: fixtures answer


async def _serve(page: Page, language: Language) -> list[str]:
    """Answer the page's requests from fixtures; the list gathers what goes wrong."""
    localizer = Localizer(SENTENCES, language)
    pages = made(localizer) | {
        f"hostile-{name}": one for name, one in made(localizer, HOSTILE_PAYMENT).items()
    }
    wrong: list[str] = []

    async def fulfil(route: Route) -> None:
        address = urlsplit(route.request.url)
        name = address.path.rpartition("/")[2]
        if not route.request.url.startswith(HOST):
            wrong.append(f"asked {route.request.url}")
            await route.abort()
        elif address.path.startswith("/static/"):
            file = assets.ASSETS[name]
            await route.fulfill(body=file.body, content_type=file.media_type)
        elif name in pages:
            sent = answer(pages[name], language)
            headers = {key: value for key, value in sent.headers.items() if key != "content-length"}
            body = sent.body.replace(b'http-equiv="refresh"', b'http-equiv="x-refresh"')
            await route.fulfill(body=body, headers=headers)
        else:
            await route.fulfill(
                body=b"<svg xmlns='http://www.w3.org/2000/svg'/>", content_type="image/svg+xml"
            )

    await page.route("**/*", fulfil)
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    return wrong


async def test_every_page_is_readable_and_fits(browser: Browser) -> None:
    # Loaded once for all looks; what moves would show colours on their way from one to another.
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    wrong = await _serve(page, "en")
    for name in [
        *made(Localizer(SENTENCES, "en")),
        "hostile-open",
        "hostile-errors",
        "hostile-paid",
    ]:
        await page.goto(f"{HOST}/{name}")
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


@pytest.mark.parametrize("language", [one for one in LANGUAGES if one != "en"])
async def test_every_language_fits_on_a_phone(browser: Browser, language: Language) -> None:
    context = await browser.new_context(viewport={"width": 320, "height": 568})
    page = await context.new_page()
    wrong = await _serve(page, language)
    for name in made(Localizer(SENTENCES, language)):
        await page.goto(f"{HOST}/{name}")
        assert await page.evaluate(WIDER) <= 0, name
        assert await page.evaluate("document.documentElement.lang") == language
    assert wrong == []
    await context.close()


async def test_the_form_is_used_with_the_keyboard_alone(browser: Browser) -> None:
    page = await browser.new_page()
    await _serve(page, "en")
    await page.goto(f"{HOST}/open")
    reached = []
    for _ in range(6):
        await page.keyboard.press("Tab")
        reached.append(
            await page.evaluate("document.activeElement.name || document.activeElement.className")
        )
    assert reached == ["skip", "email", "name", "method", "button", ""]
    await page.close()


async def test_the_summary_of_errors_has_the_focus_and_leads_to_the_field(browser: Browser) -> None:
    page = await browser.new_page()
    await _serve(page, "en")
    await page.goto(f"{HOST}/errors")
    assert await page.evaluate("document.activeElement.getAttribute('role')") == "alert"
    await page.click("[role=alert] a >> nth=0")
    assert await page.evaluate("document.activeElement.id") == "email"
    await page.close()


async def test_nothing_turns_for_those_who_want_no_motion(browser: Browser) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    await _serve(page, "en")
    await page.goto(f"{HOST}/waiting")
    assert await page.evaluate("document.getAnimations().length") == 0
    await context.close()
