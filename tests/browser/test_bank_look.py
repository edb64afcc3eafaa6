"""The sandbox bank's pages are readable and fit the window in each language."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.async_api import Browser

from browser.test_pages_look import Scheme, check_display
from opentill.sandbox import create_app
from opentill.sandbox.language import LANGUAGES, Language
from support.ports import free_socket, url_of
from support.sandbox_bank import SECRET, Shop, receiver, serving, shop

__all__ = ["receiver", "shop"]

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


LOOKS: Final[tuple[tuple[int, Scheme], ...]] = ((1280, "dark"), (320, "light"))


def without_refresh(app: Any) -> Any:
    """Wrap the bank so that its pages do not reload themselves while they are checked."""

    async def changed_app(scope: Any, receive: Any, send: Any) -> None:
        async def send_changed(message: Any) -> None:
            if message["type"] == "http.response.body":
                body = message.get("body", b"")
                # The length must not change, because Content-Length has been sent already.
                body = body.replace(b'http-equiv="refresh"', b'http-equiv="stopped"')
                message = message | {"body": body}
            await send(message)

        await app(scope, receive, send_changed)

    return changed_app


@pytest.fixture(scope="module")
def bank_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a sandbox bank for the tests of this module."""
    sock = free_socket()
    url = url_of(sock)
    app = create_app(data_dir=tmp_path_factory.mktemp("bank"), secret=SECRET, public_url=url)
    with serving(without_refresh(app), sock):
        yield url


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_bank_is_readable_in_every_language(
    layout_browser: Browser, shop: Shop, language: Language
) -> None:
    context = await layout_browser.new_context(locale=language)
    page = await context.new_page()
    script_errors: list[str] = []
    page.on("pageerror", lambda error: script_errors.append(str(error)))
    card = shop.start_payment(locale="")
    wallet, transfer = (
        shop.start_payment(locale="", method=m) for m in ("ALIPAY", "BANK_TRANSFER")
    )

    async def press_button(number: int = 0) -> None:
        # The browser draws no frames, for which Playwright's click would wait.
        async with page.expect_navigation():
            await page.locator("button").nth(number).dispatch_event("click")

    async def check_page() -> None:
        await page.wait_for_load_state("load")
        assert await page.evaluate("document.documentElement.lang") == language
        for width, scheme in LOOKS:
            await check_display(page, scheme, width, 700, label=(page.url, width))

    await page.goto(f"{shop.bank_url}/pay/{card}")
    await check_page()
    await press_button()
    assert await page.locator("[role=alert]").count()
    await check_page()
    for name, text in (("number", "4000002500003155"), ("exp", "12/34"), ("csc", "123")):
        await page.fill(f"#{name}", text)
    await press_button()
    assert "/3ds/" in page.url
    await check_page()
    for path in (f"pay/{wallet}", f"phone/{wallet}", f"pay/{transfer}", "pay/none"):
        await page.goto(f"{shop.bank_url}/{path}")
        await check_page()
    await page.goto(f"{shop.bank_url}/phone/{wallet}")
    await press_button(1)
    assert await page.locator("h1.bad").count()
    await check_page()
    await page.goto(f"{shop.bank_url}/done/{wallet}")
    await check_page()
    assert script_errors == []
    await context.close()
