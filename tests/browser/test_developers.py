"""The developers' pages in a real browser: a key is made and copied, and how they look."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from opentill import epay, merchants, people
from opentill.db.clock import now_ms
from support.page_checks import looked_at
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PARTS = ("", "/keys", "/requests", "/epay")


async def test_a_key_is_made_copied_used_and_replaced_and_every_page_can_be_read(
    browser: Browser, page_server: Starlette
) -> None:
    app = page_server.state.app
    url = str(app.settings.public_url)
    shop = await app.db.run(lambda tx: merchants.create(tx, name="Harbour Books", now=now_ms()))
    link = await app.db.run(
        lambda tx: people.invite(
            tx, address(), now_ms(), merchant_id=shop.id, role="developer", actor=TESTER
        )
    )
    await app.db.run(lambda tx: epay.enable(tx, app.settings, shop.id, now_ms()))
    context = await browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = await context.new_page()
    page.set_default_timeout(10_000)
    await page.goto(url + link.path)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()

    await page.get_by_role("link", name="Developers").click()
    await page.get_by_role("link", name="API keys").click()
    await page.get_by_label("Name").fill("Shop 商店")
    await page.get_by_label("orders:read").check()  # a developer's key is a restricted one
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_role("button", name="Copy").click()
    await page.get_by_role("button", name="Copied").wait_for()
    key = await page.evaluate("navigator.clipboard.readText()")
    assert key.startswith("svc_live_")
    answer = await context.request.get(f"{url}/v1/orders?nothing=1", headers={"x-api-key": key})
    assert answer.status == 400
    await page_server.state.refused.write(app.db)
    place = f"{url}/dashboard/{shop.id}/developers"
    await page.goto(f"{place}/requests")
    assert await page.get_by_text("GET /v1/orders?nothing=…").is_visible()
    await page.get_by_role("link", name="Shop 商店").click()
    one = page.url.removeprefix(place)

    wrong: list[object] = []
    for part in (*PARTS, one):
        # In English: test_accessibility.py
        await page.goto(f"{place}{part}?lang=zh-Hant")
        wrong += await looked_at(page)
    assert wrong == []

    await page.goto(f"{place}{one}?lang=en")
    form = page.locator("form", has=page.get_by_role("button", name="Replace this key"))
    await form.get_by_label("to confirm").fill(key[-4:])
    await form.get_by_role("button").click()
    assert await page.get_by_text("Your new key: Shop 商店").is_visible()
    answer = await context.request.get(f"{url}/v1/balance", headers={"x-api-key": key})
    assert answer.status == 401
    await context.close()
