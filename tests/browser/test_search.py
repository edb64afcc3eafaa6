"""The search in the header works by its key, and without scripts."""

import pytest
from playwright.async_api import Browser, Request
from starlette.applications import Starlette

from browser.page_members import create_merchant, invite_member, join
from support.world import create_order_in

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("has_scripts", [True, False])
async def test_the_search_is_a_form_and_has_a_key(
    browser: Browser, page_server: Starlette, *, has_scripts: bool
) -> None:
    shop, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url).replace("127.0.0.1", "localhost")
    context = await browser.new_context(java_script_enabled=has_scripts)
    page = await context.new_page()
    page.set_default_timeout(60_000)
    await join(page, url + link.path)
    field = page.get_by_role("searchbox", name="Search everything")
    await page.wait_for_url(f"{url}/dashboard/{shop}/")  # including its scripts
    if has_scripts:
        await page.keyboard.press("/")
        await page.keyboard.type("what/ever")
    else:
        await field.fill("what/ever")
    assert await field.input_value() == "what/ever"
    await field.press("Enter")
    await page.wait_for_url(f"{url}/dashboard/{shop}/search?q=what%2Fever")
    assert await page.get_by_text("Nothing matches").is_visible()
    assert await field.input_value() == "what/ever"
    await context.close()


async def test_a_refund_is_three_actions_by_the_suggestions_of_the_search(
    browser: Browser, page_server: Starlette
) -> None:
    app = page_server.state.app
    order = await app.db.run(lambda tx: create_order_in(tx, "SETTLED"))
    link = await invite_member(page_server, order.merchant_id)
    url = str(page_server.state.settings.public_url).replace("127.0.0.1", "localhost")
    page = await browser.new_page()
    page.set_default_timeout(60_000)
    await join(page, url + link.path)
    home = f"{url}/dashboard/{order.merchant_id}"
    await page.wait_for_url(f"{home}/")
    actions: list[str] = []

    def note_action(request: Request) -> None:
        # A redirect after a form belongs to the form.
        if request.is_navigation_request() and request.redirected_from is None:
            actions.append(request.method)

    page.on("request", note_action)
    await page.keyboard.press("/")
    await page.keyboard.type(order.id)
    await page.locator(".suggestions").get_by_role("link").first.click()
    await page.get_by_role("link", name="Refund").click()
    await page.get_by_role("dialog").get_by_role("button", name="Refund $9.99").click()
    await page.wait_for_url(f"{home}/payments/{order.id}?refund=*")
    assert actions == ["GET", "GET", "POST"]
    await page.close()
