"""An endpoint in a real browser without any script: added, tested, and how its page looks."""

from typing import Final

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.db.clock import now_ms
from support.page_checks import looked_at
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
NOWHERE: Final = "https://shop.invalid/hook"  # RFC 2606: no such host, ever


async def test_the_result_of_a_test_comes_by_itself_and_can_be_read_on_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    db = page_server.state.app.db
    shop = await db.run(lambda tx: merchants.create(tx, name="Harbour Books", now=now_ms()))
    email = address()
    link = await db.run(
        lambda tx: people.invite(
            tx, email, now_ms(), merchant_id=shop.id, role="owner", actor=TESTER
        )
    )
    url = str(page_server.state.settings.public_url)
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(url + link.path)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()
    await page.goto(f"{url}/dashboard/{shop.id}/developers/webhooks")
    await page.get_by_label("Address").fill(NOWHERE)
    await page.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_text("The endpoint was added.").wait_for()
    await page.get_by_role("button", name="Send a test event").click()
    await page.get_by_text("Your server has not taken it.").wait_for()  # nobody pressed anything
    wrong: list[object] = []
    for language in ("en", "zh-Hant"):
        await page.goto(f"{page.url.partition('&')[0]}&lang={language}")
        wrong += await looked_at(page)
    await context.close()
    assert wrong == []
