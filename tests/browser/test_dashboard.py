"""Invitations and passkeys work in a browser, and the dashboard's pages fit every device."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from playwright.async_api import Browser, Page
from starlette.applications import Starlette

from browser.browser_user import BrowserUser
from browser.page_checks import problems_on_all_displays
from browser.page_members import create_merchant, follow_menu, join
from opentill import merchants, people
from opentill.db.clock import now_ms
from support.people import PASSWORD, TESTER

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PHONE: Final = {"width": 390, "height": 844}


def _url(server: Starlette) -> str:
    """Return the public URL with a host name, because passkeys do not work with IP addresses."""
    return str(server.state.settings.public_url).replace("127.0.0.1", "localhost")


@asynccontextmanager
async def _page(browser: Browser, **options: object) -> AsyncIterator[Page]:
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(60_000)
    yield page
    await context.close()


async def test_an_owner_joins_and_invites_without_scripts(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await create_merchant(page_server)
    url = _url(page_server)
    async with _page(browser, java_script_enabled=False) as page:
        await join(page, url + link.path)
        assert page.url == f"{url}/dashboard/{shop}/"
        await follow_menu(page, "Team")
        await page.get_by_role("button", name="Invite a member").click()
        await page.get_by_label("Email").fill("bob@example.com")
        await page.get_by_label("Support").check()
        await page.get_by_role("button", name="Create link").click()
        assert await page.get_by_text("bob@example.com is invited").is_visible()
        await page.get_by_text("Ada Example").first.click()
        await page.get_by_role("button", name="Log out").click()
        assert page.url == f"{url}/login"
        await page.get_by_label("Email").fill(link.link.email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in", exact=True).click()
        assert page.url == f"{url}/dashboard/{shop}/"


async def test_pages_of_links_hide_the_field_for_password_managers(
    browser: Browser, page_server: Starlette
) -> None:
    _, link = await create_merchant(page_server)
    url = _url(page_server)
    db = page_server.state.app.db
    read_size = "e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height]"
    username = "input[autocomplete=username]"  # the field is hidden: only its border has a size
    async with _page(browser, viewport=PHONE) as page:
        await page.goto(url + link.path)
        assert max(await page.locator(username).evaluate(read_size)) <= 8
        owner = await BrowserUser.accept_invitation(browser, url, link.link.email, url + link.path)
        await owner.set_up_authenticator()
        await owner.page.context.close()
        reset = await db.run(
            lambda tx: people.offer_new_password(tx, link.link.email, now_ms(), actor=TESTER)
        )
        await page.goto(url + reset.path)
        assert max(await page.locator(username).evaluate(read_size)) <= 8
        box = await page.locator("[name=lost]").bounding_box()
        label = await page.get_by_text("I have lost all of my second").bounding_box()
        assert box is not None
        assert label is not None
        assert max(box["width"], box["height"]) <= 28
        assert box["x"] + box["width"] <= label["x"]


async def test_the_name_of_a_member_of_two_merchants_fits_on_one_line_of_the_header(
    browser: Browser, page_server: Starlette
) -> None:
    _, link = await create_merchant(page_server)
    url = _url(page_server)
    db = page_server.state.app.db
    owner = await BrowserUser.accept_invitation(browser, url, link.link.email, url + link.path)
    second_shop = await db.run(lambda tx: merchants.create(tx, name="Tea House", now=now_ms()))
    async with db.transaction() as tx:
        person = await people.find_by_email(tx, link.link.email)
        await tx.execute("update persons set name = 'Owner' where id = $1", person.id)
        await tx.execute(
            "insert into members (merchant_id, person_id, role, created_at)"
            " values ($1, $2, 'owner', $3)",
            second_shop.id, person.id, now_ms(),
        )  # fmt: skip
    page = owner.page
    await page.set_viewport_size(PHONE)
    await page.goto(f"{url}/dashboard/{second_shop.id}/team")
    assert await page.get_by_text("Switch merchant").is_visible()
    count_lines = """e => { const range = document.createRange(); range.selectNodeContents(e);
                      return range.getClientRects().length; }"""
    assert await page.locator("header .drop.right summary bdi").evaluate(count_lines) == 1
    await page.context.close()


async def test_a_passkey_logs_in_without_a_password(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await create_merchant(page_server)
    url = _url(page_server)
    async with _page(browser) as page:
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("WebAuthn.enable")
        await devtools.send(
            "WebAuthn.addVirtualAuthenticator",
            {
                "options": {
                    "protocol": "ctap2",
                    "transport": "internal",
                    "hasResidentKey": True,
                    "hasUserVerification": True,
                    "isUserVerified": True,
                    "automaticPresenceSimulation": True,
                }
            },
        )
        await join(page, url + link.path)
        await page.goto(f"{url}/security")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_label("Name").fill("Test key")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_role("heading", name="Your recovery codes").wait_for()
        await page.get_by_label("I have saved them in a safe place").check()
        await page.get_by_role("button", name="Done").click()
        assert await page.get_by_text("Test key").first.is_visible()
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")
        for _ in range(2):  # the button on the login page opens a page with the same button
            await page.get_by_role("button", name="Log in with a passkey").click()
            await page.wait_for_load_state()
        await page.wait_for_url(f"{url}/dashboard/{shop}/")
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")  # a login with a password requires the second factor too
        await page.get_by_label("Email").fill(link.link.email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in", exact=True).click()
        await page.get_by_role("heading", name="Use your passkey").wait_for()
        await page.get_by_role("button", name="Use your passkey").click()
        await page.wait_for_url(f"{url}/dashboard/{shop}/")
        db = page_server.state.app.db
        async with db.transaction() as tx:
            await tx.execute("update logins set proved_at = 0")
        await page.goto(f"{url}/dashboard/{shop}/team")
        await page.get_by_role("button", name="Invite a member").click()
        await page.get_by_label("Email").fill("eve@example.com")
        await page.get_by_role("button", name="Create link").click()
        await page.get_by_role("button", name="Confirm with your passkey").click()
        await page.get_by_text("eve@example.com is invited").wait_for()


async def test_every_page_of_the_dashboard_fits_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await create_merchant(page_server)
    url = _url(page_server)
    violations: list[object] = []
    async with _page(browser) as page:
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        await join(page, url + link.path)
        await page.goto(f"{url}/security")
        await page.get_by_role("button", name="Set up an authenticator").click()
        paths = (
            "/security",
            "/security/authenticator",
            f"/dashboard/{shop}/",
            f"/dashboard/{shop}/team",
            f"/dashboard/{shop}/settings",
            f"/dashboard/{shop}/settings/branding",
            f"/dashboard/{shop}/agreement",
            f"/dashboard/{shop}/balance",
            f"/dashboard/{shop}/balance/statement",
            f"/dashboard/{shop}/payouts",
            f"/dashboard/{shop}/payouts/account",
            f"/dashboard/{shop}/developers/webhooks",
            f"/dashboard/{shop}/developers/events",
        )
        # test_accessibility.py checks all linked pages in English.
        unlinked = (
            "/security/authenticator?lang=en",
            "/dashboard/x?lang=en",
            f"/dashboard/{shop}/search?lang=en&q=tea",
        )
        for path in (*(f"{path}?lang=zh-Hant" for path in (*paths, "/dashboard/x")), *unlinked):
            await page.goto(url + path)
            violations += await problems_on_all_displays(page)
        assert violations == []
        assert [message for message in messages if "404" not in message] == []
