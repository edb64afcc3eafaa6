"""The API reference can be read, searched, copied from and tried in a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from starlette.applications import Starlette

from browser.layout_checks import layout_problems
from browser.page_checks import problems_on_all_displays
from opentill import merchants
from opentill.db.clock import now_ms

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# One page of each kind in the reference.
PATHS: Final = ("", "/guides/webhooks", "/guides/errors", "/checkouts", "/search?q=refund")
# Returns the text of every place where a page could store a key.
READ_STORAGE: Final = """() => [location.href, document.cookie, JSON.stringify({...localStorage}),
  JSON.stringify({...sessionStorage}), document.documentElement.outerHTML].join('\\n')"""


@pytest.fixture
def docs(page_server: Starlette) -> str:
    return f"{page_server.state.settings.public_url}/docs"


@asynccontextmanager
async def _open_page(browser: Browser, docs: str) -> AsyncIterator[Page]:
    """Open a page; fail on any console message and any request to another host."""
    context = await browser.new_context(reduced_motion="reduce")
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = await context.new_page()
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    host = docs.removesuffix("docs")
    tab.on("request", lambda request: request.url.startswith(host) or problems.append(request.url))
    yield tab
    await context.close()
    assert [text for text in problems if "404 (Not Found)" not in text] == []


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, docs: str) -> AsyncIterator[Page]:
    """A page. The test fails on any console message and any request to another host."""
    async with _open_page(browser, docs) as tab:
        yield tab


async def _create_key(page_server: Starlette) -> str:
    async def create(tx: Any) -> merchants.NewKey:
        merchant = await merchants.create(tx, name="Harbour Books", now=now_ms())
        environment = page_server.state.settings.environment
        return await merchants.create_key(tx, merchant.id, environment, now_ms())

    new_key: merchants.NewKey = await page_server.state.app.db.run(create)
    return new_key.key


async def test_every_kind_of_page_is_readable_and_fits_the_window(
    layout_browser: Browser, docs: str
) -> None:
    problems: list[object] = []
    async with _open_page(layout_browser, docs) as page:
        for path in PATHS:
            await page.goto(docs + path)
            for boxes in (".contents > details", "details.trial, details.failures"):
                await page.eval_on_selector_all(
                    boxes, "all => all.forEach(details => details.open = true)"
                )
            problems += await problems_on_all_displays(page)
            problems += [(path, problem) for problem in await layout_problems(page)]
    assert problems == []


async def test_samples_and_search_work_without_javascript(browser: Browser, docs: str) -> None:
    context = await browser.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 800}
    )
    page = await context.new_page()
    await page.goto(f"{docs}/products#createProduct")
    await expect(page.locator(".trial, .copy")).to_have_count(0)
    python = page.locator("#createProduct details[data-language=Python]")
    await expect(python.locator("pre")).not_to_be_visible()
    await python.locator("summary").click()
    await expect(python.locator("pre")).to_be_visible()
    await page.fill("input[name=q]", "settledAmount")
    await page.keyboard.press("Enter")
    await page.click("#found a >> text=Get an order")
    assert page.url == f"{docs}/orders#getOrder"
    await context.close()


async def test_the_quick_search_shows_results_while_typing(page: Page, docs: str) -> None:
    await page.goto(docs)
    await page.keyboard.press("/")
    await page.keyboard.type("40901")
    await expect(page.locator(".quick li")).to_have_count(2)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("Errors")
    await page.fill("input[name=q]", "xyzzy refund")
    await expect(page.locator(".quick")).to_contain_text("Nothing has all of these words")
    await page.keyboard.press("Escape")
    await expect(page.locator(".quick")).to_be_hidden()


async def test_a_sample_is_copied_and_its_language_is_remembered(page: Page, docs: str) -> None:
    await page.goto(f"{docs}/orders")
    await page.click("#getOrder summary >> text=Python")
    await expect(page.locator("details[data-language=Python][open]")).to_have_count(
        await page.locator("article").count()
    )
    await page.click("#listOrders details[open] .copy")
    await expect(page.locator("#listOrders details[open] .copy")).to_have_text("Copied")
    clipboard = await page.evaluate("navigator.clipboard.readText()")
    assert "client.orders.list()" in clipboard
    await page.goto(f"{docs}/refunds")
    await expect(page.locator("#getRefund details[data-language=Python]")).to_have_attribute(
        "open", ""
    )


async def test_an_operation_is_tried_with_a_key_that_is_stored_nowhere(
    page: Page, page_server: Starlette, docs: str
) -> None:
    key = await _create_key(page_server)
    requests: list[Any] = []
    page.on("request", lambda request: "/v1/" in request.url and requests.append(request))
    await page.goto(f"{docs}/products")
    create_form = page.locator("#createProduct .trial")
    read_form = page.locator("#getProduct .trial")

    await create_form.locator("summary").click()
    await create_form.locator("[data-key]").fill(key)
    # Sending is possible only after the box is ticked.
    await expect(create_form.locator("[data-send]")).to_be_disabled()
    await create_form.locator("[data-agreed]").check()
    await create_form.locator("[data-send]").click()
    await expect(create_form.locator(".outcome .status")).to_have_text("201")
    # The box must be ticked again before each request.
    await expect(create_form.locator("[data-send]")).to_be_disabled()
    await read_form.locator("summary").click()
    await expect(read_form.locator("[data-key]")).to_have_value(key)
    await read_form.locator("[data-send]").click()
    await expect(read_form.locator(".outcome")).to_have_text("id is required.")
    await read_form.locator("[data-name=id]").fill("../orders?x=")
    await read_form.locator("[data-send]").click()
    await expect(read_form.locator(".outcome .status")).to_have_text("404")

    assert [request.method for request in requests] == ["POST", "GET"]
    assert requests[0].headers["idempotency-key"]
    assert requests[1].url.endswith("/v1/products/..%2Forders%3Fx%3D")
    assert key not in await page.evaluate(READ_STORAGE)
    assert key not in str(await page.context.storage_state())
    await page.reload()
    await create_form.locator("summary").click()
    await expect(create_form.locator("[data-key]")).to_have_value("")
