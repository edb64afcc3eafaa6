"""Members of merchants in a browser: their invitation, and the form that accepts it."""

from playwright.async_api import Page
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.people import MerchantRole, NewLink
from support.people import PASSWORD, TESTER, new_address


async def invite_member(
    server: Starlette, merchant_id: str, role: MerchantRole = "owner"
) -> NewLink:
    """Invite a new person to a merchant."""

    async def invite(tx: Tx) -> NewLink:
        return await people.invite(
            tx, new_address(), now_ms(), merchant_id=merchant_id, role=role, actor=TESTER
        )

    link: NewLink = await server.state.app.db.run(invite)
    return link


async def create_merchant(server: Starlette, role: MerchantRole = "owner") -> tuple[str, NewLink]:
    """Create a merchant and invite its first member; return the merchant's id and the link."""

    async def create(tx: Tx) -> Merchant:
        return await merchants.create(tx, name="Harbour Books", now=now_ms())

    merchant: Merchant = await server.state.app.db.run(create)
    return merchant.id, await invite_member(server, merchant.id, role)


async def join(page: Page, url: str) -> None:
    """Accept the invitation at this address."""
    await page.goto(url)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Create account").click()
