"""The list of payments in a real browser: new payments appear, by what the policy allows."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from opentill import checkouts, merchants, people
from opentill.checkouts.model import SessionBody
from opentill.db.clock import now_ms
from opentill.products import service as products
from opentill.products.model import ProductBody
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_new_payment_appears_by_itself_and_focus_stays(
    browser: Browser, page_server: Starlette
) -> None:
    db = page_server.state.app.db
    url = str(page_server.state.settings.public_url)
    shop = await db.run(lambda tx: merchants.create(tx, name="Harbour Books", now=now_ms()))
    link = await db.run(
        lambda tx: people.invite(
            tx, address(), now_ms(), merchant_id=shop.id, role="owner", actor=TESTER
        )
    )
    mug = ProductBody(name="A mug", price="9.99", currency="USD")
    product = await db.run(lambda tx: products.create(tx, shop.id, mug, now_ms()))

    async def order(email: str) -> None:
        body = SessionBody(product_id=product.id, customer_email=email)
        await db.run(lambda tx: checkouts.open_session(tx, shop.id, body, now_ms()))

    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(20_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    await page.goto(url + link.path)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()
    await order("first@example.com")
    await page.goto(f"{url}/dashboard/{shop.id}/payments")
    assert await page.get_by_text("New payments appear by themselves.").is_visible()
    first = page.get_by_role("link", name="first@example.com")
    await first.focus()
    await order("second@example.com")
    await page.get_by_role("link", name="second@example.com").wait_for()
    assert await first.evaluate("e => e === document.activeElement")
    assert await page.get_by_role("status").inner_text() == "The list has changed. Payments: 2"
    await context.clear_cookies()
    await page.wait_for_url(f"{url}/login?next=*")  # nobody else reads on at this desk
    assert complaints == [] or all("403" in one for one in complaints)
    await context.close()
