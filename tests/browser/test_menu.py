"""Menus on a phone open within the screen: that of the pages, and that of a page's actions."""

import pytest
from playwright.async_api import Browser, expect
from starlette.applications import Starlette

from browser.page_members import create_merchant, join
from opentill import people
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from support.people import TESTER, new_address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PAGES = ("", "balance", "developers/keys", "agreement")


async def test_the_menu_of_a_phone_shows_close_the_shop_and_the_current_page(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await create_merchant(page_server)
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(viewport={"width": 390, "height": 600})
    page = await context.new_page()
    await join(page, url + link.path)
    name = await page.locator(".top .brand bdi").inner_text()
    for path in PAGES:
        await page.goto(f"{url}/dashboard/{shop}/{path}")
        await page.get_by_role("button", name="Menu").click()
        menu = page.get_by_role("navigation", name="Menu")
        close = menu.get_by_role("button", name="Close the menu")
        await expect(close).to_be_in_viewport(ratio=1)
        await expect(menu.locator(".menu-head", has_text=name)).to_be_in_viewport(ratio=1)
        current = menu.locator('[aria-current="page"]')
        await expect(current).to_be_in_viewport(ratio=1)
        head, here = await close.bounding_box(), await current.bounding_box()
        assert head is not None
        assert here is not None
        assert here["y"] >= head["y"] + head["height"], path
    await close.click()
    await expect(menu).to_be_hidden()
    await page.get_by_role("button", name="Menu").click()
    await menu.get_by_role("button", name="Log out").click()
    await page.wait_for_url(f"{url}/login")
    await context.close()


async def test_the_actions_of_a_page_open_within_a_narrow_screen(
    browser: Browser, page_server: Starlette
) -> None:
    app, url = page_server.state.app, str(page_server.state.settings.public_url)
    shop, _ = await create_merchant(page_server)

    async def invite(tx: Tx) -> people.NewLink:
        return await people.invite(tx, new_address(), now_ms(), staff_role="admin", actor=TESTER)

    link = await app.db.run(invite)
    context = await browser.new_context(viewport={"width": 320, "height": 800})
    page = await context.new_page()
    await join(page, url + link.path)
    await page.goto(f"{url}/console/merchants/{shop}")
    await page.locator(".page-head details.drop > summary").click()
    menu = page.locator(".page-head details.drop > div")
    await expect(menu.get_by_role("link", name="Bank account")).to_be_visible()
    box = await menu.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320
    await context.close()
