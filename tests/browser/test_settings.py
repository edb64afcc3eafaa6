"""A merchant sees the accent color on a preview while choosing it."""

import re

import pytest
from playwright.async_api import Browser, Dialog, expect
from starlette.applications import Starlette

from browser.page_members import create_merchant
from opentill import people
from opentill.db.clock import now_ms
from support.people import CHEAP_HASH, PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
async def test_the_accent_color_is_previewed(
    browser: Browser, page_server: Starlette, *, scripts: bool
) -> None:
    merchant_id, link = await create_merchant(page_server)
    db, visitor = page_server.state.app.db, people.Browser("127.0.0.1", "Testfox")
    login = await people.join(
        db, link.token, "Ada Example", PASSWORD, visitor, now_ms(), cost=CHEAP_HASH
    )
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(java_script_enabled=scripts)
    context.set_default_timeout(20_000)
    await context.add_cookies([{"name": "opentill", "value": login.token, "url": url}])
    page = await context.new_page()
    await page.goto(f"{url}/dashboard/{merchant_id}/settings/branding")
    preview = page.locator("#accent-preview")
    if scripts:
        await page.get_by_label("Choose the accent color").fill("#2b59ff")
        await expect(page.get_by_label("Accent color", exact=True)).to_have_value("#2b59ff")
    else:
        await page.get_by_label("Accent color").fill("2B59FF")
        await page.get_by_role("button", name="Preview").click()
    await expect(preview).to_have_attribute("src", re.compile("preview[.]svg[?]color=2b59ff"))
    assert await preview.evaluate("image => image.complete && image.naturalWidth > 0")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_text("The change is saved.")).to_be_visible()
    await context.close()


async def test_saving_needs_a_change_and_asks_before_others_are_lost(
    browser: Browser, page_server: Starlette
) -> None:
    merchant_id, link = await create_merchant(page_server)
    db, visitor = page_server.state.app.db, people.Browser("127.0.0.1", "Testfox")
    login = await people.join(
        db, link.token, "Ada Example", PASSWORD, visitor, now_ms(), cost=CHEAP_HASH
    )
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context()
    context.set_default_timeout(20_000)
    await context.add_cookies([{"name": "opentill", "value": login.token, "url": url}])
    page = await context.new_page()
    await page.goto(f"{url}/dashboard/{merchant_id}/settings")
    saves = page.get_by_role("button", name="Save", exact=True)
    for number in range(3):
        await expect(saves.nth(number)).to_be_disabled()
    dialog_types: list[str] = []

    async def stay(dialog: Dialog) -> None:
        dialog_types.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    name, tax = page.locator("#display_name"), page.locator("#tax_number")
    await name.press_sequentially("Tea House")
    await expect(saves.nth(0)).to_be_enabled()
    await expect(saves.nth(2)).to_be_disabled()
    await tax.press_sequentially("DE123")
    await saves.nth(0).click(no_wait_after=True)
    await page.wait_for_timeout(500)
    assert dialog_types == ["beforeunload"]
    await expect(tax).to_have_value("DE123")
    await tax.fill("")
    await expect(saves.nth(2)).to_be_disabled()
    await saves.nth(0).click()
    await expect(page.get_by_text("The change is saved.")).to_be_visible()
    assert dialog_types == ["beforeunload"]
    await context.close()
