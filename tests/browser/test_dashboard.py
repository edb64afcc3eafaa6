"""The dashboard in a real browser: from the invitation on, passkeys, and how it looks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from playwright.async_api import Browser, Page
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.db.clock import now_ms
from opentill.people import NewLink
from support.console_staff import Human
from support.page_checks import looked_at
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PHONE: Final = {"width": 390, "height": 844}
LOCAL: Final = "localhost"  # browsers make no passkeys for numbers


async def _invited(server: Starlette) -> tuple[str, NewLink]:
    """Make a merchant and invite its owner; the merchant's id and the link."""
    db = server.state.app.db
    shop = await db.run(lambda tx: merchants.create(tx, name="Harbour Books", now=now_ms()))
    link = await db.run(
        lambda tx: people.invite(
            tx, address(), now_ms(), merchant_id=shop.id, role="owner", actor=TESTER
        )
    )
    return shop.id, link


def _url(server: Starlette) -> str:
    return str(server.state.settings.public_url).replace("127.0.0.1", LOCAL)


@asynccontextmanager
async def _page(browser: Browser, **options: object) -> AsyncIterator[Page]:
    context = await browser.new_context(**options)  # type: ignore[arg-type]
    page = await context.new_page()
    page.set_default_timeout(60_000)
    yield page
    await context.close()


async def _join(page: Page, url: str, link: NewLink) -> None:
    await page.goto(url + link.path)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()


async def test_an_owner_joins_and_invites_without_any_script(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await _invited(page_server)
    url = _url(page_server)
    async with _page(browser, java_script_enabled=False) as page:
        await _join(page, url, link)
        assert page.url == f"{url}/dashboard/{shop}/"
        await page.get_by_role("link", name="Team").click()
        await page.get_by_label("E-mail").fill("bob@example.com")
        await page.get_by_label("Role", exact=True).select_option("support")
        await page.get_by_role("button", name="Make an invitation").click()
        assert await page.get_by_text("bob@example.com is invited").is_visible()
        await page.get_by_text("Ada Example").first.click()
        await page.get_by_role("button", name="Log out").click()
        assert page.url == f"{url}/login"
        await page.get_by_label("E-mail").fill(link.link.email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in", exact=True).click()
        assert page.url == f"{url}/dashboard/{shop}/"


async def test_pages_of_links_show_only_what_a_person_fills_in(
    browser: Browser, page_server: Starlette
) -> None:
    _, link = await _invited(page_server)
    url = _url(page_server)
    db = page_server.state.app.db
    size = "e => [e.getBoundingClientRect().width, e.getBoundingClientRect().height]"
    username = (
        "input[autocomplete=username]"  # for programs that keep passwords: a border is all of it
    )
    async with _page(browser, viewport=PHONE) as page:
        await page.goto(url + link.path)
        assert max(await page.locator(username).evaluate(size)) <= 8
        owner = await Human.invited(browser, url, link.link.email, url + link.path)
        await owner.set_up_authenticator()
        await owner.page.context.close()
        reset = await db.run(
            lambda tx: people.offer_new_password(tx, link.link.email, now_ms(), actor=TESTER)
        )
        await page.goto(url + reset.path)
        assert max(await page.locator(username).evaluate(size)) <= 8
        box = await page.locator("[name=lost]").bounding_box()
        label = await page.get_by_text("I have lost all of my second").bounding_box()
        assert box is not None
        assert label is not None
        assert max(box["width"], box["height"]) <= 28
        assert box["x"] + box["width"] <= label["x"]


async def test_the_header_of_somebody_with_two_merchants_keeps_their_name_on_a_line(
    browser: Browser, page_server: Starlette
) -> None:
    _, link = await _invited(page_server)
    url = _url(page_server)
    db = page_server.state.app.db
    owner = await Human.invited(browser, url, link.link.email, url + link.path)
    other = await db.run(lambda tx: merchants.create(tx, name="Tea House", now=now_ms()))
    async with db.transaction() as tx:
        person = await people.find_by_email(tx, link.link.email)
        await tx.execute("update persons set name = 'Owner' where id = $1", person.id)
        await tx.execute(
            "insert into members (merchant_id, person_id, role, created_at)"
            " values ($1, $2, 'owner', $3)",
            other.id, person.id, now_ms(),
        )  # fmt: skip
    page = owner.page
    await page.set_viewport_size(PHONE)
    await page.goto(f"{url}/dashboard/{other.id}/team")
    assert await page.get_by_text("Switch merchant").is_visible()
    lines = """e => { const range = document.createRange(); range.selectNodeContents(e);
                      return range.getClientRects().length; }"""
    assert await page.locator("header .drop.right summary bdi").evaluate(lines) == 1
    await page.context.close()


async def test_a_passkey_is_made_and_logs_in_without_a_password(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await _invited(page_server)
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
        await _join(page, url, link)
        await page.goto(f"{url}/security")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_label("Name").fill("Test key")
        await page.get_by_role("button", name="Add a passkey").click()
        await page.get_by_role("heading", name="Your recovery codes").wait_for()
        await page.get_by_role("link", name="I have kept them").click()
        assert await page.get_by_text("Test key").first.is_visible()
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")
        for _ in range(2):  # to the page that asks for it, and there
            await page.get_by_role("button", name="Log in with a passkey").click()
            await page.wait_for_load_state()
        await page.wait_for_url(f"{url}/dashboard/{shop}/")
        await page.context.clear_cookies()
        await page.goto(f"{url}/login")  # by the password, which is not enough
        await page.get_by_label("E-mail").fill(link.link.email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Log in", exact=True).click()
        await page.get_by_role("heading", name="Confirm your second factor").wait_for()
        await page.get_by_role("button", name="Use your passkey").click()
        await page.wait_for_url(f"{url}/dashboard/{shop}/")
        db = page_server.state.app.db
        async with db.transaction() as tx:
            await tx.execute("update logins set proved_at = 0")
        await page.goto(f"{url}/dashboard/{shop}/team")
        await page.get_by_label("E-mail").fill("eve@example.com")
        await page.get_by_role("button", name="Make an invitation").click()
        await page.get_by_role("button", name="Confirm with your passkey").click()
        await page.get_by_text("eve@example.com is invited").wait_for()


async def test_every_page_can_be_read_and_pressed_on_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    shop, link = await _invited(page_server)
    url = _url(page_server)
    wrong: list[object] = []
    async with _page(browser) as page:
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        await _join(page, url, link)
        await page.goto(f"{url}/security")
        await page.get_by_role("button", name="Set up an authenticator").click()
        paths = (
            "/security",
            "/security/authenticator",
            f"/dashboard/{shop}/",
            f"/dashboard/{shop}/team",
            f"/dashboard/{shop}/settings",
            f"/dashboard/{shop}/agreement",
            f"/dashboard/{shop}/balance",
            f"/dashboard/{shop}/balance/statement",
            f"/dashboard/{shop}/payouts",
            f"/dashboard/{shop}/payouts/account",
            f"/dashboard/{shop}/developers/webhooks",
            f"/dashboard/{shop}/developers/events",
        )
        # In English test_accessibility.py looks at all pages that links lead to.
        unlinked = ("/security/authenticator?lang=en", "/dashboard/x?lang=en")
        for path in (*(f"{one}?lang=zh-Hant" for one in (*paths, "/dashboard/x")), *unlinked):
            await page.goto(url + path)
            wrong += await looked_at(page)
        assert wrong == []
        assert [one for one in complaints if "404" not in one] == []
