"""A browser creates, copies and replaces API keys on the pages for developers."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_checks import UNFOLD, problems_on_all_displays
from browser.page_members import create_merchant, join
from opentill import epay
from opentill.db.clock import now_ms
from opentill.db.database import Tx

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_key_is_created_copied_and_replaced_on_pages_that_fit_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    app = page_server.state.app
    url = str(app.settings.public_url)
    merchant_id, link = await create_merchant(page_server, "developer")

    async def enable_epay(tx: Tx) -> None:
        await epay.enable(tx, app.settings, merchant_id, now_ms())
        await epay.create_key_pair(tx, app.settings.secret_key, merchant_id, now_ms())

    await app.db.run(enable_epay)
    context = await browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    page.set_default_timeout(10_000)
    await join(page, url + link.path)

    await page.get_by_role("link", name="Developers").click()
    await page.locator("#main").get_by_role("link", name="Create API key").click()
    await page.get_by_label("Name").fill("Shop 商店")
    await page.get_by_label("Restricted").check()  # a developer gives no full access
    await page.get_by_role("group", name="Payments").get_by_label("Read").check()
    await page.locator("#create").get_by_role("button", name="Create API key").click()
    await page.get_by_role("button", name="Copy").click()
    await page.get_by_role("button", name="Copied").wait_for()
    key = await page.evaluate("navigator.clipboard.readText()")
    assert key.startswith("svc_live_")
    response = await context.request.get(f"{url}/v1/orders?nothing=1", headers={"x-api-key": key})
    assert response.status == 400
    await page_server.state.refused.write(app.db)
    developers = f"{url}/dashboard/{merchant_id}/developers"
    await page.goto(f"{developers}/requests")
    assert await page.get_by_text("GET /v1/orders?nothing=…").is_visible()
    await page.get_by_role("link", name="Shop 商店").click()
    key_page = page.url

    violations: list[object] = []
    paths = [f"{developers}{path}" for path in ("", "/keys", "/requests", "/epay")]
    for path in (*paths, key_page):  # test_accessibility.py checks the English pages
        await page.goto(f"{path}?lang=zh-Hant")
        await page.evaluate(UNFOLD)
        violations += await problems_on_all_displays(page)
    assert violations == []

    await page.goto(f"{key_page}?lang=en")
    await page.get_by_role("button", name="Replace", exact=True).click()
    form = page.locator("form", has=page.get_by_role("button", name="Replace key"))
    await form.get_by_label("to confirm").fill(key[-4:])
    await form.get_by_role("button", name="Replace key").click()
    assert await page.get_by_text("Your new key: Shop 商店").is_visible()
    response = await context.request.get(f"{url}/v1/balance", headers={"x-api-key": key})
    assert response.status == 401
    await context.close()
