"""The list of payments updates itself in a browser, under the content security policy."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.page_members import create_merchant, join
from opentill import checkouts
from opentill.checkouts.model import SessionBody
from opentill.db.clock import now_ms
from opentill.products import service as products
from opentill.products.model import ProductBody

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_new_payment_appears_without_a_reload_and_the_focus_stays(
    browser: Browser, page_server: Starlette
) -> None:
    db = page_server.state.app.db
    url = str(page_server.state.settings.public_url)
    merchant_id, link = await create_merchant(page_server)
    mug = ProductBody(name="A mug", price="9.99", currency="USD")
    product = await db.run(lambda tx: products.create(tx, merchant_id, mug, now_ms()))

    async def open_session(email: str) -> None:
        body = SessionBody(product_id=product.id, customer_email=email)
        await db.run(lambda tx: checkouts.open_session(tx, merchant_id, body, now_ms()))

    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(20_000)
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    await join(page, url + link.path)
    await open_session("first@example.com")
    await page.goto(f"{url}/dashboard/{merchant_id}/payments")
    assert await page.get_by_text("New payments appear automatically.").is_visible()
    first_link = page.get_by_role("link", name="first@example.com")
    await first_link.focus()
    await open_session("second@example.com")
    await page.get_by_role("link", name="second@example.com").wait_for()
    assert await first_link.evaluate("e => e === document.activeElement")
    assert await page.get_by_role("status").inner_text() == "The list has changed. Payments: 2"
    await context.clear_cookies()
    await page.wait_for_url(f"{url}/login?next=*")
    assert all("403" in message for message in messages)
    await context.close()
