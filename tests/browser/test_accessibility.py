"""Every page for members and staff meets WCAG 2.2 AA, by the rules of axe-core."""

import io
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Error, Page
from starlette.applications import Starlette

from browser.layout_checks import layout_problems
from browser.page_checks import display_problems, each_display, problems_on_all_displays
from browser.page_members import invite_member, lose_passkey
from browser.second_account import add_account_and_rule, add_own_account
from opentill import disputes, mail, merchants, orders, payouts, people, reconciliation, webhooks
from opentill.app import PORTALS
from opentill.cli.demo_history import History
from opentill.core.ids import new_id
from opentill.core.languages import ENGLISH, Language, offered
from opentill.db.clock import now_ms
from opentill.people import Browser as Device
from support import world
from support.examples import is_night
from support.javascript import npm_ci
from support.once import once
from support.payout_runs import ANN, SOURCE_ACCOUNT, create_payee, run_request
from support.people import CHEAP_HASH, PASSWORD, TESTER, new_address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
_AXE: Final = Path(__file__).parent / "axe"
# The rules of WCAG 2.2, levels A and AA, and the recommendations of axe-core.
_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Slow rules of axe-core, which `browser/page_checks.py` checks in all sizes and schemes.
_SLOW_RULES: Final = ["color-contrast", "target-size"]
# For each device and color scheme, the rules that axe-core skips. The nightly run skips no rule on
# a phone, and also checks a desktop, which has another layout.
_SKIPPED_RULES: Final[dict[tuple[str, str], list[str]]] = (
    {("phone", "light"): [], ("desktop", "dark"): [*_SLOW_RULES, "link-in-text-block"]}
    if is_night()
    else {("phone", "light"): _SLOW_RULES}
)
# Style sheets are not preloaded, because none of the rules needs them.
_RUN_AXE: Final = """async ([rules, without]) => (await axe.run(document, {
  resultTypes: ['violations'], runOnly: rules, elementRef: false,
  preload: { assets: ['media'] },
  rules: Object.fromEntries(without.map(name => [name, { enabled: false }])),
})).violations.map(violation =>
  [violation.id, violation.nodes.map(node => node.html.slice(0, 120))])"""
# Returns the links of a page. Opens all details, shows all sheets as cards, and removes all but two
# of the rows that have the same markup.
_UNFOLD: Final = """() => {
  const hrefs = [...document.links].map(link => link.href);
  document.querySelectorAll('details').forEach(element => element.open = true);
  document.querySelectorAll('.sheet[popover]').forEach(e => e.removeAttribute('popover'));
  const shape = e => `${e.localName}.${e.className}[${e.getAttributeNames()}]`
    + `(${[...e.children].map(shape)})`;
  const counts = new Map();
  for (const row of document.querySelectorAll('tbody tr, main li')) {
    const name = shape(row), count = counts.get(name) || 0;
    counts.set(name, count + 1);
    if (count > 1) row.remove();
  }
  return hrefs;
}"""
_FEWEST_PAGES: Final = 25  # a walk that visits fewer has lost its links
_ID: Final = re.compile(r"(?<=/)[a-z]+_[0-9a-z]{20,}")
# Pages to which no page links: pages for people who are not logged in, parts of forms, and files.
# Another test visits all of them except the files.
_UNLINKED: Final = {
    "/apply",
    "/login",
    "/login/factor",
    "/login/passkey",
    "/forgot",
    "/keep-factors/*",
    "/invite/*",
    "/reset/*",
    "/dashboard",
    "/security/authenticator",
    "/security/authenticator.svg",
    "/security/passkeys",
    "/dashboard/*/disputes/*/evidence/*",  # a file, not a page
    "/console/disputes/*/evidence/*",  # a file, not a page
    "/console/trial-balance/ledger.csv",  # a file that a form downloads
    "/console/payout-runs/*/file",  # a file whose download the page of the run starts
    "/console/payout/*",  # a former address, which redirects
    "/dashboard/*/settings/branding/preview.svg",  # an image, not a page
    "/dashboard/*/mails/*",  # in a deployment with a mail server
    "/dashboard/*/mails/*/html",  # a frame of that page
    "/dashboard/*/mails/kinds/preview/html",  # a frame of the page without /html
    "/console/mails/*",  # test_mail_preview.py visits it
    "/console/mails/*/html",  # a frame of that page
}
# Lists that need no visit, because their layout is that of the list of disputes. The list of
# unmatched disputes is visited, because it has forms.
_SAME_LAYOUT: Final = re.compile(r"/console/needs/(?!(disputes|unmatched)$)")  # fmt: skip


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, installed from its lock file."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    return (once(tmp_path_factory, "axe", _install) / "axe.min.js").read_text()


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_AXE / name, folder)
    npm_ci(folder)
    shutil.copy(folder / "node_modules" / "axe-core" / "axe.min.js", folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def owner(page_server: Starlette) -> tuple[str, str]:
    """An owner of a merchant with a month of history: the merchant's id and the login's token."""
    app, db, now = page_server.state.app, page_server.state.app.db, now_ms()

    async def create_shop(tx: Any) -> str:
        shop = await merchants.create(tx, name="Harbour Books", now=now - 31 * 86_400_000)
        await History(shop.id).happen(tx, now)
        await merchants.create_key(tx, shop.id, "production", now, merchants.KeyFields(name="Shop"))
        endpoint = webhooks.EndpointFields(url="http://127.0.0.1:8999/hook")
        check = webhooks.UrlCheck(app.outgoing.check)
        await webhooks.create(tx, shop.id, endpoint, check, app.settings.secret_key, now)
        return shop.id

    shop_id: str = await db.run(create_shop)
    link = await invite_member(page_server, shop_id)
    login = await people.join(
        db, link.token, "Ada Example", PASSWORD, Device("127.0.0.1", "Test"), now, cost=CHEAP_HASH
    )
    return shop_id, login.token


def _pattern(path: str) -> str:
    """Return the path of an address with * for each id."""
    return _ID.sub("*", urlsplit(path).path).rstrip("/")


def _all_patterns() -> set[str]:
    return {
        re.sub(r"{[^}]+}", "*", row.path).rstrip("/")
        for portal in PORTALS
        for row in portal.pages
        if row.method == "GET"
    }


async def _find_violations(page: Page) -> list[Any]:
    violations: list[Any] = []
    async for device, scheme in each_display(page):
        violations += await display_problems(page, device, scheme)
        if (skipped := _SKIPPED_RULES.get((device, scheme))) is not None:
            by_axe = await page.evaluate(_RUN_AXE, [_RULES, skipped])
            violations += [(device, scheme, *violation) for violation in by_axe]
    violations += await layout_problems(page)
    return violations


async def _follow_links(
    page: Page,
    starts: list[str],
    prefixes: tuple[str, ...],
    find_violations: Callable[[Page], Awaitable[list[Any]]] = _find_violations,
) -> tuple[set[str], dict[str, list[Any]]]:
    """Follow all links; return the patterns of the pages, and the violations by pattern.

    Only the first page of each pattern is opened, so ``starts`` must be those with most links.
    """
    queue, visited, violations = list(starts), set[str](), dict[str, list[Any]]()
    while queue:
        href = queue.pop(0)
        if _pattern(href) in visited:
            continue
        visited.add(_pattern(href))
        if not await _open_page(page, href):
            continue
        queue += [link for link in await page.evaluate(_UNFOLD) if link.startswith(prefixes)]
        if page_violations := await find_violations(page):
            violations[_pattern(href)] = page_violations
    return visited, violations


async def _find_violations_in_variants(
    browser: Browser,
    login: tuple[str, str],
    starts: list[str],
    prefixes: tuple[str, ...],
    languages: Iterable[Language] = (),
) -> dict[str, dict[str, list[Any]]]:
    """Follow all links in ``languages`` and without JavaScript, in all widths and schemes.

    ``login`` has the URL of the server and the token. Returns the violations of the layout by
    variant and pattern.
    """
    violations: dict[str, dict[str, list[Any]]] = {}
    for language, javascript in ((ENGLISH, False), *((each, True) for each in languages)):
        context = await browser.new_context(locale=language, java_script_enabled=javascript)
        await _log_in(context, *login)
        page = await context.new_page()
        visited, variant_violations = await _follow_links(
            page, starts, prefixes, _find_layout_violations
        )
        assert len(visited) > _FEWEST_PAGES, language
        assert await page.evaluate("document.documentElement.lang") == language
        if variant_violations:
            violations[f"{language}, JavaScript {javascript}"] = variant_violations
        await context.close()
    return violations


async def _find_layout_violations(page: Page) -> list[Any]:
    return [*(await problems_on_all_displays(page)), *(await layout_problems(page))]


async def _open_page(page: Page, href: str) -> bool:
    """Open an address; return False if it is a file."""
    try:
        response = await page.goto(href)
    except Error as error:
        assert "Download is starting" in error.message, href
        file = await page.context.request.get(href)
        assert file.status == 200, href
        return False
    assert response is not None
    assert response.status == 200, href
    return "html" in response.headers["content-type"]


@pytest_asyncio.fixture(loop_scope="session")
async def context(layout_browser: Browser, axe: str) -> AsyncIterator[BrowserContext]:
    """A browser context with axe-core on all pages, without a login."""
    context = await layout_browser.new_context()
    await context.add_init_script(axe)
    yield context
    await context.close()


async def _log_in(context: BrowserContext, url: str, token: str) -> None:
    await context.add_cookies([{"name": "opentill", "value": token, "url": url}])


async def test_every_page_of_the_dashboard_is_linked_and_accessible(
    layout_browser: Browser,
    context: BrowserContext,
    page_server: Starlette,
    owner: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, token = owner
    app, url = page_server.state.app, page_server.state.settings.public_url
    with_mail = msgspec.structs.replace(
        app.settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    monkeypatch.setattr(app, "settings", with_mail)

    async def send_receipt(tx: Any) -> str:
        await add_own_account(tx, app.settings, shop, now_ms())
        newest = await orders.list_newest(tx, shop, 100)
        order = next(order for order in newest if order.status == "PAID" and order.customer_email)
        await mail.send_receipt(tx, app.settings, shop, order.id, "form", now_ms())
        return order.id

    refundable_order_id = await app.db.run(send_receipt)
    key = await app.db.run(lambda tx: merchants.create_key(tx, shop, "production", now_ms()))
    error = await context.request.get(f"{url}/v1/orders?nothing=1", headers={"x-api-key": key.key})
    assert error.status == 400
    await page_server.state.refused.write(app.db)
    await _log_in(context, url, token)
    # The form of the header, and no link, leads to the page of the search.
    starts = [
        f"{url}/dashboard/{shop}/payments/{refundable_order_id}",
        f"{url}/dashboard/{shop}/",
        f"{url}/dashboard/{shop}/search?q=a",
    ]
    prefixes = (f"{url}/dashboard", f"{url}/security")
    visited, violations = await _follow_links(await context.new_page(), starts, prefixes)
    assert violations == {}
    pages = {pattern for pattern in _all_patterns() if not pattern.startswith("/console")}
    assert pages - _UNLINKED - visited == set()
    if is_night():
        others = [language for language in offered("merchant") if language != ENGLISH]
        variants = await _find_violations_in_variants(
            layout_browser, (url, token), starts, prefixes, others
        )
        assert variants == {}


async def test_every_page_of_the_console_is_linked_and_accessible(
    layout_browser: Browser,
    context: BrowserContext,
    page_server: Starlette,
    owner: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, url = page_server.state.app, page_server.state.settings.public_url
    now, device = now_ms(), Device("127.0.0.1", "Test")

    async def invite(tx: Any) -> people.NewLink:
        return await people.invite(tx, new_address(), now, staff_role="admin", actor=TESTER)

    link = await app.db.run(invite)
    form = merchants.ApplicationForm(
        merchant="Quay Tea", currency="EUR", name="Bo", email="bo@quay.example",
        website="https://quay.example", business="Tea, and what it is drunk from",
    )  # fmt: skip

    async def apply_and_dispute(tx: Any) -> None:
        await merchants.apply(tx, form, now, address="192.0.2.1")
        (dispute, *_) = await disputes.search(tx, owner[0], "OPEN")
        await disputes.set_deadline(tx, dispute.merchant_id, dispute.id, now + 3_600_000, now)
        order = await orders.find(tx, dispute.merchant_id, dispute.order_id)
        await world.report_dispute(tx, order, "OPENED", now, ref="of no order")
        await add_account_and_rule(tx, app.settings, now)

    async def start_payout_run(tx: Any) -> payouts.Run:
        rule = payouts.HoldRule(app.settings.secret_key, 3)
        await create_payee(tx, rule=rule)
        await create_payee(tx, account=None)
        return await payouts.start_run(tx, run_request("W-48"), now)

    await app.db.run(apply_and_dispute)
    run = await app.db.run(start_payout_run)
    await payouts.perform_run(app.db, run, app.settings.secret_key, now)
    report = io.BytesIO(
        b"kind,reference,amount,currency,settled_at\npayment,att_x,5.00,USD,2026-01-31"
    )
    gateway_report = reconciliation.Report(gateway="sandbox", file=report, name="november.csv")
    await reconciliation.reconcile_file(app.db, gateway_report, ANN, now)
    changed_settings = msgspec.structs.replace(
        app.settings, payout_accounts=f"EUR:{SOURCE_ACCOUNT.number}"
    )
    monkeypatch.setattr(app, "settings", changed_settings)
    login = await people.join(app.db, link.token, "Grace", PASSWORD, device, now, cost=CHEAP_HASH)
    await _log_in(context, url, login.token)
    starts = [
        f"{url}/console/payments?merchant={owner[0]}&status=PAID",
        f"{url}/console/search?q=a",
        # Only the page of a merchant without people links to it.
        f"{url}/console/merchants/{owner[0]}/members",
        # A notice on Home that counts one leads to its item and not to the list.
        f"{url}/console/needs/disputes",
    ]
    visited, violations = await _follow_links(await context.new_page(), starts, (f"{url}/console",))
    assert violations == {}
    pages = {pattern for pattern in _all_patterns() if pattern.startswith("/console")}
    missing = pages - _UNLINKED - visited
    assert {pattern for pattern in missing if not _SAME_LAYOUT.match(pattern)} == set()
    page = await context.new_page()
    for path in (f"/console/payments/{new_id('order')}", f"/dashboard/{owner[0]}/nothing"):
        response = await page.goto(url + path)
        assert response is not None
        assert response.status == 404
        assert await page.locator("nav.menu a").count() > 5
        assert await _find_violations(page) == []
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(f"{url}/console")
    heights = await page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby=gateways] tbody tr')]"
        ".map(row => row.offsetHeight)"
    )
    assert heights
    assert max(heights) < 140  # four lines; the names of all columns above each other took seven
    if is_night():
        variants = await _find_violations_in_variants(
            layout_browser, (url, login.token), starts, (f"{url}/console",)
        )
        assert variants == {}


async def test_pages_without_a_link_are_accessible(
    context: BrowserContext, page_server: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = page_server.state.app
    changed_settings = msgspec.structs.replace(
        app.settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com", applications=True
    )
    monkeypatch.setattr(app, "settings", changed_settings)
    assert await _find_violations_without_link(context, page_server) == {}


async def _find_violations_without_link(
    context: BrowserContext, page_server: Starlette
) -> dict[str, list[Any]]:
    """Return the violations on pages without a link, by path."""
    app, now, device = page_server.state.app, now_ms(), Device("127.0.0.1", "Test")
    # Passkeys need a host name instead of an IP address.
    url = page_server.state.settings.public_url.replace("127.0.0.1", "localhost")
    email = new_address()

    async def invite(tx: Any) -> people.NewLink:
        return await people.invite(tx, email, now, staff_role="auditor", actor=TESTER)

    login = await people.join(
        app.db, (await app.db.run(invite)).token, "Al", PASSWORD, device, now, cost=CHEAP_HASH
    )
    forgetful_email = email

    async def offer_new_password(tx: Any) -> people.NewLink:
        return await people.offer_new_password(tx, forgetful_email, now, actor=TESTER)

    reset = await app.db.run(offer_new_password)
    email = new_address()
    pending_login = await people.join(
        app.db, (await app.db.run(invite)).token, "Bo", PASSWORD, device, now, cost=CHEAP_HASH
    )
    reset_with_factor, stop_path = await app.db.run(lambda tx: lose_passkey(tx, pending_login, now))
    email = new_address()
    invitation = await app.db.run(invite)
    page, violations = await context.new_page(), dict[str, list[Any]]()
    for path, button in (
        ("/apply", ""),
        ("/login", ""),
        ("/login", "/login/passkey/begin"),
        ("/forgot", ""),
        (invitation.path, ""),
        (reset.path, ""),
        (reset_with_factor, ""),
        (stop_path, ""),
        # The following pages need a login; the first one needs a pending login.
        ("/login/factor", ""),
        ("/dashboard", ""),
        ("/security", "/security/authenticator/begin"),
        ("/security", "/security/passkeys/begin"),
    ):
        if path in {"/login/factor", "/dashboard"}:
            await _log_in(context, url, (login if path == "/dashboard" else pending_login).token)
        response = await page.goto(url + path)
        assert response is not None
        assert response.status == 200, path
        if button:
            async with page.expect_navigation():
                # The browser draws no frames, for which Playwright's click would wait.
                await page.locator(f'form[action$="{button}"] button').dispatch_event("click")
            assert not page.url.endswith(path), button
        await page.evaluate(_UNFOLD)
        if page_violations := await _find_violations(page):
            violations[button or path] = page_violations
    return violations
