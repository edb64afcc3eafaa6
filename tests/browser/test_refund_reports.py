"""Merchants see reversed refunds and refunds made at the provider."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_checks import problems_on_all_displays
from browser.page_members import invite_member, join
from opentill import orders
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.orders import Order
from support import world

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def _report_refunds(tx: Tx) -> Order:
    """Report a refund and its reversal, another refund, and one that exceeds the payment."""
    order = await world.create_order_in(tx, "SETTLED", name="Harbour Books")
    for status in ("SUCCEEDED", "REFUSED"):
        await world.report_refund_event(tx, order, status, now_ms(), minor=400, ref="re_1")
    await world.report_refund_event(tx, order, "SUCCEEDED", now_ms(), minor=300, ref="re_2")
    await world.report_refund_event(tx, order, "SUCCEEDED", now_ms(), minor=800, ref="re_3")
    return await orders.find(tx, order.merchant_id, order.id)


async def test_the_merchant_sees_refunds_made_at_the_provider(
    browser: Browser, page_server: Starlette
) -> None:
    url = str(page_server.state.settings.public_url)
    order = await page_server.state.app.db.run(_report_refunds)
    link = await invite_member(page_server, order.merchant_id)
    context = await browser.new_context()
    page = await context.new_page()
    await join(page, url + link.path)
    violations: list[object] = []
    for language, text in (
        ("en", "was reversed; the money is back in the balance"),
        ("zh-Hant", "已被沖回"),
    ):
        await page.goto(f"{url}/dashboard/{order.merchant_id}/payments/{order.id}?lang={language}")
        assert await page.get_by_text(text).first.is_visible()
        violations += await problems_on_all_displays(page)
    await context.close()
    assert violations == []
