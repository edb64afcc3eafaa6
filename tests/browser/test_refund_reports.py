"""Refunds that came back or were made at the provider, as the merchant and staff see them."""

import pytest
from playwright.async_api import Browser, Page
from starlette.applications import Starlette

from opentill import orders, people
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.orders import Order
from support import world
from support.page_checks import looked_at
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def _refunded_at_the_gateway(tx: Tx) -> Order:
    """Refund at the gateway, have it reversed, and refund more than there is."""
    order = await world.in_status(tx, "SETTLED", name="Harbour Books")
    for status in ("SUCCEEDED", "REFUSED"):
        await world.refund_reported(tx, order, status, now_ms(), minor=400, ref="re_1")
    await world.refund_reported(tx, order, "SUCCEEDED", now_ms(), minor=300, ref="re_2")
    await world.refund_reported(tx, order, "SUCCEEDED", now_ms(), minor=800, ref="re_3")
    return await orders.find(tx, order.merchant_id, order.id)


async def _join(page: Page, url: str) -> None:
    await page.goto(url)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()


async def test_the_merchant_sees_what_the_provider_did(
    browser: Browser, page_server: Starlette
) -> None:
    db = page_server.state.app.db
    url = str(page_server.state.settings.public_url)
    order = await db.run(_refunded_at_the_gateway)
    link = await db.run(
        lambda tx: people.invite(
            tx, address(), now_ms(), merchant_id=order.merchant_id, role="owner", actor=TESTER
        )
    )
    context = await browser.new_context()
    page = await context.new_page()
    await _join(page, url + link.path)
    wrong: list[object] = []
    for language, text in (
        ("en", "was reversed; the money is back on the balance"),
        ("zh-Hant", "已被沖回"),
    ):
        await page.goto(f"{url}/dashboard/{order.merchant_id}/payments/{order.id}?lang={language}")
        assert await page.get_by_text(text).first.is_visible()
        wrong += await looked_at(page)
    await context.close()
    assert wrong == []
