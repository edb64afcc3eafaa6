"""Members of merchants in a browser: invitations, the form that accepts one, lost passkeys."""

from playwright.async_api import Page
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.people import MerchantRole, NewLink, NewLogin
from opentill.people import queries as people_queries
from opentill.people.model import Passkey
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


async def lose_passkey(tx: Tx, login: NewLogin, now: int) -> tuple[str, str]:
    """Add a passkey and request a reset of the second factors.

    Returns the paths of a link for a new password and of the link that stops the reset.
    """
    person = login.person
    passkey = Passkey(
        id=new_id("pk"), person_id=person.id, credential=person.id.encode(), public_key=b"x",
        sign_count=0, name="Phone", created_at=now, used_at=None,
    )  # fmt: skip
    await people_queries.INSERT_PASSKEY.run(tx, passkey)
    await people.lost_factors.request_reset(tx, person.email, now, actor=TESTER, wait_ms=3_600_000)
    reset = await people.offer_new_password(tx, person.email, now, actor=TESTER)
    stop_path = await people.lost_factors.new_stop_link(tx, person.email)
    assert stop_path is not None
    return reset.path, stop_path


async def follow_menu(page: Page, name: str) -> None:
    """Follow a link of the menu; the group of another page is opened first."""
    menu = page.get_by_role("navigation", name="Menu")
    folded = menu.locator("details:not([open])", has=page.locator("a", has_text=name))
    if await folded.count():
        await folded.locator("summary").click()
    await menu.get_by_role("link", name=name).click()
